"""The engine under ``predict``, ``explain`` and ``verify_many``: batches, dtype and progress change no answer."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from miv import Bags, ExemplarSet, InstancePool, Verifier
from miv.evaluation.predicting import explain, predict, witness_shares
from miv.runtime import Advance

# Five instances; bags of two, one and four of them.
VALUES = np.array([[1, 0], [0, 1], [1, 1], [-1, 0], [2, -1]], np.float32)
QUERIES, BAGS = [0, 1, 4], [[1, 2], [3], [0, 1, 2, 3]]


def some_set() -> ExemplarSet:
    return ExemplarSet.from_lists(InstancePool("features", VALUES), QUERIES, BAGS, labels=[1, 0, 1])


def some_verifier(pooling: str = "gabmil") -> Verifier:
    torch.manual_seed(0)
    return Verifier(pooling, channels=2).eval()


@pytest.mark.parametrize("together", [1, 3, 4096])
def test_a_set_is_answered_and_explained_as_one_by_one(together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("miv.verifier.engine._TOGETHER", together)
    verifier = some_verifier()
    logits, attention, alone = [], [], []
    for query, bag in zip(QUERIES, BAGS, strict=True):
        asked = torch.from_numpy(VALUES[[query]])
        with torch.no_grad():
            answer = verifier(asked, Bags.from_list([torch.from_numpy(VALUES[bag])]))
            members = [verifier(asked, Bags.from_list([torch.from_numpy(VALUES[[one]])])) for one in bag]
        logits.append(float(answer.logit))
        attention += answer.attention.tolist()
        alone += [float(member.logit) for member in members]
    found = predict(verifier, some_set())
    np.testing.assert_allclose(found.logit, logits, atol=1e-6)
    np.testing.assert_allclose(found.attention, attention, atol=1e-6)  # type: ignore[arg-type]
    np.testing.assert_allclose(explain(verifier, some_set(), "alone"), alone, atol=1e-6)
    shares = witness_shares(verifier, some_set(), found.logit, "alone")
    of_first = 1 / (1 + np.exp(-np.array(alone[:2])))
    np.testing.assert_allclose(shares[:2], of_first / of_first.sum(), atol=1e-6)


def test_the_score_of_the_baseline_is_the_similarity_of_each_instance() -> None:
    verifier = some_verifier("baseline")
    found = predict(verifier, some_set())
    assert found.score is not None
    np.testing.assert_allclose(found.score, explain(verifier, some_set(), "alone"), atol=1e-6)
    np.testing.assert_allclose([found.score[:2].max(), found.score[2], found.score[3:].max()], found.logit, atol=1e-6)


def test_a_verifier_says_where_it_computes_and_in_what() -> None:
    verifier = some_verifier()
    assert (verifier.device, verifier.dtype) == (torch.device("cpu"), torch.float32)
    assert verifier.double().dtype == torch.float64
    assert predict(verifier, some_set()).logit.shape == (3,)  # features are float32, and are converted
    assert verifier.to("meta").device == torch.device("meta")


class Steps:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int | None, int]] = []

    @contextmanager
    def step(self, text: str, total: int | None = None) -> Iterator[Advance]:
        done: list[int] = []
        yield done.append
        self.told.append((text, total, sum(done)))


def test_progress_is_told_of_every_exemplar() -> None:
    steps = Steps()
    some_verifier("mi_net").verify_many(VALUES[QUERIES], [VALUES[bag] for bag in BAGS], progress=steps)
    assert steps.told == [("Verifying", 3, 3), ("Explaining by leave_one_out", 3, 3)]
