"""The synthetic twin: how hard it is."""

import numpy as np
import pytest
from benchmarks.twins import nearest_neighbour

from miv.data import ExemplarSet
from miv.runtime import SilentProgress
from miv.tasks import create_task
from miv.tasks.digits_twin import Hands


def build(**options: float) -> dict[str, ExemplarSet]:
    return create_task("digits-twin", **options).build(SilentProgress())


def test_a_nearest_neighbour_is_better_than_chance_and_far_from_perfect() -> None:
    figures = [nearest_neighbour(build(seed=seed, writers=7)["test"]) for seed in range(2)]
    auroc, inside = np.mean(figures, axis=0)
    assert 0.58 < auroc < 0.85
    assert 0.6 < inside < 0.995


@pytest.mark.slow
def test_difficulty_makes_it_harder() -> None:
    easy, hard = (nearest_neighbour(build(difficulty=d, writers=8)["test"])[0] for d in (0.3, 2.5))
    assert easy > hard + 0.03


def write(writers: int, copies: int, difficulty: float) -> np.ndarray:
    """Return ``(writers, 10, copies, 28, 28)``."""
    rng = np.random.default_rng(0)
    writer = np.repeat(np.arange(writers), 10 * copies)
    digit = np.tile(np.repeat(np.arange(10), copies), writers)
    return Hands.draw(writers, rng).write(writer, digit, difficulty, rng).reshape(writers, 10, copies, 28, 28)
