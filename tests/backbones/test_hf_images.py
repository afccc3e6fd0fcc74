"""Images, with networks made from configurations and saved locally."""

import json
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from tools.mobilenet_folder import convert

from miv import MIVError, Verifier
from miv.backbones import create_backbone
from miv.files.images import parse_size

transformers = pytest.importorskip("transformers", reason="needs transformers (pip install 'miv[hf]')")

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def images(*shape: int) -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def save(model: Any, folder: Path, edge: int = 32) -> str:
    model.save_pretrained(folder)
    processor = {"image_mean": MEAN, "image_std": STD, "size": {"shortest_edge": edge}}
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return f"hf:{folder}"


def small_resnet() -> Any:
    config = transformers.ResNetConfig(depths=[1, 1], hidden_sizes=[8, 16], embedding_size=8, layer_type="basic")
    torch.manual_seed(0)
    model = transformers.ResNetModel(config)
    for name, buffer in model.named_buffers():  # as after training, lest frozen and fresh statistics look alike
        if name.endswith(("running_mean", "running_var")):
            buffer.uniform_(0.5, 1.5)
    return model


def test_resnet_18_gives_512_channels_and_is_saved_whole(tmp_path: Path) -> None:
    config = transformers.ResNetConfig(depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512], layer_type="basic")
    spec = save(transformers.ResNetModel(config), tmp_path / "resnet")
    verifier = Verifier("cap_dba_l2", backbone=spec).eval()
    prepared = verifier.backbone.prepare(images(3, 28, 28))
    features = verifier.backbone(prepared)
    assert (prepared.shape, features.shape) == ((3, 3, 32, 32), (3, 512))
    verifier.save_pretrained(tmp_path / "verifier")
    shutil.rmtree(tmp_path / "resnet")
    loaded = Verifier.from_pretrained(tmp_path / "verifier")
    assert torch.equal(loaded.backbone(loaded.backbone.prepare(images(3, 28, 28))), features)
    assert loaded.backbone.fingerprint() == verifier.backbone.fingerprint()


def test_features_are_the_average_over_the_picture(tmp_path: Path) -> None:
    model = small_resnet().eval()
    backbone = create_backbone(save(model, tmp_path)).eval()
    prepared = backbone.prepare(images(4, 32, 32, 3))
    expected = model(prepared).last_hidden_state.mean(dim=(2, 3))  # (4, 16, 8, 8) to (4, 16)
    torch.testing.assert_close(backbone(prepared), expected)
    alone = torch.cat([backbone(prepared[row : row + 1]) for row in range(4)])
    torch.testing.assert_close(backbone(prepared), alone)


def test_images_are_seen_as_in_the_pretraining(tmp_path: Path) -> None:
    backbone = create_backbone(save(small_resnet(), tmp_path, edge=2))
    grey = np.array([[[0, 255], [51, 102]]], dtype=np.uint8)  # 0, 1, 0.2 and 0.4
    red, green, blue = backbone.prepare(grey)[0]
    torch.testing.assert_close(red, torch.tensor([[0, 1], [0.2, 0.4]]).sub(0.485).div(0.229))
    torch.testing.assert_close(green, torch.tensor([[0, 1], [0.2, 0.4]]).sub(0.456).div(0.224))
    torch.testing.assert_close(blue, torch.tensor([[0, 1], [0.2, 0.4]]).sub(0.406).div(0.225))


@pytest.mark.parametrize("size", [(28, 28), (64, 20), (7, 5)])
def test_resizing_agrees_with_pillow(tmp_path: Path, size: tuple[int, int]) -> None:
    options = {"image_size": size, "image_mean": (0, 0, 0), "image_std": (1, 1, 1)}
    backbone = create_backbone(save(small_resnet(), tmp_path), **options)
    picture = np.add.outer(np.arange(40), 3 * np.arange(31)).astype(np.uint8)
    expected = np.asarray(Image.fromarray(picture).resize(size[::-1], Image.Resampling.BILINEAR)) / 255
    resized = backbone.prepare(picture[None])[0]
    assert resized.shape == (3, *size)
    np.testing.assert_allclose(resized[1].numpy(), expected, atol=1 / 255)


def test_a_folder_that_does_not_say_how_to_see_is_refused(tmp_path: Path) -> None:
    spec = save(small_resnet(), tmp_path)
    (tmp_path / "preprocessor_config.json").unlink()
    with pytest.raises(MIVError, match="image_mean None"):
        create_backbone(spec)
    assert create_backbone(spec, image_size=(16, 16), image_mean=MEAN, image_std=STD).instance_shape == (3, 16, 16)


def changed(tmp_path: Path, change: dict[str, Any]) -> tuple[Verifier, Path]:
    """A verifier, and its folder with another configuration of the network."""
    verifier = Verifier("baseline", backbone=save(small_resnet(), tmp_path / "resnet"))
    verifier.save_pretrained(tmp_path / "verifier")
    path = tmp_path / "verifier" / "config.json"
    config = json.loads(path.read_text())
    config["backbone_options"]["config"].update(change)
    path.write_text(json.dumps(config))
    return verifier, path.parent


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"depths": [10**9, 1]}, "at most 1000 layers"),
        ({"depths": [900] * 9}, "at most 1000 layers"),
        ({"model_type": "gpt2", "n_layer": 100_000}, "at most 1000 layers"),
        ({"hidden_sizes": [8, 10**6]}, r"Expected torch.float32 \(1000000, 8, 3, 3\)"),
        ({"model_type": "resnot"}, "does not describe an encoder"),
        ({"model_type": None}, "has no model_type"),
        ({"text_config": {"model_type": "bert"}}, "has text_config"),
        ({"backbone": "someone/model"}, "has backbone"),
    ],
)
def test_a_verifier_with_a_changed_configuration_is_refused(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    _, folder = changed(tmp_path, change)
    with pytest.raises(MIVError, match=words):
        Verifier.from_pretrained(folder)


def test_foreign_code_and_kernels_are_not_asked_for(tmp_path: Path) -> None:
    asked = {"auto_map": {"AutoModel": "someone/model--modeling.Model"}, "attn_implementation": "someone/kernel"}
    verifier, folder = changed(tmp_path, asked)
    loaded = Verifier.from_pretrained(folder)
    assert loaded.backbone.fingerprint() == verifier.backbone.fingerprint()


def test_a_folder_without_all_weights_is_refused(tmp_path: Path) -> None:
    spec = save(small_resnet(), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "depths": [1, 2]}))
    with pytest.raises(MIVError, match="lacks the weights"):
        create_backbone(spec)


# Networks that people have: other sizes of images, MobileNet, half of CLIP, and names that are nothing.

SIZES = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
VISION = {**SIZES, "image_size": 16, "patch_size": 8}


def vit() -> Any:
    return transformers.ViTModel(transformers.ViTConfig(**VISION)).eval()


def dinov2() -> Any:
    sizes = {name: value for name, value in VISION.items() if name != "intermediate_size"}
    return transformers.Dinov2Model(transformers.Dinov2Config(**sizes)).eval()


def test_a_vision_transformer_is_averaged_over_the_picture_alone_and_all_of_it_learns(tmp_path: Path) -> None:
    """The first of its vectors is [CLS], which is of no place in the picture."""
    model = vit()
    backbone = create_backbone(save(model, tmp_path, edge=16)).eval()
    prepared = backbone.prepare(images(2, 16, 16))
    hidden, features = model(prepared).last_hidden_state, backbone(prepared)
    assert hidden.shape == (2, 5, 8)
    torch.testing.assert_close(features, hidden[:, 1:].mean(dim=1))
    features.square().sum().backward()
    assert all(parameter.grad is not None for parameter in backbone.parameters())


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


@pytest.mark.parametrize("size", ["112x", "x", "112x96x3", "a", 0, (1, 2, 3), "50000x5", 1.5])
def test_what_is_no_size(size: object) -> None:
    with pytest.raises(MIVError, match=r"The image size is .*height x width"):
        parse_size(size)


# torchvision's MobileNetV2 as a folder for ``hf:``: the same features as a plain network with its layout.


# Expansion, channels, repeats and stride of the blocks, as in the paper of MobileNetV2.
def test_weights_of_another_network_are_refused() -> None:
    with pytest.raises(SystemExit, match="do not fit"):
        convert({"conv1.weight": torch.zeros(64, 3, 7, 7)})
