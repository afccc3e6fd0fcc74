"""A shortlist reads a few per cent of a bag, says how wrong it may be, and is right about that."""

from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from torch import Tensor

from miv import MIVError, Verifier
from miv.kept import form_of
from miv.kept.cross_attention import CrossAttentionForm
from miv.poolings import ScaledProduct
from miv.streaming import Shortlist, StreamingPass
from miv.streaming.cell_bounds import CellBounds
from miv.streaming.key_cells import find_cells

CHANNELS = 12


def trained_like(pooling: str) -> Verifier:
    torch.manual_seed(0)
    verifier = Verifier(pooling, channels=CHANNELS, start="paper").eval()
    with torch.no_grad():
        for weight in verifier.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    return verifier


@pytest.mark.parametrize("pooling", ["cap_dba_l2", "cap_vema", "cap_ma"])
def test_the_bound_holds_and_the_nearest_targets_are_named(pooling: str, tmp_path: Path) -> None:
    verifier = trained_like(pooling)
    random = np.random.default_rng(0)
    kinds = random.normal(size=(200, CHANNELS))
    size = 60_000  # of fewer, each could have too large a share to be left out
    bag = (kinds[random.integers(200, size=size)] + 0.2 * random.normal(size=(size, CHANNELS))).astype(np.float32)
    queries = (kinds[:30] + 0.1 * random.normal(size=(30, CHANNELS))).astype(np.float32)
    kept = verifier.keep_bag(bag, tmp_path / "kept", rows="float32")
    exact = verifier.verify_stream(queries, kept, top=1)
    found = Shortlist(verifier, kept, sampled=0.1, nearest=0.1, hidden=0.05).verify(queries, top=1)
    inside = [low <= one.probability <= high for one, (low, high) in zip(exact, _bounds(found), strict=True)]
    assert sum(inside) >= 29  # each with 99.9 %
    widths = [high - low for low, high in _bounds(found)]
    assert 0 < float(np.median(widths)) < 0.1
    assert not any(one.is_exact for one in found)
    assert all(0.1 * size < one.compared < 0.5 * size for one in found)
    assert "The exact probability is from" in str(found[0])
    same = [one.leading[0].index == other.leading[0].index for one, other in zip(found, exact, strict=True)]
    assert sum(same) >= 20


def _bounds(found: list) -> list[tuple[float, float]]:  # type: ignore[type-arg]
    return [one.probability_bounds for one in found]


def with_needles(size: int) -> tuple[np.ndarray, np.ndarray]:
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
def test_a_target_that_no_sample_holds_is_within_the_bounds(size: int, sharpness: float | None, tmp_path: Path) -> None:
    verifier = Verifier("cap_dba_l2", channels=32, start="similar").eval()
    if sharpness is not None:
        with torch.no_grad():
            cast(Tensor, verifier.pooling.sharpness).fill_(sharpness)
    bag, queries = with_needles(size)
    kept = verifier.keep_bag(bag, tmp_path / "kept", rows="float32")
    exact = verifier.verify_stream(queries, kept, top=1)
    for one, other in zip(Shortlist(verifier, kept).verify(queries, top=1), exact, strict=True):
        low, high = one.probability_bounds
        assert low - 1e-6 <= other.probability <= high + 1e-6
        assert one.is_exact == (one.compared == size)
        if one.is_exact:
            assert one.leading[0].index == other.leading[0].index


@pytest.mark.parametrize("pooling", ["cap_dba_l2", "cap_vema", "cap_ma"])
def test_no_target_scores_above_the_bound_of_its_cell(pooling: str) -> None:
    verifier = trained_like(pooling)
    random = np.random.default_rng(2)
    rows = random.normal(size=(2000, CHANNELS)).astype(np.float32)
    form = form_of(verifier)
    assert isinstance(form, CrossAttentionForm)
    for scale in (1, 5):
        scaled = rows * np.float32(scale)
        for feature in random.normal(size=(5, 1, CHANNELS)).astype(np.float32):
            with torch.inference_mode():
                query = form.prepare_for_bag(feature, np.ones(CHANNELS))
            weight = np.ones(CHANNELS, np.float32) if query.square_weight is None else query.square_weight
            cells = find_cells(scaled, weight, 6, 6)
            bounds = CellBounds(scaled, cells, query.heads, query.square_weight)
            scores, values = (part[:, 0].astype(np.float64) for part in query.products(scaled)[:2])
            centres = query.products(cells.centres)[0][:, 0].astype(np.float64)
            greatest = np.maximum.reduceat(scores[:, cells.order], cells.ptr[:-1], axis=1)
            best = bounds.best(query, centres)
            assert (greatest <= best).all()
            assert np.median(best - greatest) < np.ptp(scores)  # and the bound says something
            assert (bounds.least_log_sums(centres) <= np.log(np.exp(scores).sum(axis=1))).all()
            assert (np.abs(values).max(axis=1) <= bounds.greatest_values(query)).all()


def test_everything_read_is_exact(tmp_path: Path) -> None:
    verifier = trained_like("cap_dba_l2")
    random = np.random.default_rng(1)
    bag = random.normal(size=(300, CHANNELS)).astype(np.float32)
    kept = verifier.keep_bag(bag, tmp_path / "kept", rows="float32")
    found = Shortlist(verifier, kept, sampled=1.0).verify(bag[:2], top=2)
    exact = StreamingPass(verifier, bag[:2], 2)
    exact.update(bag)
    for one, other in zip(found, exact.finish(), strict=True):
        assert one.probability == pytest.approx(other.probability, rel=1e-5)
        assert [a.index for a in one.leading] == [a.index for a in other.leading]
        assert one.is_exact


def test_poolings_without_a_sum_over_targets_are_refused(tmp_path: Path) -> None:
    bag = np.random.default_rng(1).normal(size=(50, CHANNELS)).astype(np.float32)
    with pytest.raises(MIVError, match="needs cross-attention pooling"):
        Shortlist(trained_like("nearest"), trained_like("nearest").keep_bag(bag, tmp_path / "a"))
    verifier = Verifier("cap_dba_l2", channels=CHANNELS).eval()
    assert isinstance(verifier.pooling.similarity, ScaledProduct)
    with torch.no_grad():
        verifier.pooling.similarity.distance.fill_(0.1)
    with pytest.raises(MIVError, match="without distances"):
        Shortlist(verifier, verifier.keep_bag(bag, tmp_path / "b"))


def test_negative_weights_are_refused(tmp_path: Path) -> None:
    verifier = trained_like("cap_dba_l2")
    with torch.no_grad():
        cast(Tensor, verifier.pooling.distance_weight)[3] = -1.0
    bag = np.random.default_rng(1).normal(size=(50, CHANNELS)).astype(np.float32)
    with pytest.raises(MIVError, match="weighs a distance negatively"):
        Shortlist(verifier, verifier.keep_bag(bag, tmp_path / "kept"))
