"""Scores for instances: against the definitions, written out naively, and by eye."""

from functools import partial
from itertools import permutations
from math import factorial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from miv import Bags, Verifier, list_poolings
from miv.errors import MIVError
from miv.evaluation.predicting import explain, predict
from miv.verifier.explain import LogitFunction, explain_features, score_instances, shapley
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


def naive_shapley(verifier: Verifier, query: Tensor, bag: Tensor) -> list[float]:
    """The mean, over all orders, of what an instance adds to those that came before it."""
    scores = [0.0] * len(bag)
    for order in permutations(range(len(bag))):
        for place, instance in enumerate(order):
            before, after = order[:place], order[: place + 1]
            scores[instance] += naive_logit(verifier, query, bag, after) - naive_logit(verifier, query, bag, before)
    return [score / factorial(len(bag)) for score in scores]


@pytest.mark.parametrize("pooling", list_poolings())
def test_leave_one_out_is_the_logit_with_minus_the_logit_without(pooling: str) -> None:
    verifier, (query, bags) = some_verifier(pooling), some_bags()
    expected = []
    for one, bag in zip(query, bags.split(bags.values), strict=True):
        everything = tuple(range(len(bag)))
        for instance in everything:
            rest = tuple(other for other in everything if other != instance)
            expected.append(naive_logit(verifier, one, bag, everything) - naive_logit(verifier, one, bag, rest))
    found = explain_features(verifier, query, bags, "leave_one_out")
    np.testing.assert_allclose(found, expected, atol=1e-4)


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


@pytest.mark.parametrize("pooling", ["cap_dba_l2", "mi_net", "bi_lstm", "msa"])
def test_exact_shapley_is_the_mean_over_all_orders(pooling: str) -> None:
    verifier, (query, bags) = some_verifier(pooling), some_bags()
    expected = [
        score
        for one, bag in zip(query, bags.split(bags.values), strict=True)
        for score in naive_shapley(verifier, one, bag)
    ]
    np.testing.assert_allclose(explain_features(verifier, query, bags, "shapley"), expected, atol=1e-4)


@settings(max_examples=20, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    exact_up_to=st.integers(1, 6),
    permutations=st.integers(1, 5),
)
def test_shapley_scores_sum_to_the_logit(sizes: list[int], exact_up_to: int, permutations: int) -> None:
    verifier, (query, bags) = some_verifier("mi_net"), some_bags(tuple(sizes))
    found = explain_features(verifier, query, bags, "shapley", exact_up_to=exact_up_to, permutations=permutations)
    with torch.inference_mode():
        logit = verifier.verify_features(query, bags).logit
    np.testing.assert_allclose(bags.sum(found), logit, atol=1e-4)


def test_sampled_shapley_comes_near_the_exact_one_with_more_orders() -> None:
    verifier, (query, bags) = some_verifier("mi_net"), some_bags((6, 6, 7))
    exact = explain_features(verifier, query, bags, "shapley")

    def error(permutations: int) -> float:
        options = {"exact_up_to": 1, "permutations": permutations}
        found = explain_features(verifier, query, bags, "shapley", **options)
        return float((found - exact).abs().mean())

    few, many = error(4), error(2000)
    assert many < 0.2 * few
    assert many < 0.02 * float(exact.abs().mean())


def game(moved: float) -> LogitFunction:
    """Bags of numbers: the greatest of a bag counts, and each of them a little; the logit is moved as a whole."""

    def logits(query: Tensor, bags: Bags) -> Tensor:
        values = bags.values[:, 0]
        return torch.stack([part.max() + 0.3 * part.sum() for part in bags.split(values)]) + moved

    return logits


@pytest.mark.parametrize("moved", [-5.0, 3.0])
def test_a_sample_does_not_depend_on_the_logit_of_nothing(moved: float) -> None:
    """All logits moved by b, all scores move by b / N: the order of the instances is the same."""
    torch.manual_seed(0)
    bags = Bags.from_list([torch.randn(12, 1)])

    def scores(moved: float, exact_up_to: int) -> Any:
        return score_instances(game(moved), torch.zeros(1, 1), bags, partial(shapley, exact_up_to, 32))

    np.testing.assert_allclose(scores(moved, 1), scores(0.0, 1) + moved / 12, atol=1e-5)
    np.testing.assert_allclose(scores(moved, 1), scores(moved, 12), atol=0.15)


def test_a_bag_has_the_same_sample_whatever_is_beside_it() -> None:
    verifier, (query, bags) = some_verifier("mi_net"), some_bags((6, 4, 6))
    together = explain_features(verifier, query, bags, "shapley", exact_up_to=1, permutations=4)
    for place, part in enumerate(bags.split(together)):
        alone = Bags.from_list([bags.split(bags.values)[place]])
        found = explain_features(verifier, query[place : place + 1], alone, "shapley", exact_up_to=1, permutations=4)
        np.testing.assert_allclose(found, part, atol=1e-5)


def test_an_error_leaves_every_part_in_its_mode() -> None:
    verifier, exemplars = some_verifier("mi_net").train(), tiny_sets("features", 20)["test"]
    verifier.backbone.eval()
    for work in (
        lambda: explain(verifier, exemplars, "shapley", permutations=0),
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
    for method in ("leave_one_out", "shapley"):
        np.testing.assert_allclose(explain_features(verifier, query, bags, method), logit, atol=1e-5)


@pytest.mark.parametrize(
    ("pooling", "method", "message"),
    [
        ("mi_net", "attention", "no attention.*alone, leave_one_out or shapley"),
        ("gabmil", "shaply", "Did you mean 'shapley'"),
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
