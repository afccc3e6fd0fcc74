"""A shortlist reads a small part of a bag, says how wrong it may be, and is right about that."""

import tracemalloc
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from miv import MIVError, Verifier
from miv.decisions.operating_point import OperatingPoint
from miv.errors import MIVWarning
from miv.poolings import ScaledProduct
from miv.streaming import Shortlist, StreamedVerdict, StreamingPass

CHANNELS = 12
POOLINGS = ["cap_dba_l2", "cap_vema", "cap_ma", "cap_dba_l1"]
ROUNDING = 1e-6  # of a probability, between two exact passes


def trained_like(pooling: str, start: str = "paper", **options: Any) -> Verifier:
    """A verifier in which no weight is as it started; with the start ``similar``, its similarity weighs distances."""
    torch.manual_seed(0)
    verifier = Verifier(pooling, channels=CHANNELS, start=start, pooling_options=options).eval()  # type: ignore[arg-type]
    with torch.no_grad():
        for name, weight in verifier.pooling.named_parameters():
            if name != "distance_weight":
                weight.add_(0.2 * torch.randn_like(weight))
            else:
                weight.mul_(torch.rand_like(weight) + 0.5)
    if start == "similar":
        assert isinstance(verifier.pooling.similarity, ScaledProduct)
        assert bool(verifier.pooling.similarity.distance.any())
    return verifier


def kinds_and_queries(size: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    random = np.random.default_rng(0)
    kinds = random.normal(size=(200, CHANNELS))
    bag = kinds[random.integers(200, size=size)] + 0.2 * random.normal(size=(size, CHANNELS))
    queries = kinds[:30] + 0.1 * random.normal(size=(30, CHANNELS))
    return bag.astype(np.float32), queries.astype(np.float32)


def holds(one: StreamedVerdict, exact: StreamedVerdict) -> bool:
    low, high = one.probability_bounds
    return low - ROUNDING <= exact.probability <= high + ROUNDING


def check_errors(found: list[StreamedVerdict], exact: list[StreamedVerdict]) -> NDArray[np.float64]:
    """The errors, after a check that they are as large as they are said to be."""
    errors = np.array([one.probability - other.probability for one, other in zip(found, exact, strict=True)])
    said = np.array([one.standard_error for one in found])
    assert 0.4 < np.sqrt(np.mean(np.square(errors / said))) < 1.8  # all queries share one sample
    return errors


@pytest.mark.parametrize("start", ["paper", "similar"])
@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_estimates_are_as_near_as_they_say_and_the_bounds_hold(
    pooling: str, heads: int, start: str, tmp_path: Path
) -> None:
    verifier = trained_like(pooling, start, heads=heads)
    bag, queries = kinds_and_queries(20_000)
    kept = verifier.keep_bag(bag, tmp_path / "kept", rows="float32")
    exact = verifier.verify_stream(queries, kept, top=1)
    found = Shortlist(verifier, kept, budget=2000).verify(queries, top=1)
    assert all(map(holds, found, exact))
    assert np.abs(check_errors(found, exact)).max() < 0.03
    assert not any(one.is_exact for one in found)
    assert all(1000 < one.compared <= 2000 for one in found)
    assert "Standard error" in str(found[0])
    assert "certainly from" in str(found[0])
    assert found[0].document()["standard_error"] == found[0].standard_error > 0
    same = [one.leading[0].index == other.leading[0].index for one, other in zip(found, exact, strict=True)]
    assert sum(same) >= 20


def test_heads_that_see_the_same_are_sampled_apart(tmp_path: Path) -> None:
    """With one cell, heads with one sample would all err in the same direction, and their variances do not add."""
    torch.manual_seed(0)
    verifier = Verifier("cap_dba_l2", channels=16, pooling_options={"heads": 8}).eval()
    random = np.random.default_rng(0)
    bag = np.tile(random.normal(size=(500, 2)), 8) + 0.3 * random.normal(size=(500, 16))
    queries = np.tile(random.normal(size=(10, 2)), 8).astype(np.float32)
    kept = verifier.keep_bag(bag.astype(np.float32), tmp_path / "kept", rows="float32")
    exact = np.array([one.probability for one in verifier.verify_stream(queries, kept, top=0)])
    found = [Shortlist(verifier, kept, budget=16, seed=seed).verify(queries, top=0) for seed in range(20)]
    errors = np.array([[one.probability for one in some] for some in found]) - exact
    said = np.array([[one.standard_error for one in some] for some in found])
    assert 0.7 < np.sqrt(np.mean(np.square(errors)) / np.mean(np.square(said))) < 1.5


def with_needles(size: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """A bag of noise and 30 queries, each of which has a cosine of 0.75 to one target."""
    random = np.random.default_rng(0)
    bag, queries = (random.normal(size=(count, 32)) for count in (size, 30))
    for place, query in zip(random.choice(size, 30, replace=False), queries, strict=True):
        length = np.linalg.norm(query)
        other = random.normal(size=32)
        other -= (other @ query) / length**2 * query
        bag[place] = 0.75 * query + (1 - 0.75**2) ** 0.5 * length / np.linalg.norm(other) * other
    return bag.astype(np.float32), queries.astype(np.float32)


@pytest.mark.parametrize("size", [150, 300, 500, 20_000])
@pytest.mark.parametrize("sharpness", [None, 16])
@pytest.mark.parametrize("budget", [64, 6000])
def test_a_target_that_no_sample_holds_is_within_the_bounds(
    size: int, sharpness: float | None, budget: int, tmp_path: Path
) -> None:
    verifier = Verifier("cap_dba_l2", channels=32, start="similar").eval()
    if sharpness is not None:
        with torch.no_grad():
            cast(Tensor, verifier.pooling.sharpness).fill_(sharpness)
    bag, queries = with_needles(size)
    kept = verifier.keep_bag(bag, tmp_path / "kept", rows="float32")
    exact = verifier.verify_stream(queries, kept, top=1)
    for one, other in zip(Shortlist(verifier, kept, budget).verify(queries, top=1), exact, strict=True):
        assert holds(one, other)
        assert one.is_exact == (budget >= size)
        if one.is_exact:
            assert one.leading[0].index == other.leading[0].index


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("start", ["paper", "similar"])
def test_everything_read_is_the_exact_pass(start: str, heads: int, tmp_path: Path) -> None:
    verifier = trained_like("cap_dba_l2", start, heads=heads)
    bag = np.random.default_rng(1).normal(size=(300, CHANNELS)).astype(np.float32)
    kept = verifier.keep_bag(bag, tmp_path / "kept", rows="float32")
    found = Shortlist(verifier, kept, budget=300).verify(bag[:2], top=20)
    exact = StreamingPass(verifier, bag[:2], 20)
    exact.update(bag)
    for one, other in zip(found, exact.finish(), strict=True):
        assert one.probability == pytest.approx(other.probability, rel=1e-5)
        assert [a.index for a in one.leading] == [a.index for a in other.leading]
        assert [a.score for a in one.leading] == pytest.approx([a.score for a in other.leading], rel=1e-4)
        assert one.is_exact
        assert one.standard_error == 0
        assert one.probability_bounds == (one.probability, one.probability)


def test_a_budget_for_all_targets_takes_only_the_exact_pass(tmp_path: Path) -> None:
    verifier = trained_like("cap_dba_l2")
    bag = np.random.default_rng(1).normal(size=(300, CHANNELS)).astype(np.float32)
    kept = verifier.keep_bag(bag, tmp_path / "kept")
    verifier.operating_point = OperatingPoint(goal="accuracy", measured={"data": {"bag_sizes": [5, 12]}})
    with pytest.warns(MIVWarning, match="bags of 300"):
        exact = verifier.verify_stream(bag[:2], kept)
    shortlist = Shortlist(verifier, kept, budget=300)
    with pytest.warns(MIVWarning, match="bags of 300") as warned:
        found = shortlist.verify(bag[:2])
    assert found == exact
    assert len(warned) == 1  # nothing was answered before the exact pass


@pytest.mark.parametrize(("budget", "within"), [(50, None), (10, 0.0)])
def test_rows_that_are_gone_are_told(budget: int, within: float | None, tmp_path: Path) -> None:
    verifier = trained_like("cap_dba_l2")
    bag = np.random.default_rng(1).normal(size=(50, CHANNELS)).astype(np.float32)
    shortlist = Shortlist(verifier, verifier.keep_bag(bag, tmp_path / "kept"), budget)
    (tmp_path / "kept" / "rows.npy").unlink()
    with pytest.raises(MIVError, match=r"Could not read .*rows\.npy: No such file or directory\."):
        shortlist.verify(bag[:1], within=within)


def test_a_verifier_that_changed_since_is_refused(tmp_path: Path) -> None:
    verifier = trained_like("cap_dba_l2")
    bag = np.random.default_rng(1).normal(size=(50, CHANNELS)).astype(np.float32)
    shortlist = Shortlist(verifier, verifier.keep_bag(bag, tmp_path / "kept"), budget=10)
    shortlist.verify(bag[:1])
    with torch.no_grad():
        next(verifier.pooling.parameters()).add_(1)
    with pytest.raises(MIVError, match=r"have changed since the shortlist was made, .* Keep the bag again"):
        shortlist.verify(bag[:1])


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    verifier = trained_like("cap_dba_l2")
    bag = np.random.default_rng(1).normal(size=(50, CHANNELS)).astype(np.float32)
    kept = verifier.keep_bag(bag, tmp_path / "kept")
    expected = Shortlist(verifier, kept, 20, 3).verify(bag[:1], 2)
    assert Shortlist(verifier, kept, np.int64(20), np.uint8(3)).verify(bag[:1].tolist(), np.int32(2)) == expected  # type: ignore[arg-type]


def test_equal_targets_leave_nothing_open(tmp_path: Path) -> None:
    verifier = trained_like("cap_dba_l2", "similar")
    random = np.random.default_rng(1)
    bag = np.repeat(random.normal(size=(4, CHANNELS)), 500, axis=0).astype(np.float32)
    kept = verifier.keep_bag(random.permutation(bag), tmp_path / "kept", rows="float32")
    (found,) = Shortlist(verifier, kept, budget=256).verify(bag[:1])
    assert not found.is_exact
    assert np.ptp(found.probability_bounds) < 1e-3
    assert found.standard_error < 1e-6


def test_blank_targets_leave_nothing_open(tmp_path: Path) -> None:
    """After the norms, their vector is 0 and has no direction."""
    verifier = Verifier("cap_dba_l2", channels=CHANNELS, start="paper").eval()
    rows = np.random.default_rng(1).normal(size=(4, CHANNELS)).astype(np.float32)
    rows[3] = 0.7
    kept = verifier.keep_bag(np.repeat(rows, 500, axis=0), tmp_path / "kept", rows="float32")
    (found,), (exact,) = Shortlist(verifier, kept, budget=256).verify(rows[:1]), verifier.verify_stream(rows[:1], kept)
    assert not found.is_exact
    assert holds(found, exact)
    assert np.ptp(found.probability_bounds) < 1e-3


def test_wide_bounds_are_answered_exactly_if_wished(tmp_path: Path) -> None:
    verifier = trained_like("cap_dba_l2")
    bag, queries = kinds_and_queries(3000)
    folder = tmp_path / "kept"
    verifier.keep_bag(bag, folder, rows="float16")
    exact = verifier.verify_stream(queries, folder, top=2)
    shortlist = Shortlist(verifier, str(folder), budget=500)  # a path is a bag too
    assert not any(one.is_exact for one in shortlist.verify(queries))
    assert shortlist.verify(queries, top=2, within=0.0) == exact
    limit = float(np.median([_furthest(one) for one in shortlist.verify(queries)]))
    some = shortlist.verify(queries, top=2, within=limit)
    assert {one.is_exact for one in some} == {True, False}
    verifier.operating_point = OperatingPoint(goal="accuracy", measured={"data": {"bag_sizes": [5, 12]}})
    for furthest in (None, 0.0, limit):
        with pytest.warns(MIVWarning, match="bags of 3,000") as warned:
            shortlist.verify(queries, top=2, within=furthest)
        assert len(warned) == 1
    assert all(_furthest(one) <= limit for one in some)
    for one, other in zip(some, exact, strict=True):
        if one.is_exact:
            assert one.probability == pytest.approx(other.probability, rel=1e-5)
            assert one.standard_error == 0


def _furthest(one: StreamedVerdict) -> float:
    return float(np.abs(np.array(one.probability_bounds) - one.probability).max())


@pytest.mark.parametrize("rows", ["float16", "int8"])
def test_bags_in_fewer_bytes_answer_as_their_exact_pass(rows: Any, tmp_path: Path) -> None:
    verifier = trained_like("cap_vema", "similar")
    bag, queries = kinds_and_queries(500)
    kept = verifier.keep_bag(bag, tmp_path / "kept", rows=rows)
    exact = verifier.verify_stream(queries, kept, top=1)
    found = Shortlist(verifier, kept, budget=300).verify(queries, top=1)
    assert not any(one.is_exact for one in found)
    assert all(map(holds, found, exact))
    check_errors(found, exact)


@pytest.mark.parametrize("budget", [6000, 100])
def test_building_needs_little_more_memory_than_the_rows(budget: int, tmp_path: Path) -> None:
    verifier = Verifier("cap_dba_l2", channels=64).eval()
    random = np.random.default_rng(0)
    chunks = [random.normal(size=(20_000, 64)).astype(np.float16) for _ in range(5)]
    kept = verifier.keep_bag(chunks, tmp_path / "kept", rows="float16")
    tracemalloc.start()
    try:
        Shortlist(verifier, kept, budget)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * 100_000 * 64 * 2  # twice the rows


def test_poolings_without_a_sum_over_targets_are_refused(tmp_path: Path) -> None:
    bag = np.random.default_rng(1).normal(size=(50, CHANNELS)).astype(np.float32)
    with pytest.raises(MIVError, match="needs cross-attention pooling"):
        Shortlist(trained_like("nearest"), trained_like("nearest").keep_bag(bag, tmp_path / "a"))
    verifier = trained_like("cap_dba_l2", norm="post")
    with pytest.raises(MIVError, match="norm after the sum"):
        Shortlist(verifier, verifier.keep_bag(bag, tmp_path / "b"))


@pytest.mark.parametrize("pooling", ["cap_dba_l2", "cap_dba_l1"])
def test_negative_weights_are_refused(pooling: str, tmp_path: Path) -> None:
    verifier = trained_like(pooling)
    with torch.no_grad():
        cast(Tensor, verifier.pooling.distance_weight)[3] = -1.0
    bag = np.random.default_rng(1).normal(size=(50, CHANNELS)).astype(np.float32)
    with pytest.raises(MIVError, match="weighs a distance negatively"):
        Shortlist(verifier, verifier.keep_bag(bag, tmp_path / "kept"))


def test_mistakes_are_told(tmp_path: Path) -> None:
    verifier = trained_like("cap_dba_l2")
    bag = np.random.default_rng(1).normal(size=(50, CHANNELS)).astype(np.float32)
    kept = verifier.keep_bag(bag, tmp_path / "kept")
    with pytest.raises(MIVError, match=r"kept_bag\.json"):
        Shortlist(verifier, tmp_path / "nowhere")
    np.save(tmp_path / "bag.npy", bag)
    for given, what in (("bag.npy", "is a file"), (".", "is a folder without"), ("nowhere", "does not exist")):
        with pytest.raises(MIVError, match=rf"{what}.*\. Expected the folder of a kept bag.* Verifier\.keep_bag makes"):
            Shortlist(verifier, str(tmp_path / given))
    with pytest.raises(MIVError, match=r"The bag is a ndarray\. Expected a kept bag or its folder"):
        Shortlist(verifier, bag)  # type: ignore[arg-type]
    with pytest.raises(MIVError, match="budget is 1"):
        Shortlist(verifier, kept, budget=1)
    for seed in (-1, "a", 0.5, True):
        with pytest.raises(MIVError, match=rf"seed is '?{seed}'?\. Expected a whole number, from 0"):
            Shortlist(verifier, kept, budget=20, seed=seed)  # type: ignore[arg-type]
    shortlist = Shortlist(verifier, kept)
    unread: list[Any] = ["abc", [["a"] * 12], [[1, 2], [3]], torch.ones(1, 12, requires_grad=True)]
    for queries in unread:
        for ask in (shortlist.verify, partial(StreamingPass, verifier)):
            with pytest.raises(MIVError, match=r"The queries cannot be read as numbers: .* rows of 12 features"):
                ask(queries)
    with pytest.raises(MIVError, match=r"The queries are \(12,\)"):
        shortlist.verify(bag[0])
    with pytest.raises(MIVError, match="Query 1 contains NaN"):
        shortlist.verify(np.stack([bag[0], bag[0] * np.float32(np.nan)]))
    with pytest.raises(MIVError, match="top is -1"):
        shortlist.verify(bag[:1], top=-1)
    with pytest.raises(MIVError, match="within is 2"):
        shortlist.verify(bag[:1], within=2)
