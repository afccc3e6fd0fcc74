"""A shortlist reads a few per cent of a bag, says how wrong it may be, and is right about that."""

from pathlib import Path

import numpy as np
import pytest
import torch

from miv import MIVError, Verifier
from miv.poolings import ScaledProduct
from miv.streaming import Shortlist, StreamingPass

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
    bag = (kinds[random.integers(200, size=8000)] + 0.2 * random.normal(size=(8000, CHANNELS))).astype(np.float32)
    queries = (kinds[:30] + 0.1 * random.normal(size=(30, CHANNELS))).astype(np.float32)
    kept = verifier.keep_bag(bag, tmp_path / "kept", rows="float32")
    exact = verifier.verify_stream(queries, kept, top=1)
    found = Shortlist(verifier, kept, sampled=0.1, nearest=0.1).verify(queries, top=1)
    inside = [low <= one.probability <= high for one, (low, high) in zip(exact, _bounds(found), strict=True)]
    assert sum(inside) >= 29  # each with 99.9 %
    widths = [high - low for low, high in _bounds(found)]
    assert 0 < float(np.median(widths)) < 0.1
    assert not any(one.is_exact for one in found)
    assert "The exact probability is from" in str(found[0])
    same = [one.leading[0].index == other.leading[0].index for one, other in zip(found, exact, strict=True)]
    assert sum(same) >= 20


def _bounds(found: list) -> list[tuple[float, float]]:  # type: ignore[type-arg]
    return [one.probability_bounds for one in found]


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
