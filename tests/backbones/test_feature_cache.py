from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from miv.backbones import Backbone, create_backbone
from miv.backbones.cache import embed_exemplars, embed_instances, embed_pool
from miv.data import ExemplarSet, InstancePool
from miv.errors import MIVError, MIVWarning


@pytest.fixture
def backbone() -> Backbone:
    torch.manual_seed(0)
    return create_backbone("compact_cnn").freeze()


def images(count: int = 6, seed: int = 0) -> InstancePool:
    return InstancePool("image", np.random.default_rng(seed).integers(0, 256, (count, 8, 8)).astype(np.uint8))


def refuse_to_embed(monkeypatch: pytest.MonkeyPatch) -> None:
    def embedded_again(*_: object) -> None:
        raise AssertionError("the backbone was run again")

    monkeypatch.setattr("miv.backbones.cache.embed_instances", embedded_again)


def test_features_are_those_of_the_backbone_and_made_once(
    backbone: Backbone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = images()
    first = embed_pool(backbone, pool, tmp_path)
    expected = backbone.eval()(backbone.prepare(pool.values)).detach().numpy()
    np.testing.assert_allclose(first, expected, rtol=1e-4, atol=1e-6)
    refuse_to_embed(monkeypatch)
    again = embed_pool(backbone, images(), tmp_path)
    assert isinstance(again, np.memmap)
    assert again.tobytes() == first.tobytes()


def test_other_weights_options_or_data_are_other_features(backbone: Backbone, tmp_path: Path) -> None:
    first = embed_pool(backbone, images(), tmp_path).copy()
    assert embed_pool(backbone, images(seed=1), tmp_path).tobytes() != first.tobytes()
    with torch.no_grad():
        next(backbone.parameters()).mul_(1.5).add_(0.01)
    embed_pool(backbone, images(), tmp_path)
    embed_pool(create_backbone("compact_cnn", size="large"), images(), tmp_path)
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text", "longer"])
def test_a_damaged_file_is_made_again(backbone: Backbone, tmp_path: Path, damage: str) -> None:
    first = embed_pool(backbone, images(), tmp_path).copy()
    path = next(tmp_path.iterdir())
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[200] ^= 1
    damaged = {"cut": whole[:-9], "flipped": bytes(flipped), "empty": b"", "text": b"?" * 999, "longer": whole + b"?"}
    path.write_bytes(damaged[damage])
    with pytest.warns(MIVWarning, match=rf"{path.name} in the cache is damaged .* computed again"):
        assert embed_pool(backbone, images(), tmp_path).tobytes() == first.tobytes()
    assert path.read_bytes() == whole


def test_a_backbone_that_gives_nan_or_zeros_is_named(backbone: Backbone, tmp_path: Path) -> None:
    with torch.no_grad():
        for weight in backbone.parameters():
            weight.zero_()
    with pytest.warns(MIVWarning, match="only zeros for all 6 instances"):
        embed_pool(backbone, images(), tmp_path)
    with torch.no_grad():
        for weight in backbone.parameters():
            weight.fill_(torch.nan)
    with pytest.raises(MIVError, match="NaN or infinite features for instance 0"):
        embed_pool(backbone, images(), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_cache_that_cannot_be_written_is_left_out(backbone: Backbone, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.warns(MIVWarning, match="cache .* cannot be written"):
        found = embed_pool(backbone, images(), tmp_path / "file" / "cache")
    assert found.tobytes() == embed_pool(backbone, images(), tmp_path / "cache").tobytes()


def test_several_writers_of_one_cache_agree(tmp_path: Path) -> None:
    def embed(_: int) -> bytes:
        torch.manual_seed(0)
        return embed_pool(create_backbone("hog"), images(200), tmp_path).tobytes()

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(embed, range(8)))) == 1
    assert len(list(tmp_path.iterdir())) == 1


def three_of_six() -> ExemplarSet:
    """Two exemplars that use the instances 1, 2 and 4 of a pool of six."""
    return ExemplarSet.from_lists(images(), [4, 4], [[1, 2], [2]], labels=[1, 0])


def test_of_a_shared_pool_only_what_a_set_uses_is_embedded_and_kept(
    backbone: Backbone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = embed_exemplars(backbone, three_of_six(), tmp_path)
    expected = embed_instances(backbone, images(), np.array([1, 2, 4]))
    np.testing.assert_allclose(first, expected, rtol=1e-4, atol=1e-6)
    assert not first[[0, 3, 5]].any()
    refuse_to_embed(monkeypatch)
    assert embed_exemplars(backbone, three_of_six(), tmp_path).tobytes() == first.tobytes()


def test_the_features_of_a_whole_pool_serve_every_set_on_it(
    backbone: Backbone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = embed_pool(backbone, images(), tmp_path)
    refuse_to_embed(monkeypatch)
    assert embed_exemplars(backbone, three_of_six(), tmp_path).tobytes() == whole.tobytes()
    assert len(list(tmp_path.iterdir())) == 1


def test_another_pool_embeds_only_instances_that_no_pool_had(
    backbone: Backbone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = images(), images(4, seed=1)
    of_one = embed_pool(backbone, one, tmp_path).copy()
    of_other = embed_pool(backbone, other, tmp_path).copy()
    both = InstancePool("image", np.concatenate([other.values[2:], one.values[::2], images(1, seed=2).values]))
    rows: list[list[int]] = []

    def embed(backbone: Backbone, pool: InstancePool, chosen: np.ndarray, progress: object) -> np.ndarray:
        rows.append(chosen.tolist())
        return embed_instances(backbone, pool, chosen)

    monkeypatch.setattr("miv.backbones.cache.embed_instances", embed)
    first = embed_pool(backbone, both, tmp_path)
    assert first[:5].tobytes() == np.concatenate([of_other[2:], of_one[::2]]).tobytes()
    assert first[5:].tobytes() == embed_instances(backbone, both, np.array([5]))[5:].tobytes()
    assert embed_pool(backbone, both.take([5, 5, 0, 4]), tmp_path).tobytes() == first[[5, 5, 0, 4]].tobytes()
    assert rows == [[5]]
    assert len(list(tmp_path.iterdir())) == 3  # a part of what is known needs no file


@pytest.mark.parametrize("twice", [False, True])
def test_a_damaged_file_does_not_serve_another_pool(backbone: Backbone, tmp_path: Path, twice: bool) -> None:
    pool = images().take([0, 1, 1, 2]) if twice else images()
    whole = embed_pool(backbone, pool, tmp_path).copy()
    path = next(tmp_path.iterdir())
    assert embed_pool(backbone, pool.take([1]), tmp_path).tobytes() == whole[1:2].tobytes()
    flipped = bytearray(path.read_bytes())
    flipped[200] ^= 1
    path.write_bytes(bytes(flipped))
    with pytest.warns(MIVWarning, match="is damaged"):
        np.testing.assert_allclose(embed_pool(backbone, pool.take([1]), tmp_path), whole[1:2], rtol=1e-4, atol=1e-6)
    assert not path.exists()


def test_features_need_no_cache(tmp_path: Path) -> None:
    pool = InstancePool("features", np.ones((3, 4), np.float32))
    assert embed_pool(create_backbone("features", channels=4), pool, tmp_path / "none") is pool.values
    assert not (tmp_path / "none").exists()
    with pytest.raises(MIVError, match="Expected float32"):
        embed_pool(create_backbone("features", channels=5), pool, tmp_path)


@pytest.mark.parametrize("code", ["miv.backbones.cache._FEATURES_SINCE", "torch.__version__"])
def test_other_code_may_make_other_features(
    backbone: Backbone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    embed_pool(backbone, images(), tmp_path)
    monkeypatch.setattr(code, "99.0")
    embed_pool(backbone, images(), tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
