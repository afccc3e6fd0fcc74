"""One bag pooled in parts, by this process and by Ray workers, is the bag pooled at once."""

from pathlib import Path

import numpy as np
import pytest
import torch

from miv import Bags, MIVError, Verifier
from miv.scoring import pool_giant

QUERIES, TARGETS, CHANNELS = 3, 500, 8


@pytest.fixture
def bag(tmp_path: Path) -> Path:
    """A folder of two files, of which one has half precision."""
    random = np.random.default_rng(0)
    (tmp_path / "bag").mkdir()
    np.save(tmp_path / "bag" / "a.npy", random.normal(size=(300, CHANNELS)).astype(np.float32))
    np.save(tmp_path / "bag" / "b.npy", random.normal(size=(TARGETS - 300, CHANNELS)).astype(np.float16))
    return tmp_path / "bag"


def verifier_of(pooling: str) -> Verifier:
    torch.manual_seed(0)
    return Verifier(pooling, channels=CHANNELS, start="paper").eval()


def queries() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(QUERIES, CHANNELS)).astype(np.float32)


def assert_whole(verifier: Verifier, bag: Path, workers: int) -> None:
    whole = np.concatenate([np.load(file).astype(np.float32) for file in sorted(bag.iterdir())])
    expected = verifier.verify_many(queries(), [whole] * QUERIES)
    found = pool_giant(verifier, queries(), bag, top=4, rows=70, workers=workers)
    assert [one.size for one in found] == [TARGETS] * QUERIES
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.probability == pytest.approx(theirs.probability, rel=1e-5)
        assert theirs.attention is not None
        leading = np.argsort(-theirs.attention, kind="stable")[:4]
        assert [one.index for one in mine.leading] == leading.tolist()


@pytest.mark.parametrize("pooling", ["cap_dba_l2", "gabmil", "nearest"])
def test_parts_are_the_whole(bag: Path, pooling: str) -> None:
    assert_whole(verifier_of(pooling), bag, workers=1)


def test_numbers_that_are_not_finite_are_named(bag: Path) -> None:
    rows = np.load(bag / "b.npy")
    rows[7, 2] = np.nan
    np.save(bag / "b.npy", rows)
    with pytest.raises(MIVError, match="Instance 307 of the bag contains NaN"):
        pool_giant(verifier_of("cap_dba_l2"), queries(), bag, rows=70)


@pytest.mark.slow
def test_two_ray_workers_pool_the_whole(bag: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'miv[ray]'")
    assert_whole(verifier_of("cap_ma"), bag, workers=2)


def test_an_encoder_is_not_needed_for_features(bag: Path) -> None:
    torch.manual_seed(0)
    whole = Verifier("cap_dba_l2", "compact_cnn")
    features = np.random.default_rng(2).normal(size=(20, whole.backbone.channels)).astype(np.float32)
    np.save(bag / "of images.npy", features)
    found = pool_giant(whole, features[0], bag / "of images.npy", rows=7)[0]
    answer = whole.verify_features(torch.from_numpy(features[:1]), Bags.from_list([torch.from_numpy(features)]))
    assert found.logit == pytest.approx(float(answer.logit[0].detach()), rel=1e-5)
    assert sum(one.numel() for one in whole.backbone.parameters()) > 0  # still there


@pytest.mark.parametrize("message", ["Expected float16", "damaged"])
def test_odd_files_are_named(bag: Path, message: str) -> None:
    np.save(bag / "c.npy", np.zeros((3, 5), np.float32))
    if message == "damaged":
        (bag / "c.npy").write_bytes(b"no")
    with pytest.raises(MIVError, match=rf"c\.npy.*{message}"):
        pool_giant(verifier_of("nearest"), queries(), bag)
