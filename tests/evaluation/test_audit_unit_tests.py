"""The unit tests of poolings: that the laws are as they say, and that the outcomes tell poolings apart."""

from typing import Any

import pytest
import torch
from numpy.typing import NDArray

from miv.evaluation.audit_tests import CHANNELS, MARKED, SIZE, UNIT_TESTS, Law, draw, judge, run_unit_tests

Array = NDArray[Any]


def drawn(law: Law) -> tuple[Array, Array, Array, Array]:
    """Likeness to the query and mark of every instance ``(B, N)``, and the labels, of many exemplars."""
    query, bags, label = draw(law, 400, CHANNELS, torch.Generator().manual_seed(0))
    values = bags.values.reshape(400, SIZE, CHANNELS)
    content, asked = values[..., :-MARKED], query[:, None, :-MARKED]
    likeness = torch.nn.functional.cosine_similarity(content, asked.expand_as(content), dim=-1)
    return likeness.numpy(), values[..., -MARKED:].mean(dim=-1).numpy(), label.numpy(), bags.sizes.numpy()


def test_poison_changes_sides_between_training_and_test() -> None:
    for poisoned, law in enumerate(UNIT_TESTS["poison"]):
        _, mark, label, sizes = drawn(law)
        marked = (mark > 1).sum(axis=1)
        assert (marked == (label == poisoned)).all()
        assert (sizes == SIZE).all()
        assert label.mean() == 0.5


def test_witnesses_are_alike_and_as_many_as_the_law_says() -> None:
    likeness, _, label, _ = drawn(Law(witnesses=(0, 3), noise=0.1))
    alike = (likeness > 0.9).sum(axis=1)
    assert (alike == 3 * label).all()


def test_frequency_changes_sides_between_training_and_test() -> None:
    for law, more in zip(UNIT_TESTS["false_frequency"], (1, 0), strict=True):
        likeness, _, label, _ = drawn(law)
        mean = likeness.mean(axis=1)
        assert mean[label == more].mean() > mean[label != more].mean() + 0.05
        assert likeness[label == 1].max(axis=1).min() > 0.5  # but the greatest likeness always tells


def test_the_outcome_follows_from_the_seed_and_leaves_other_random_numbers_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first, again = (run_unit_tests("gabmil", {}, tests=["poison"], steps=3, seed=1, seeds=2) for _ in range(2))
    assert first == again
    runs = first["poison"]["runs"]
    assert [run["seed"] for run in runs] == [1, 2]
    assert runs[0]["test_auroc"] != runs[1]["test_auroc"]
    assert first["poison"]["test_auroc"] == pytest.approx((runs[0]["test_auroc"] + runs[1]["test_auroc"]) / 2)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    ("train", "test", "outcome"),
    [
        ((0.90, 0.92), (0.87, 0.93), "pass"),
        ((1.00, 1.00), (0.97, 0.78), "weak"),  # one of two did not learn the rule
        ((1.00, 1.00), (0.60, 0.30), "fail"),  # 0.45 in the mean
        ((0.63, 0.65), (0.63, 0.65), "not learnt"),  # as good in the test, but of nothing
    ],
)
def test_outcomes(train: tuple[float, ...], test: tuple[float, ...], outcome: str) -> None:
    assert judge([{"train_auroc": a, "test_auroc": b} for a, b in zip(train, test, strict=True)]) == outcome


def test_the_heads_of_a_model_need_not_divide_the_channels() -> None:
    assert run_unit_tests("cap_dba_l2", {"heads": 3}, tests=["poison"], steps=1, seeds=1)["poison"]["outcome"]


@pytest.mark.slow
def test_the_greatest_likeness_passes_and_blind_attention_is_poisoned() -> None:
    """The baseline cannot hold an instance against a bag; gated attention, which does not see the query, does."""
    found = run_unit_tests("baseline", {})
    assert {name: one["outcome"] for name, one in found.items()} == {
        "poison": "pass",
        "threshold": "not learnt",  # it cannot count
        "false_frequency": "pass",
    }
    assert run_unit_tests("gabmil", {})["poison"]["outcome"] == "fail"
