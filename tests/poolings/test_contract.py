"""The contract of every pooling in the registry, and of CAP's options."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

import miv
from miv import Bags, Verifier
from miv.poolings import POOLINGS
from miv.poolings.pooling_base import Start
from miv.testing import CLAUSES, PoolingCase, attention_and_gradients, one_by_one
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


def every_case(test: Callable[..., None]) -> Callable[..., None]:
    by_options = pytest.mark.parametrize(("name", "options"), CASES, ids=lambda x: x if isinstance(x, str) else str(x))
    return by_options(every_start(test))


def case_of(name: str, options: dict[str, Any], start: Start, **more: Any) -> PoolingCase:
    return PoolingCase(name, options, start, reads_in_order=name == "bi_lstm", **more)


def test_every_pooling_has_a_naive_twin() -> None:
    ours = {name for name in miv.list_poolings() if POOLINGS[name].make.__module__.startswith("miv.")}
    assert set(naive.POOLINGS) == ours


@every_case
def test_equals_the_naive_loop(name: str, options: dict[str, Any], start: Start) -> None:
    case = case_of(name, options, start, sizes=(4, 1, 7))
    verifier, (query, bags) = case.verifier(), case.exemplars()
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
@pytest.mark.parametrize("clause", CLAUSES, ids=lambda clause: clause.__name__)
def test_clause(name: str, options: dict[str, Any], start: Start, clause: Callable[[PoolingCase], None]) -> None:
    clause(case_of(name, options, start))


def test_bi_lstm_reads_in_order_but_trains_on_random_orders() -> None:
    case = case_of("bi_lstm", {}, "similar", sizes=(6,))
    verifier, (query, bags) = case.verifier(), case.exemplars()
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
    one_by_one(case_of(name, options, start, sizes=tuple(sizes), seed=seed))


@every_pooling
@every_start
@settings(max_examples=15, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=5),
    heads=st.sampled_from([1, 2, 3]),
    width=st.sampled_from([1, 2, 5]),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
)
def test_attention_and_gradients_are_sound(
    name: str, start: Start, sizes: list[int], heads: int, width: int, scale: float
) -> None:
    options = {"heads": heads} if name in ("pma", "msa") or name.startswith("cap") else {}
    attention_and_gradients(case_of(name, options, start, channels=heads * width, sizes=tuple(sizes), scale=scale))


def test_equal_maxima_share_the_attention_of_the_baseline() -> None:
    verifier = Verifier("baseline", channels=2)
    row = torch.tensor([1.0, 3.0])
    answer = verifier(row[None], Bags.from_list([torch.stack([row, row, -row])]))
    assert answer.attention_of(0).tolist() == [0.5, 0.5, 0.0]


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
