"""Bags of six rows that can be checked by eye, and every operation against a loop over the bags."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor

from miv import Bags, MIVError, Verifier
from miv.bags.bags import as_bags
from miv.bags.borders import BLOCK_ROWS

# Three bags of sizes 3, 1 and 2.
VALUES = torch.tensor([[1.0, 10.0], [2.0, 20.0], [6.0, 0.0], [5.0, 5.0], [4.0, 0.0], [0.0, 8.0]])
PTR = torch.tensor([0, 3, 4, 6])
SIX = Bags(VALUES, PTR)


def test_six_rows_by_eye() -> None:
    assert SIX.sizes.tolist() == [3, 1, 2]
    assert SIX.owner.tolist() == [0, 0, 0, 1, 2, 2]
    assert SIX.sum(VALUES).tolist() == [[9, 30], [5, 5], [4, 8]]
    assert SIX.mean(VALUES).tolist() == [[3, 10], [5, 5], [2, 4]]
    assert SIX.max(VALUES).tolist() == [[6, 20], [5, 5], [4, 8]]
    torch.testing.assert_close(SIX.var(VALUES), torch.tensor([[14 / 3, 200 / 3], [0, 0], [4, 16]]))
    assert SIX.expand(torch.tensor([[7.0], [8.0], [9.0]])).flatten().tolist() == [7, 7, 7, 8, 9, 9]
    half = torch.tensor([[0.5, 0.0], [0.5, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.25], [1.0, 0.75]])
    assert SIX.weighted_sum(half, VALUES).tolist() == [[1.5, 0], [5, 5], [0, 6]]
    dots = SIX.dot(torch.tensor([[1.0, 1.0], [2.0, 0.0], [0.0, 3.0]]), VALUES, heads=1)
    assert dots.flatten().tolist() == [11, 22, 6, 10, 0, 24]
    assert [part.tolist() for part in SIX.split(torch.arange(6))] == [[0, 1, 2], [3], [4, 5]]


def test_softmax_by_eye() -> None:
    scores = torch.tensor([[1.0], [1.0], [1.0], [-500.0], [0.0], [torch.log(torch.tensor(3.0))]])
    expected = torch.tensor([[1 / 3], [1 / 3], [1 / 3], [1.0], [0.25], [0.75]])
    torch.testing.assert_close(SIX.softmax(scores), expected)


def test_padded_and_back() -> None:
    padded, mask = SIX.to_padded()
    assert padded.shape == (3, 3, 2)
    assert mask.tolist() == [[True] * 3, [True, False, False], [True, True, False]]
    assert not padded[~mask].any()
    back = Bags.from_padded(padded, mask)
    assert torch.equal(back.values, VALUES)
    assert torch.equal(back.ptr, PTR)


def test_shuffled_keeps_every_bag() -> None:
    torch.manual_seed(0)
    shuffled = SIX.shuffled()
    for before, after in zip(SIX.split(VALUES), SIX.split(shuffled.values), strict=True):
        assert sorted(before.tolist()) == sorted(after.tolist())
    assert any(not torch.equal(SIX.shuffled().values, VALUES) for _ in range(20))


def loop(bags: Bags, rows: Tensor, of_bag: Callable[[Tensor, int], Tensor]) -> Tensor:
    return torch.cat([of_bag(part, b) for b, part in enumerate(torch.split(rows, bags.sizes.tolist()))])


# Sizes around the border of a block, and bags larger than one.
sizes_of_bags = st.one_of(
    st.lists(st.integers(1, 40), min_size=1, max_size=8),
    st.lists(st.sampled_from([1, BLOCK_ROWS - 1, BLOCK_ROWS, BLOCK_ROWS + 1]), min_size=1, max_size=4),
)


@given(sizes=sizes_of_bags, heads=st.sampled_from([1, 2]), seed=st.integers(0, 99))
def test_operations_and_gradients_equal_a_loop(sizes: list[int], heads: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64, requires_grad=True)

    width = 3
    total, channels = sum(sizes), heads * width
    values, rows, weights, beta = draw(total, channels), draw(len(sizes), channels), draw(total, heads), draw(channels)
    bags = Bags(values, torch.tensor([0, *torch.tensor(sizes).cumsum(0).tolist()]))

    def by_head(x: Tensor) -> Tensor:
        return x.reshape(len(x), heads, width)

    def start(b: int) -> slice:
        return slice(int(bags.ptr[b]), int(bags.ptr[b + 1]))

    def normed(part: Tensor, b: int) -> Tensor:
        x = by_head(part * rows[b])
        x = (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + 1e-3).sqrt()
        return (x * weights[start(b)][..., None]).sum(0, keepdim=True).flatten(1)

    pairs: dict[str, tuple[Tensor, Tensor]] = {
        "sum": (bags.sum(values), loop(bags, values, lambda x, b: x.sum(0, keepdim=True))),
        "mean": (bags.mean(values), loop(bags, values, lambda x, b: x.mean(0, keepdim=True))),
        "var": (bags.var(values), loop(bags, values, lambda x, b: x.var(0, correction=0, keepdim=True))),
        "max": (bags.max(values), loop(bags, values, lambda x, b: x.amax(0, keepdim=True))),
        "logsumexp": (bags.logsumexp(values), loop(bags, values, lambda x, b: x.logsumexp(0, keepdim=True))),
        "softmax": (bags.softmax(values), loop(bags, values, lambda x, b: x.softmax(0))),
        "expand": (bags.expand(rows), loop(bags, values, lambda x, b: rows[b].expand_as(x))),
        "dot": (bags.dot(rows, values, heads), loop(bags, values, lambda x, b: by_head(x * rows[b]).sum(-1))),
        "weighted_sum": (
            bags.weighted_sum(weights, values),
            loop(bags, values, lambda x, b: (by_head(x) * weights[start(b)][..., None]).sum(0, True).flatten(1)),
        ),
        "distance 1": (
            bags.distance(rows, values, beta, 1, heads),
            loop(bags, values, lambda x, b: by_head((rows[b] - x).abs() * beta).sum(-1)),
        ),
        "distance 2": (
            bags.distance(rows, values, beta, 2, heads),
            loop(bags, values, lambda x, b: by_head((rows[b] - x).square() * beta).sum(-1)),
        ),
        "normed_sum": (bags.normed_sum(weights, values, rows, 1e-3), loop(bags, values, normed)),
        "to_padded": (bags.to_padded()[0][bags.to_padded()[1]], values),
    }
    for name, (ours, expected) in pairs.items():
        torch.testing.assert_close(ours, expected, msg=f"{name} differs")
        direction = torch.randn(ours.shape, generator=generator, dtype=torch.float64)
        inputs = (values, rows, weights, beta)
        gradients = torch.autograd.grad(ours, inputs, direction, allow_unused=True)
        for ours_grad, expected_grad in zip(
            gradients, torch.autograd.grad(expected, inputs, direction, allow_unused=True), strict=True
        ):
            assert (ours_grad is None) == (expected_grad is None), name
            if ours_grad is not None:
                torch.testing.assert_close(ours_grad, expected_grad, msg=f"the gradient of {name} differs")


@pytest.mark.parametrize("shape", [(6,), (6, 2, 2)])
def test_rows_of_any_shape(shape: tuple[int, ...]) -> None:
    rows = torch.randn(*shape, dtype=torch.float64, requires_grad=True)
    two_d = rows.reshape(6, -1)
    for operation in ("sum", "mean", "var", "max", "softmax", "logsumexp"):
        ours, flat = getattr(SIX, operation)(rows), getattr(SIX, operation)(two_d)
        assert torch.equal(ours.reshape(flat.shape), flat), operation
        weights = torch.randn(ours.shape, dtype=torch.float64)
        gradient = torch.autograd.grad((ours * weights).sum(), rows)[0]
        expected = torch.autograd.grad((flat * weights.reshape(flat.shape)).sum(), rows, retain_graph=True)[0]
        torch.testing.assert_close(gradient, expected)
    few = torch.randn(3, *shape[1:], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(SIX.expand, (few,))


def test_equal_maxima_share_the_gradient() -> None:
    rows = torch.tensor([[2.0], [2.0], [1.0]], requires_grad=True)
    Bags(rows, torch.tensor([0, 3])).max(rows).sum().backward()
    assert rows.grad is not None
    assert rows.grad.flatten().tolist() == [0.5, 0.5, 0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Bags(VALUES, torch.tensor([0, 4, 3, 6])), "ptr falls from 4 to 3 at bag 1"),
        (lambda: Bags(VALUES, torch.tensor([0, 3, 3, 6])), "Bag 1 is empty"),
        (lambda: Bags(VALUES, torch.tensor([0, 5])), "Expected 0 to 6"),
        (lambda: Bags(VALUES, torch.tensor([1, 6])), "Expected 0 to 6"),
        (lambda: Bags(VALUES, torch.tensor([0.0, 6.0])), "Expected int64"),
        (lambda: Bags(VALUES, torch.tensor([0], dtype=torch.int32)), "Expected int64"),
        (lambda: Bags(VALUES, torch.tensor([0])), "B of at least 1"),
        (lambda: Bags(torch.tensor(1.0), torch.tensor([0, 1])), "one row per instance"),
        (lambda: Bags([[1.0]], torch.tensor([0, 1])), "values is a list"),  # type: ignore[arg-type]
        (lambda: Bags.from_list([]), "There are no bags"),
        (lambda: Bags.from_list([VALUES, VALUES[:, :1]]), "Bag 1 is float32 (6, 1), but bag 0"),
        (lambda: Bags.from_list([VALUES, VALUES.double()]), "Expected the same dtype"),
        (lambda: Bags.from_list([VALUES, VALUES[:0]]), "Bag 1 is empty"),
        (lambda: Bags.from_list([VALUES, [1.0]]), "Bag 1 is a list"),  # type: ignore[list-item]
        (lambda: Bags.from_padded(VALUES[None], torch.ones(1, 5, dtype=torch.bool)), "a bool mask (B, N)"),
        (lambda: Bags.from_padded(VALUES[None], torch.ones(1, 6)), "a bool mask (B, N)"),
        (lambda: Bags.from_padded(VALUES[None], torch.zeros(1, 6, dtype=torch.bool)), "Bag 0 is empty"),
        (lambda: SIX.with_values(VALUES[:5]), "Expected 6 rows"),
    ],
)
def test_malformed_bags_say_what_was_given_and_expected(make: Callable[[], Bags], message: str) -> None:
    with pytest.raises(MIVError) as caught:
        make()
    assert message in str(caught.value)


def test_bags_are_indexed_and_looped_over() -> None:
    assert [bag.tolist() for bag in SIX] == [VALUES[:3].tolist(), VALUES[3:4].tolist(), VALUES[4:].tolist()]
    assert torch.equal(SIX[0], VALUES[:3])
    assert torch.equal(SIX[-1], VALUES[4:])
    last = SIX[torch.tensor(2)]  # a number, though a tensor
    assert isinstance(last, Tensor)
    assert torch.equal(last, VALUES[4:])
    assert torch.equal(SIX[np.int64(1)], VALUES[3:4])
    for chosen in ([2, 0], torch.tensor([2, 0]), np.array([2, 0]), np.array([-1, 0], np.int32), slice(None, None, -2)):
        assert [bag.tolist() for bag in SIX[chosen]] == [VALUES[4:].tolist(), VALUES[:3].tolist()]
    mask = [False, True, True]
    for middle in (slice(1, 3), mask, torch.tensor(mask), np.array(mask)):
        assert torch.equal(SIX[middle].ptr, torch.tensor([0, 1, 3]))
        assert torch.equal(SIX[middle].values, VALUES[3:])
    beyond = (3, np.array([0, 3]), np.array([True, False]))
    for wrong in (*beyond, np.array([0.5]), "01", [[0], [1]], [[0], [1, 2]], 1.5, None):
        with pytest.raises(IndexError, match=r"The bags cannot be indexed by .* Expected a number from 0 to 2"):
            SIX[wrong]
    with pytest.raises(MIVError, match="selects no bag"):
        SIX[3:]
    with pytest.raises(MIVError, match="selects no bag"):
        SIX[[]]
    assert repr(SIX) == "Bags(3 bags, values float32 (6, 2))"


def test_bags_travel() -> None:
    assert SIX.to("cpu") is SIX
    double = SIX.to(torch.float64)
    assert (double.dtype, double.ptr.dtype, double.values.tolist()) == (torch.float64, torch.int64, VALUES.tolist())
    there = SIX.to("meta", non_blocking=True)
    assert there.device == there.values.device == there.ptr.device == torch.device("meta")
    assert len(there) == 3


NESTED = torch.nested.nested_tensor([torch.zeros(3, 2), torch.zeros(2, 2)])
JAGGED = torch.nested.nested_tensor([torch.zeros(3, 2), torch.zeros(2, 2)], layout=torch.jagged)
VERIFIER = Verifier("nearest", channels=2)


@pytest.mark.parametrize("nested", [NESTED, JAGGED], ids=["strided", "jagged"])
@pytest.mark.parametrize(
    "use",
    [
        as_bags,
        lambda nested: Bags(nested, torch.tensor([0, 2])),
        lambda nested: Bags.from_list([nested]),
        lambda nested: VERIFIER(VALUES[:2], nested),
        lambda nested: VERIFIER(nested, SIX),
        lambda nested: VERIFIER.verify_features(nested, SIX),
        lambda nested: VERIFIER.pooling(VALUES[:2], nested),
        lambda nested: VERIFIER.verify(VALUES[0], nested),
        lambda nested: VERIFIER.verify_many(VALUES[:2], nested),
        lambda nested: VERIFIER.verify_stream(VALUES[:1], nested),
    ],
)
def test_a_nested_tensor_is_told_how_to_become_bags(use: Callable[[Tensor], object], nested: Tensor) -> None:
    with pytest.raises(MIVError, match=r"nested tensor.*Bags\.from_list"):
        use(nested)
