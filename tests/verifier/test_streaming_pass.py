"""A bag in chunks gives the logit and the leading targets of the whole at once, for every pooling that can."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings, strategies as st
from numpy.typing import NDArray

from miv import MIVError, Verdict, Verifier, list_poolings
from miv.verifier.decisions import OperatingPoint
from miv.verifier.out_of_distribution import OutOfDistributionLimit
from miv.verifier.streaming import StreamingPass
from tests.poolings.test_stored_forms import CHANNELS, VARIANTS, verifier_of

STREAMED = ["cap_dba_l1", "cap_dba_l2", "cap_ma", "nearest", "gabmil", "maxsim"]
NORM_LAST = VARIANTS["norm of the sum"]  # which needs the whole bag
OTHERS = [{"heads": 4}, *(options for options in VARIANTS.values() if options != NORM_LAST)]
OPTIONS: list[tuple[str, dict[str, Any]]] = [(name, {}) for name in STREAMED]
OPTIONS += [(name, options) for name in STREAMED if name.startswith("cap_") for options in OTHERS]
OPTIONS += [("maxsim", {"width": 3})]


def bag_and_queries(size: int = 120, queries: int = 3, seed: int = 3) -> tuple[NDArray[Any], NDArray[Any]]:
    random = np.random.default_rng(seed)
    return tuple(random.normal(size=(n, CHANNELS)).astype(np.float32) for n in (size, queries))  # type: ignore[return-value]


def in_chunks(
    verifier: Verifier, queries: NDArray[Any], bag: NDArray[Any], borders: list[int], top: int = 5
) -> list[Verdict]:
    """Pool the chunks between ``borders``."""
    state = StreamingPass(verifier, queries, top)
    for chunk in np.split(bag, sorted(borders)):
        state.update(chunk)
    return state.finish()


def check_equal(verifier: Verifier, queries: NDArray[Any], bag: NDArray[Any], found: list[Verdict]) -> None:
    whole = verifier.verify_many(queries, [bag] * len(queries))
    for verdict, expected, logit in zip(found, whole, whole.logit, strict=True):
        assert verdict.logit == pytest.approx(logit, rel=1e-5, abs=2e-5)  # terms of several units cancel
        assert verdict.probability == pytest.approx(expected.probability, rel=1e-5, abs=1e-6)
        assert verdict.verdict == expected.verdict
        shares = expected.shares
        assert shares is not None
        places = [one.index for one in verdict.leading]
        np.testing.assert_allclose([one.score for one in verdict.leading], shares[places], rtol=2e-5, atol=1e-9)
        least = np.sort(shares)[::-1][: len(places)]
        np.testing.assert_allclose(shares[places], least, rtol=2e-5, atol=1e-9)
        assert set(verdict.witnesses) <= set(verdict.leading)


@pytest.mark.parametrize("start", ["similar", "paper"])
@pytest.mark.parametrize(("pooling", "options"), OPTIONS)
def test_chunks_equal_the_whole(pooling: str, options: dict[str, Any], start: str) -> None:
    verifier = verifier_of(pooling, options, start)
    bag, queries = bag_and_queries()
    check_equal(verifier, queries, bag, in_chunks(verifier, queries, bag, [1, 40, 41, 100]))


@settings(max_examples=25, deadline=None)
@given(
    borders=st.lists(st.integers(0, 60), max_size=8),
    sharpness=st.sampled_from([0.01, 1.0, 30.0, 3000.0]),
    scale=st.sampled_from([1e-3, 1.0, 1e4]),
    pooling=st.sampled_from(STREAMED),
    top=st.integers(0, 70),
)
@example(borders=[30], sharpness=1.0, scale=1.0, pooling="cap_dba_l2", top=0)
def test_any_chunks_and_extreme_scores(
    borders: list[int], sharpness: float, scale: float, pooling: str, top: int
) -> None:
    verifier = verifier_of(pooling, {}, "similar")
    if getattr(verifier.pooling, "sharpness", None) is not None:
        with torch.no_grad():
            verifier.pooling.sharpness.fill_(sharpness)  # type: ignore[operator]
    bag, queries = bag_and_queries(60, 2)
    bag = np.round(bag * 4) / 4 * np.float32(scale)
    found = in_chunks(verifier, queries, bag, borders, top)
    whole = verifier.verify_many(queries, [bag] * 2)
    assert [len(one.leading) for one in found] == [min(top, 60)] * 2
    # Scores of thousands have few digits left in single precision, whichever way they are added.
    limit = 1e-5 if sharpness <= 1 else 1e-5 * sharpness
    for verdict, logit in zip(found, whole.logit, strict=True):
        assert verdict.logit == pytest.approx(logit, rel=limit, abs=limit)


@pytest.mark.parametrize("pooling", STREAMED)
def test_a_bag_of_one_and_equal_instances(pooling: str) -> None:
    verifier = verifier_of(pooling, {}, "similar")
    bag, queries = bag_and_queries(1, 1)
    check_equal(verifier, queries, bag, in_chunks(verifier, queries, bag, []))
    twice = np.repeat(bag, 37, axis=0)
    (found,) = in_chunks(verifier, queries, twice, [7, 11], top=4)
    # Equal instances share equally, also where rounding makes the whole at once choose 36 of the 37 (baseline).
    assert [one.score for one in found.leading] == pytest.approx([1 / 37] * 4, rel=2e-5)
    assert found.logit == pytest.approx(verifier.verify_many(queries, [twice]).logit[0], rel=1e-5, abs=1e-5)


@pytest.mark.parametrize(
    ("pooling", "options"),
    [(name, {}) for name in list_poolings() if name not in STREAMED] + [("cap_dba_l2", NORM_LAST)],
)
def test_a_pooling_that_needs_the_whole_bag_is_refused(pooling: str, options: dict[str, Any]) -> None:
    verifier = verifier_of(pooling, options, "similar")
    with pytest.raises(MIVError, match="needs the whole bag at once"):
        StreamingPass(verifier, bag_and_queries()[1])


def test_wrong_shapes_and_an_empty_bag_are_refused() -> None:
    verifier = verifier_of("cap_ma", {}, "similar")
    bag, queries = bag_and_queries()
    with pytest.raises(MIVError, match=r"queries has the shape \(12,\)"):
        StreamingPass(verifier, queries[0])
    with pytest.raises(MIVError, match="A chunk of the bag is"):
        StreamingPass(verifier, queries).update(bag[:, :5])
    with pytest.raises(MIVError, match="top is -1"):
        StreamingPass(verifier, queries, top=-1)
    with pytest.raises(MIVError, match="The bag is empty"):
        StreamingPass(verifier, queries).finish()


def test_witnesses_and_out_of_distribution_instances_are_those_of_verify() -> None:
    verifier = verifier_of("cap_dba_l2", {}, "similar")
    bag, queries = bag_and_queries()
    verifier.operating_point = OperatingPoint(threshold=0.0)
    direction = np.eye(1, CHANNELS, dtype=np.float32)
    for limit in (1e-6, 20.0, 1e9):
        verifier.unlike = OutOfDistributionLimit(
            np.zeros(CHANNELS, np.float32), direction, np.ones(1), 1.0, limit, 0.01
        )
        expected = verifier.verify(queries[0], bag)
        (found,) = in_chunks(verifier, queries[:1], bag, [50], top=len(bag))
        assert (found.reason, found.decision) == (expected.reason, expected.decision)
        assert f"Bag of {len(bag)}" in str(found)
        assert str(found) in found._repr_html_().replace("&#x27;", "'")
        assert [one.index for one in found.witnesses] == [one.index for one in expected.witnesses]
