"""What is certain about targets that are not read is certain for every bag."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from miv import Verifier
from miv.kept import form_of
from miv.kept.cross_attention import CrossAttentionForm
from miv.streaming import Shortlist
from miv.streaming.cell_bounds import CellBounds
from miv.streaming.head_cells import HeadCells
from miv.streaming.head_query import ComparedKeys, HeadQuery
from miv.streaming.head_sample import HeadCentres, HeadSample
from tests.streaming.test_shortlist import CHANNELS, POOLINGS, ROUNDING, trained_like


@pytest.mark.parametrize("norm", ["pre", "none"])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_no_target_is_outside_the_bounds_of_its_cell(pooling: str, norm: str) -> None:
    verifier = trained_like(pooling, heads=2, norm=norm)
    form = form_of(verifier)
    assert isinstance(form, CrossAttentionForm)
    random = np.random.default_rng(2)
    kinds = random.normal(size=(8, 6))
    for spread in (0.02, 0.3, 3.0):
        keys = (kinds[random.integers(8, size=2000)] + spread * random.normal(size=(2000, 6))).astype(np.float32)
        for feature in random.normal(size=(5, 1, CHANNELS)).astype(np.float32):
            with torch.inference_mode():
                query = HeadQuery(form.prepare_for_bag(feature, np.ones(CHANNELS)), 0, 1)
            centres = HeadCentres(cells := HeadCells(keys.copy(), query, 6, np.random.default_rng(0)), query)
            slope = random.normal(size=6)
            sample = HeadSample(centres, centres.counts(slope, 200))
            bounds = CellBounds(centres, sample)
            compared = ComparedKeys(query, cells.keys)
            low, high = bounds.values(slope)
            values = compared.values(slope)
            assert (np.minimum.reduceat(values, cells.ptr[:-1]) >= low).all()
            assert (np.maximum.reduceat(values, cells.ptr[:-1]) <= high).all()
            is_read = np.zeros(len(keys), bool)
            is_read[sample.at] = True
            scale = np.exp(compared.scores.astype(np.float64) - bounds.top)
            unread = np.add.reduceat(np.where(is_read, 0, scale), cells.ptr[:-1])
            assert (bounds.least <= unread + 1e-12).all()
            assert (unread <= bounds.most + 1e-12).all()
            mean = compared.sum(scale) / scale.sum()
            least, greatest = bounds.mean(slope)
            assert least <= mean @ slope <= greatest
            assert np.linalg.norm(mean - sample.mean) <= bounds.error()
            if spread == 0.02:  # and the bounds say something
                assert greatest - least < 0.2 * np.ptp(values)


def head_of(pooling: str = "cap_dba_l2", sharpness: float = 1.0) -> HeadQuery:
    """A query in a head of six channels that gates nothing."""
    verifier = Verifier(pooling, channels=6, start="similar", pooling_options={"heads": 1, "co_excitation": False})
    form = form_of(verifier.eval())
    assert isinstance(form, CrossAttentionForm)
    with torch.inference_mode():
        cast(Tensor, verifier.pooling.sharpness).fill_(sharpness)
        return HeadQuery(form.prepare_for_bag(np.arange(6, dtype=np.float32)[None], None), 0, 0)


def normed(keys: NDArray[np.float32], eps: float) -> NDArray[np.float64]:
    exact = keys.astype(np.float64)
    return (exact - exact.mean(axis=1, keepdims=True)) / np.sqrt(exact.var(axis=1, keepdims=True) + eps**2)


@pytest.mark.parametrize("scale", [1.0, 1e-6])  # as large as the epsilon of the norm
def test_keys_at_the_edge_of_the_cone_are_within_the_bounds(scale: float) -> None:
    random, query = np.random.default_rng(0), head_of()
    assert query.eps is not None
    for tilt in np.tile([0, 1e-4, 3e-4, 0.3, 1, 2, 3], 20):
        basis = np.linalg.qr(np.c_[np.ones(6), random.normal(size=(6, 2))])[0]
        centre, aside = basis[:, 1], basis[:, 2]  # unit vectors with the mean 0
        angle = random.uniform(0.05, 1.5)
        offset = np.sin(angle) * (np.cos(angle) * aside - np.sin(angle) * centre)  # to where the ball touches the cone
        keys = (scale * (centre + np.outer([1, -1], offset))).astype(np.float32)
        slope = np.cos(tilt) * centre - np.sin(tilt) * aside
        centres = HeadCentres(HeadCells(keys.copy(), query, 1, np.random.default_rng(0)), query)
        low, high = CellBounds(centres, HeadSample(centres, np.array([1]))).values(slope)
        values = normed(keys, query.eps) @ slope
        assert low[0] <= values.min()
        assert values.max() <= high[0]


def test_the_rounding_of_scores_is_part_of_the_error() -> None:
    """Scores of -10,000 in single precision are off by up to 0.001, and so are shares of keys that are all read."""
    random, query = np.random.default_rng(0), head_of(sharpness=60_000)
    assert query.eps is not None
    away = random.normal(size=(300, 6))
    away[50:] = away[50]  # copies of one key that is further away
    away *= np.repeat([1, 1.2], [50, 250])[:, None] / np.linalg.norm(away, axis=1, keepdims=True)
    keys = (query.centre + away).astype(np.float32)
    cells = HeadCells(keys.copy(), query, 12, np.random.default_rng(0))
    near = np.maximum.reduceat((cells.order < 50).astype(int), cells.ptr[:-1]) > 0
    centres = HeadCentres(cells, query)
    sample = HeadSample(centres, np.where(near, cells.sizes, np.minimum(cells.sizes, 2)))
    assert len(sample.at) < 300
    assert query.weight is not None
    scores = -np.square(keys.astype(np.float64) - query.centre) @ query.weight.astype(np.float64)
    shares = np.exp(scores - scores.max())
    mean = shares @ normed(keys, query.eps) / shares.sum()
    assert 5e-5 < np.linalg.norm(mean - sample.mean) < CellBounds(centres, sample).error()


def adversarial(seed: int, size: int, scale: float, kinds: int, needle: bool) -> tuple[NDArray[np.float32], ...]:
    """A bag of few kinds and many duplicates, and queries; one of them may be a single target of the bag."""
    random = np.random.default_rng(seed)
    bag = random.normal(size=(kinds, CHANNELS))[random.integers(kinds, size=size)]
    bag = bag + random.choice([0, 0, 0.1, 1]) * random.normal(size=bag.shape)
    queries = scale * random.normal(size=(3, CHANNELS))
    if needle:
        bag[random.integers(size)] = queries[0]
    return bag.astype(np.float32), queries.astype(np.float32)


@settings(max_examples=40, deadline=None)
@given(
    pooling=st.sampled_from(POOLINGS),
    start=st.sampled_from(["paper", "similar"]),
    heads=st.sampled_from([1, 2, 4]),
    norm=st.sampled_from(["pre", "none"]),
    sharpness=st.sampled_from([1.0, 5.0, 40.0]),
    size=st.integers(1, 300),
    budget=st.integers(2, 60),
    scale=st.sampled_from([0.01, 1.0, 30.0]),
    kinds=st.sampled_from([1, 2, 20, 300]),
    needle=st.booleans(),
    seed=st.integers(0, 10_000),
)
@example("cap_dba_l2", "similar", 1, "pre", 40.0, 2, 2, 0.01, 1, True, 2)
def test_bounds_hold_for_adversarial_bags(
    pooling: str, start: str, heads: int, norm: str, sharpness: float, size: int, budget: int, scale: float,
    kinds: int, needle: bool, seed: int,
) -> None:  # fmt: skip
    verifier = trained_like(pooling, start, heads=heads, norm=norm)
    if verifier.pooling.sharpness is not None:
        with torch.no_grad():
            verifier.pooling.sharpness.fill_(sharpness)  # type: ignore[operator]
    bag, queries = adversarial(seed, size, scale, kinds, needle)
    with TemporaryDirectory() as folder:
        kept = verifier.keep_bag(bag, Path(folder) / "kept", rows="float32")
        exact = verifier.verify_stream(queries, kept, top=3)
        found = Shortlist(verifier, kept, budget, seed).verify(queries, top=3)
    for one, other in zip(found, exact, strict=True):
        if one.is_exact:  # summed in the same way, but not always beside the same queries
            assert abs(one.logit - other.logit) <= 1e-4 * (1 + abs(other.logit))
            assert one.probability_bounds == (one.probability, one.probability)
            continue
        low, high = one.probability_bounds
        assert low - ROUNDING <= other.probability <= high + ROUNDING
        assert low <= one.probability <= high
