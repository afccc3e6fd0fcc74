"""The synthetic twins: what they draw, how hard they are, and what they refuse."""

import numpy as np
import pytest
from benchmarks.twins import TWINS, nearest_neighbour

from miv.data import ExemplarSet
from miv.runtime import SilentProgress
from miv.tasks import create_task
from miv.tasks.digits_twin import Hands
from tests.tasks.test_contract import SMALL


def build(name: str, **options: float) -> dict[str, ExemplarSet]:
    return create_task(name, **options).build(SilentProgress())


@pytest.mark.parametrize("name", TWINS)
def test_a_nearest_neighbour_is_better_than_chance_and_far_from_perfect(name: str) -> None:
    options = {"pages": 2} if name == "claims-twin" else {"writers": 7}  # only the test split counts here
    figures = [nearest_neighbour(build(name, seed=seed, **options)["test"]) for seed in range(2)]
    auroc, inside = np.mean(figures, axis=0)
    assert 0.58 < auroc < 0.85
    assert 0.6 < inside < 0.995


@pytest.mark.slow
@pytest.mark.parametrize("name", TWINS)
def test_difficulty_makes_it_harder(name: str) -> None:
    options = {
        "digits-twin": {"writers": 8},
        "claims-twin": {"pages": 2, "held_out_pages": 150},
    }[name]
    easy, hard = (nearest_neighbour(build(name, difficulty=d, **options)["test"])[0] for d in (0.3, 2.5))
    assert easy > hard + 0.03


def test_claims_read_like_the_pages_they_are_about() -> None:
    exemplars = build("claims-twin", **SMALL["claims-twin"])["train"]
    texts, classes = exemplars.pool.values, exemplars.pool.classes
    assert not [text for text in texts if "{" in text or "  " in text]
    assert all(text[0].isupper() and text.endswith(".") for text in texts)
    for e in range(len(exemplars)):
        query, bag, witness = int(exemplars.query[e]), exemplars.bag(e), exemplars.bag_witness(e)
        page = classes[query]
        assert page in texts[query]
        # Some word of the claim that is not its subject stands in every witness.
        words = set(texts[query].replace(page, "").strip(".").split())
        for sentence in texts[bag[witness]]:
            assert words & set(sentence.replace(",", " ").strip(".").split())


def write(writers: int, copies: int, difficulty: float) -> np.ndarray:
    """Return ``(writers, 10, copies, 28, 28)``."""
    rng = np.random.default_rng(0)
    writer = np.repeat(np.arange(writers), 10 * copies)
    digit = np.tile(np.repeat(np.arange(10), copies), writers)
    return Hands.draw(writers, rng).write(writer, digit, difficulty, rng).reshape(writers, 10, copies, 28, 28)
