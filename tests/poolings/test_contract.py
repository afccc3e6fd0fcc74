"""The contract of every pooling in the registry, and of CAP's options."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import miv
from miv import Bags, Verification, Verifier
from miv.poolings.pooling_base import Start
from tests.poolings import naive

# Every name as it comes, and then what its options can make of it.
CASES: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in miv.list_poolings()),
    ("pma", {"seeds": 1}),
    ("mi_net", {"pool": "mean"}),
    ("mi_net", {"pool": "lse", "hidden": [8]}),
    ("cap_vema", {"heads": 1, "projection": False}),
    ("cap_vema", {"heads": 3, "norm": "post"}),
    ("cap_dba_l1", {"heads": 1, "projection": False, "co_excitation": False, "norm": "none"}),
    ("cap_dba_l2", {"co_excitation": False, "norm": "none"}),
    ("cap_dba_l2", {"gate_reads": "projected_query", "norm": "none"}),
    ("cap_dba_l2", {"co_excitation": False}),
    ("cap_ma", {"heads": 4, "norm": "post", "co_excitation": False}),
    ("maxsim", {"width": 4}),
    ("cap_tokens", {"vector": 6, "width": 3}),
    ("cap_tokens", {"vector": 4, "width": 2, "heads": 2}),
]
STARTS: tuple[Start, ...] = ("paper", "similar")
every_start = pytest.mark.parametrize("start", STARTS)
every_pooling = pytest.mark.parametrize("name", miv.list_poolings())
CHANNELS = 12


def every_case(test: Callable[..., None]) -> Callable[..., None]:
    by_options = pytest.mark.parametrize(("name", "options"), CASES, ids=lambda x: x if isinstance(x, str) else str(x))
    return by_options(every_start(test))


def verifier_of(
    name: str, options: dict[str, Any], start: Start, channels: int = CHANNELS, seed: int = 0, away: float = 0.3
) -> Verifier:
    """A verifier in float64 whose weights have all left their starting values."""
    torch.manual_seed(seed)
    verifier = Verifier(name, channels=channels, pooling_options=options, start=start).double()
    with torch.no_grad():
        for parameter in verifier.parameters():
            parameter.add_(away * torch.randn_like(parameter))
        for buffer in verifier.buffers():  # the centre
            buffer.add_(0.1 * torch.randn_like(buffer))
    return verifier.eval()


def learning(verifier: Verifier) -> dict[str, Tensor]:
    return {key: parameter for key, parameter in verifier.named_parameters() if parameter.requires_grad}


def exemplars(sizes: list[int], channels: int = CHANNELS, seed: int = 1) -> tuple[Tensor, list[Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(len(sizes), channels, generator=generator, dtype=torch.float64)
    return query, [torch.randn(n, channels, generator=generator, dtype=torch.float64) for n in sizes]


def assert_same(a: Verification, b: Verification, atol: float = 1e-9) -> None:
    torch.testing.assert_close(a.logit, b.logit, atol=atol, rtol=0)
    torch.testing.assert_close(a.query_vector, b.query_vector, atol=atol, rtol=0)
    torch.testing.assert_close(a.bag_vector, b.bag_vector, atol=atol, rtol=0)
    assert (a.attention is None) == (b.attention is None)
    if a.attention is not None:
        torch.testing.assert_close(a.attention, b.attention, atol=atol, rtol=0)


def test_every_pooling_has_a_naive_twin() -> None:
    assert set(naive.POOLINGS) == set(miv.list_poolings())


@every_case
def test_equals_the_naive_loop(name: str, options: dict[str, Any], start: Start) -> None:
    verifier = verifier_of(name, options, start)
    query, bags = exemplars([4, 1, 7])
    answer = verifier(query, Bags.from_list(bags))
    weights = {key: value.numpy() for key, value in verifier.pooling.state_dict().items()}

    attention: list[list[float]] = []
    for b in range(3):
        bag = np.array([naive.first_norm(weights, row.numpy()) for row in bags[b]])
        normed_query = naive.first_norm(weights, query[b].numpy())
        vector_q, vector_p, by_instance = naive.POOLINGS[name](weights, options, normed_query, bag)
        torch.testing.assert_close(answer.query_vector[b], torch.tensor(vector_q), atol=1e-9, rtol=0)
        torch.testing.assert_close(answer.bag_vector[b], torch.tensor(vector_p), atol=1e-9, rtol=0)
        assert answer.logit[b].item() == pytest.approx(naive.similarity(weights, vector_q, vector_p, options), abs=1e-9)
        attention += by_instance or []
    if answer.attention_by_head is None:
        assert not attention
    else:
        expected = torch.tensor(attention, dtype=torch.float64)
        torch.testing.assert_close(answer.attention_by_head, expected, atol=1e-9, rtol=0)


@every_case
def test_the_order_of_instances_does_not_matter(name: str, options: dict[str, Any], start: Start) -> None:
    if name == "bi_lstm":
        pytest.skip("a recurrent pooling reads a bag in order, by its nature")
    if options.get("order") == "position":
        pytest.skip("the option asks for it: tests/poolings/test_positions.py")
    verifier = verifier_of(name, options, start)
    query, bags = exemplars([5, 2])
    orders = [torch.tensor([3, 0, 4, 1, 2]), torch.tensor([1, 0])]
    plain = verifier(query, Bags.from_list(bags))
    moved = verifier(query, Bags.from_list([bag[order] for bag, order in zip(bags, orders, strict=True)]))
    torch.testing.assert_close(plain.logit, moved.logit)
    if plain.attention is not None:
        for b, order in enumerate(orders):
            torch.testing.assert_close(plain.attention_of(b)[order], moved.attention_of(b))


def test_bi_lstm_reads_in_order_but_trains_on_random_orders() -> None:
    verifier = verifier_of("bi_lstm", {}, "similar")
    query, bags = exemplars([6])
    forwards, backwards = Bags.from_list(bags), Bags.from_list([bags[0].flip(0)])
    assert verifier(query, forwards).logit != verifier(query, backwards).logit
    assert verifier(query, forwards).logit == verifier(query, forwards).logit
    verifier.train()
    assert len({verifier(query, forwards).logit.item() for _ in range(8)}) > 1


@every_case
@settings(max_examples=15, deadline=None)
@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=6), seed=st.integers(0, 2**16))
def test_a_batch_equals_its_exemplars_one_by_one(
    name: str, options: dict[str, Any], start: Start, sizes: list[int], seed: int
) -> None:
    verifier = verifier_of(name, options, start, seed=seed)
    query, bags = exemplars(sizes, seed=seed)
    together = verifier(query, Bags.from_list(bags))
    for b, bag in enumerate(bags):
        alone = verifier(query[b : b + 1], Bags.from_list([bag]))
        torch.testing.assert_close(together.logit[b : b + 1], alone.logit)
        if together.attention is not None:
            torch.testing.assert_close(together.attention_of(b), alone.attention_of(0))


@every_pooling
@every_start
@settings(max_examples=15, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=5),
    heads=st.sampled_from([1, 2, 3]),
    width=st.sampled_from([1, 2, 5]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
)
def test_attention_and_gradients_are_sound(
    name: str, start: Start, sizes: list[int], heads: int, width: int, dtype: torch.dtype, scale: float
) -> None:
    options = {"heads": heads} if name in ("pma", "msa") or name.startswith("cap") else {}
    verifier = verifier_of(name, options, start, channels=heads * width).to(dtype).train()
    query, bags = exemplars(sizes, channels=heads * width)
    query = (query * scale).to(dtype).requires_grad_()
    values = (torch.cat(bags) * scale).to(dtype).requires_grad_()
    answer = verifier(query, Bags.from_list(bags).with_values(values))
    answer.logit.sum().backward()

    assert torch.isfinite(answer.logit).all()
    tensors = {**learning(verifier), "query": query, "bag": values}
    for key, tensor in tensors.items():
        assert tensor.grad is not None, f"{key} has no gradient"
        assert torch.isfinite(tensor.grad).all(), f"the gradient of {key} is not finite"
    if answer.attention is not None:
        assert (answer.attention >= 0).all()
        for b in range(len(sizes)):
            assert answer.attention_of(b).sum().item() == pytest.approx(1, abs=1e-4)


@every_case
def test_gradients_equal_finite_differences(name: str, options: dict[str, Any], start: Start) -> None:
    verifier = verifier_of(name, options, start)
    query, bags = exemplars([3, 1, 2])
    borders = Bags.from_list(bags)
    parameters = [p for p in learning(verifier).values() if p.numel() <= 200]

    def logits(query: Tensor, values: Tensor, *_: Tensor) -> Tensor:
        return verifier(query, borders.with_values(values)).logit

    inputs = (query.requires_grad_(), borders.values.clone().requires_grad_(), *parameters)
    assert torch.autograd.gradcheck(logits, inputs, atol=1e-5, fast_mode=True)


@every_case
@pytest.mark.parametrize("way", ["bfloat16", "autocast"])
def test_bfloat16_is_tolerated(name: str, options: dict[str, Any], start: Start, way: str) -> None:
    channels = 96  # enough for a sum over channels to lose digits
    query, bags = exemplars([9, 1, 30], channels)
    away = 0.15  # further away, some attention is so sharp that a rounding decides
    expected = verifier_of(name, options, start, channels, away=away)(query, Bags.from_list(bags))
    verifier = verifier_of(name, options, start, channels, away=away)
    verifier = verifier.to(torch.bfloat16 if way == "bfloat16" else torch.float32)
    dtype = next(verifier.parameters()).dtype
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=way == "autocast"):
        answer = verifier(query.to(dtype), Bags.from_list([bag.to(dtype) for bag in bags]))
    scale = expected.logit.abs().max().item()
    torch.testing.assert_close(answer.logit.double(), expected.logit, atol=0.05 * scale + 0.05, rtol=0.05)
    # A norm of several steps is rounded more often; cap_tokens has no other.
    tolerance = 0.06 if start == "similar" or name == "cap_tokens" else 0.03
    if name != "baseline" and answer.attention is not None and expected.attention is not None:  # a tie may turn
        torch.testing.assert_close(answer.attention.double(), expected.attention, atol=tolerance, rtol=0.05)
    answer.logit.sum().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in learning(verifier).values())


@every_case
def test_saved_and_loaded_gives_the_same(name: str, options: dict[str, Any], start: Start, tmp_path: Path) -> None:
    verifier = verifier_of(name, options, start).float()
    query, bags = exemplars([4, 1])
    inputs = query.float(), Bags.from_list([bag.float() for bag in bags])
    verifier.save_pretrained(tmp_path)
    assert_same(verifier(*inputs), Verifier.from_pretrained(tmp_path)(*inputs), atol=1e-6)


def test_equal_maxima_share_the_attention_of_the_baseline() -> None:
    verifier = Verifier("baseline", channels=2)
    row = torch.tensor([1.0, 3.0])
    answer = verifier(row[None], Bags.from_list([torch.stack([row, row, -row])]))
    assert answer.attention_of(0).tolist() == [0.5, 0.5, 0.0]


@every_pooling
@every_start
def test_bags_that_were_looked_at_can_be_trained_on(name: str, start: Start) -> None:
    verifier = verifier_of(name, {}, start)
    query, bags = exemplars([3, 2])
    both = Bags.from_list(bags)
    with torch.inference_mode():
        seen = verifier(query, both).logit.clone()
    answer = verifier(query, both)
    answer.logit.sum().backward()
    torch.testing.assert_close(answer.logit.detach(), seen.clone())


@pytest.mark.parametrize("name", ["cap_vema", "cap_dba_l1", "cap_dba_l2", "cap_ma"])
def test_cap_starts_as_the_authors_start_it(name: str) -> None:
    pooling = miv.create_pooling(name, channels=6, heads=2)
    weights = pooling.state_dict()
    assert torch.equal(weights["project.weight"], torch.eye(6))
    assert not weights["project.bias"].any()
    assert not weights["gate.excite.weight"].any()
    assert not weights["gate.excite.bias"].any()
    assert weights["similarity.weight"].abs().max() <= (3 / 6) ** 0.5
    if name == "cap_vema":
        assert not weights["delta.excite.weight"].any()
    if name.startswith("cap_dba"):
        assert torch.equal(weights["distance_weight"], torch.ones(6))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("cap_vena", {}, "Did you mean 'cap_vema'"),
        ("cap_vema", {"head": 2}, "Did you mean 'heads'"),
        ("cap_vema", {"norm": "prae"}, "Did you mean 'pre'"),
        ("cap_vema", {"heads": 5}, r"divide the channels: 1, 2, 3, 4, 6, 12\."),
        ("cap_vema", {"heads": 0}, "Expected a whole number from 1"),
        ("msa", {"layers": 10**9}, "from 1 to 64"),
        ("cap_vema", {"projection": False}, "set heads=1"),
        ("cap_vema", {"co_excitation": "no"}, "Expected True or False"),
        ("gabmil", {"heads": 2}, "There is no option of gabmil 'heads'"),
        ("mi_net", {"pool": "median"}, "Did you mean 'mean'"),
        ("pma", {"seeds": 3}, "Expected 1"),
    ],
)
def test_a_wrong_name_or_option_suggests_the_right_one(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(miv.MIVError, match=message.replace("(", r"\(")):
        miv.create_pooling(name, channels=12, **options)


@pytest.mark.parametrize(
    ("query", "values"),
    [
        (torch.zeros(1, 3), torch.zeros(2, 4)),
        (torch.zeros(2, 4), torch.zeros(2, 4)),
        (torch.zeros(1, 4), torch.zeros(2, 4, 1)),
        (torch.zeros(1, 4, dtype=torch.int64), torch.zeros(2, 4, dtype=torch.int64)),
        (torch.zeros(1, 4, dtype=torch.float64), torch.zeros(2, 4)),
    ],
)
def test_wrong_shapes_say_what_was_expected(query: Tensor, values: Tensor) -> None:
    pooling = miv.create_pooling("gabmil", channels=4)
    with pytest.raises(miv.MIVError, match=r"Expected query \(B, 4\) and bags of values \(T, 4\)"):
        pooling(query, Bags(values, torch.tensor([0, 2])))
