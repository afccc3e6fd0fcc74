"""Networks that people have: other sizes of images, MobileNet, half of CLIP, and names that are nothing."""

import time
from pathlib import Path
from typing import Any

import pytest
import torch

from miv import MIVError, Verifier
from miv.backbones import create_backbone
from miv.backbones.hf_images import ImageView
from tests.backbones.test_hf_images import images, save

transformers = pytest.importorskip("transformers", reason="needs transformers (pip install 'miv[hf]')")

SIZES = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
VISION = {**SIZES, "image_size": 16, "patch_size": 8}


def vit() -> Any:
    return transformers.ViTModel(transformers.ViTConfig(**VISION)).eval()


def dinov2() -> Any:
    sizes = {name: value for name, value in VISION.items() if name != "intermediate_size"}
    return transformers.Dinov2Model(transformers.Dinov2Config(**sizes)).eval()


@pytest.mark.parametrize(("make", "words"), [(vit, {"interpolate_pos_encoding": True}), (dinov2, {})])
def test_positions_are_interpolated_at_another_size(tmp_path: Path, make: Any, words: dict[str, bool]) -> None:
    torch.manual_seed(0)
    model = make()
    spec = save(model, tmp_path / "model", edge=16)
    verifier = Verifier("nearest", backbone=spec, backbone_options={"image_size": "32x24"}).eval()
    prepared = verifier.backbone.prepare(images(2, 20, 20))
    assert prepared.shape == (2, 3, 32, 24)
    hidden = model(prepared, **words).last_hidden_state  # (2, 1 + 4 * 3, 8)
    features = verifier.backbone(prepared)
    torch.testing.assert_close(features, hidden[:, 1:].mean(dim=1))
    verifier.save_pretrained(tmp_path / "verifier")
    loaded = Verifier.from_pretrained(tmp_path / "verifier").backbone
    assert torch.equal(loaded(loaded.prepare(images(2, 20, 20))), features)


def test_a_size_that_a_transformer_does_not_take_is_refused(tmp_path: Path) -> None:
    sizes = {"hidden_sizes": [16, 24, 32], "num_attention_heads": [2, 2, 2], "depths": [1, 1, 1], "key_dim": [8, 8, 8]}
    spec = save(transformers.LevitModel(transformers.LevitConfig(image_size=64, **sizes)), tmp_path, edge=64)
    assert create_backbone(spec).instance_shape == (3, 64, 64)
    with pytest.raises(MIVError, match=r"levit does not take images of image_size \(32, 32\).*trained on 64"):
        create_backbone(spec, image_size=32)


@pytest.mark.parametrize("version", ["V1", "V2"])
def test_mobilenet_says_its_channels_only_by_what_it_gives(tmp_path: Path, version: str) -> None:
    config = getattr(transformers, f"MobileNet{version}Config")(depth_multiplier=0.25)
    model = getattr(transformers, f"MobileNet{version}Model")(config).eval()
    backbone = create_backbone(save(model, tmp_path)).eval()
    prepared = backbone.prepare(images(2, 32, 32))
    expected = model(prepared).last_hidden_state.mean(dim=(2, 3))
    assert backbone.channels == expected.shape[1]
    torch.testing.assert_close(backbone(prepared), expected)


def test_of_clip_the_half_for_images_is_taken(tmp_path: Path) -> None:
    text = {**SIZES, "vocab_size": 50, "max_position_embeddings": 8, "bos_token_id": 1, "eos_token_id": 2}
    config = transformers.CLIPConfig(text_config=text, vision_config=VISION, projection_dim=4)
    clip = transformers.CLIPModel(config).eval()
    verifier = Verifier("nearest", backbone=save(clip, tmp_path / "clip", edge=16)).eval()
    prepared = verifier.backbone.prepare(images(2, 16, 16))
    features = verifier.backbone(prepared)
    torch.testing.assert_close(features, clip.vision_model(prepared).pooler_output)
    verifier.save_pretrained(tmp_path / "verifier")
    loaded = Verifier.from_pretrained(tmp_path / "verifier").backbone
    assert torch.equal(loaded(loaded.prepare(images(2, 16, 16))), features)


def test_a_misspelt_folder_fails_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models" / "resnet").mkdir(parents=True)
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", lambda *given, **options: pytest.fail("asked the hub"))
    for name in ("models/resnot", "./models/resnot", str(tmp_path / "models" / "resnot")):
        with pytest.raises(MIVError, match=r"there is no folder .*models holds: resnet\."):
            create_backbone(f"hf:{name}")


def test_a_name_without_a_network_fails_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*given: object, **options: object) -> None:
        raise ConnectionResetError

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", no_network)
    start = time.monotonic()
    with pytest.raises(MIVError, match="the hub cannot be reached, and the model is not in its local cache"):
        create_backbone("hf:nobody/nothing-of-this-name")
    assert time.monotonic() - start < 5  # six retries take more than twenty


@pytest.mark.parametrize("size", ["112x96", "112 X 96", (112, 96), [112, 96]])
def test_sizes_of_images(size: object) -> None:
    assert ImageView.checked(size, (0, 0, 0), (1, 1, 1)).size == (112, 96)


@pytest.mark.parametrize("size", ["112x", "x", "112x96x3", "a", 0, (112,), "5000x5", 1.5])
def test_what_is_no_size(size: object) -> None:
    with pytest.raises(MIVError, match=r"image_size is .*112x96, \(112, 96\), or 112 for both"):
        ImageView.checked(size, (0, 0, 0), (1, 1, 1))
