"""Scores for instances: against the definitions, written out naively, and by eye."""

import numpy as np
import pytest
import torch
from torch import Tensor

from miv import Bags, Verifier, list_poolings
from miv.errors import MIVError
from miv.evaluation.predicting import explain, predict
from miv.verifier.explain import explain_features
from tests.training.tiny import tiny_sets

CHANNELS = 8
SIZES = (4, 1, 3, 4, 2)


def some_verifier(pooling: str) -> Verifier:
    torch.manual_seed(1)
    verifier = Verifier(pooling, channels=CHANNELS).eval()
    for weight in verifier.parameters():  # away from starting points such as the identity and zero
        weight.data += 0.3 * torch.randn_like(weight)
    return verifier


def some_bags(sizes: tuple[int, ...] = SIZES) -> tuple[Tensor, Bags]:
    torch.manual_seed(2)
    return torch.randn(len(sizes), CHANNELS), Bags.from_list([torch.randn(size, CHANNELS) for size in sizes])


def naive_logit(verifier: Verifier, query: Tensor, bag: Tensor, members: tuple[int, ...]) -> float:
    if not members:
        return 0.0
    with torch.inference_mode():
        return float(verifier.verify_features(query[None], Bags.from_list([bag[sorted(members)]])).logit)


@pytest.mark.parametrize("pooling", list_poolings())
def test_leave_one_out_is_the_logit_with_minus_the_logit_without(pooling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    verifier, (query, bags) = some_verifier(pooling), some_bags()
    expected = []
    for one, bag in zip(query, bags.split(bags.values), strict=True):
        everything = tuple(range(len(bag)))
        for instance in everything:
            rest = tuple(other for other in everything if other != instance)
            expected.append(naive_logit(verifier, one, bag, everything) - naive_logit(verifier, one, bag, rest))
    np.testing.assert_allclose(explain_features(verifier, query, bags, "leave_one_out"), expected, atol=1e-4)
    monkeypatch.setattr("miv.verifier.explain.ROWS", 3)  # in several calls
    np.testing.assert_allclose(explain_features(verifier, query, bags, "leave_one_out"), expected, atol=1e-4)


@pytest.mark.parametrize("pooling", list_poolings())
def test_alone_is_the_logit_of_a_bag_of_one(pooling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    verifier, (query, bags) = some_verifier(pooling), some_bags()
    expected = [
        naive_logit(verifier, one, bag, (instance,))
        for one, bag in zip(query, bags.split(bags.values), strict=True)
        for instance in range(len(bag))
    ]
    np.testing.assert_allclose(explain_features(verifier, query, bags, "alone"), expected, atol=1e-4)
    monkeypatch.setattr("miv.verifier.explain.ROWS", 3)  # in several calls
    np.testing.assert_allclose(explain_features(verifier, query, bags, "alone"), expected, atol=1e-4)


def test_an_error_leaves_every_part_in_its_mode() -> None:
    verifier, exemplars = some_verifier("mi_net").train(), tiny_sets("features", 20)["test"]
    verifier.backbone.eval()
    for work in (
        lambda: explain(verifier, exemplars, "attention"),
        lambda: predict(verifier, exemplars, np.zeros((1, 8), np.float32)),  # fewer rows than the pool has
        lambda: verifier.verify(np.full(8, np.nan), np.zeros((2, 8))),
    ):
        with pytest.raises((MIVError, IndexError)):
            work()
        assert verifier.training
        assert verifier.pooling.training
        assert not verifier.backbone.training


def test_a_bag_of_one_owes_all_to_its_instance() -> None:
    verifier, (query, bags) = some_verifier("mi_net"), some_bags((1,))
    with torch.inference_mode():
        logit = verifier.verify_features(query, bags).logit
    np.testing.assert_allclose(explain_features(verifier, query, bags, "leave_one_out"), logit, atol=1e-5)


@pytest.mark.parametrize(
    ("pooling", "method", "message"),
    [
        ("mi_net", "attention", "no attention.*alone or leave_one_out"),
        ("gabmil", "alon", "Did you mean 'alone'"),
    ],
)
def test_what_a_pooling_cannot_give_is_refused(pooling: str, method: str, message: str) -> None:
    with pytest.raises(MIVError, match=message):
        explain_features(some_verifier(pooling), *some_bags(), method)


def test_bags_that_would_take_hours_are_refused() -> None:
    verifier = Verifier("msa", channels=2)
    with pytest.raises(MIVError, match=r"20,000 instances. The pooling msa .* at most 10,000 per bag. Split the bag"):
        verifier.verify([1.0, 0.0], np.ones((20_000, 2), np.float32), witnesses="none")
    with pytest.raises(MIVError, match=r"2,001 instances. leave_one_out with the pooling msa .* Use alone"):
        verifier.verify([1.0, 0.0], np.ones((2001, 2), np.float32))
