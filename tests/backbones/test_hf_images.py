"""Images, with networks made from configurations and saved locally."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from miv import MIVError, Verifier
from miv.backbones import create_backbone

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


def test_batch_norm_stays_as_it_was_pretrained(tmp_path: Path) -> None:
    backbone = create_backbone(save(small_resnet(), tmp_path)).train()
    before = {name: buffer.clone() for name, buffer in backbone.named_buffers()}
    backbone(backbone.prepare(images(4, 32, 32))).sum().backward()
    assert all(torch.equal(buffer, before[name]) for name, buffer in backbone.named_buffers())
    without = {name for name, parameter in backbone.named_parameters() if parameter.grad is None}
    assert without == {name for name, _ in backbone.named_parameters() if ".normalization." in name}


def test_batch_norm_learns_in_a_network_that_was_not_pretrained() -> None:
    config = small_resnet().config.to_dict()
    options = {"image_size": (32, 32), "image_mean": MEAN, "image_std": STD}
    backbone = create_backbone("hf:resnet", config=config, **options).train()
    backbone(backbone.prepare(images(4, 32, 32))).sum().backward()
    assert all(parameter.grad is not None for parameter in backbone.parameters())


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


def test_a_vision_transformer_keeps_no_parameter_without_gradient(tmp_path: Path) -> None:
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=32, patch_size=8
    )
    backbone = create_backbone(save(transformers.ViTModel(config), tmp_path))
    features = backbone(backbone.prepare(images(2, 32, 32)))
    assert features.shape == (2, 16)
    features.square().sum().backward()
    assert all(parameter.grad is not None for parameter in backbone.parameters())


def test_a_folder_that_does_not_say_how_to_see_is_refused(tmp_path: Path) -> None:
    spec = save(small_resnet(), tmp_path)
    (tmp_path / "preprocessor_config.json").unlink()
    with pytest.raises(MIVError, match="image_mean None"):
        create_backbone(spec)
    assert create_backbone(spec, image_size=(16, 16), image_mean=MEAN, image_std=STD).instance_shape == (3, 16, 16)


@pytest.mark.parametrize("values", [images(2, 8, 8, 4), images(8, 8), images(2, 8, 8).astype(np.float32)])
def test_what_is_no_image_is_refused(tmp_path: Path, values: NDArray[Any]) -> None:
    backbone = create_backbone(save(small_resnet(), tmp_path))
    with pytest.raises(MIVError, match="Expected uint8"):
        backbone.prepare(values)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"depths": [10**9, 1]}, "at most 1000 layers"),
        ({"depths": [900] * 9}, "at most 1000 layers in total"),
        ({"model_type": "gpt2", "n_layer": 100_000}, "at most 1000 layers in total"),
        ({"hidden_sizes": [8, 10**6]}, r"Expected torch.float32 \(1000000, 8, 3, 3\)"),
        ({"model_type": "resnot"}, "does not describe an encoder"),
        ({"model_type": None}, "has no model_type"),
        ({"text_config": {"model_type": "bert"}}, "has text_config"),
        ({"backbone": "someone/model"}, "has backbone"),
    ],
)
def test_a_verifier_with_a_changed_configuration_is_refused(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    Verifier("baseline", backbone=save(small_resnet(), tmp_path / "resnet")).save_pretrained(tmp_path / "verifier")
    path = tmp_path / "verifier" / "config.json"
    config = json.loads(path.read_text())
    config["backbone_options"]["config"].update(change)
    path.write_text(json.dumps(config))
    with pytest.raises(MIVError, match=words):
        Verifier.from_pretrained(tmp_path / "verifier")


def test_foreign_code_and_kernels_are_not_asked_for(tmp_path: Path) -> None:
    verifier = Verifier("baseline", backbone=save(small_resnet(), tmp_path / "resnet"))
    verifier.save_pretrained(tmp_path / "verifier")
    path = tmp_path / "verifier" / "config.json"
    config = json.loads(path.read_text())
    asked = {"auto_map": {"AutoModel": "someone/model--modeling.Model"}, "attn_implementation": "someone/kernel"}
    config["backbone_options"]["config"].update(asked)
    path.write_text(json.dumps(config))
    loaded = Verifier.from_pretrained(tmp_path / "verifier")
    assert loaded.backbone.fingerprint() == verifier.backbone.fingerprint()


def test_a_folder_without_all_weights_is_refused(tmp_path: Path) -> None:
    spec = save(small_resnet(), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "depths": [1, 2]}))
    with pytest.raises(MIVError, match="lacks the weights"):
        create_backbone(spec)


def test_a_vision_transformer_is_averaged_over_the_picture_alone(tmp_path: Path) -> None:
    """The first of its vectors is [CLS], which is of no place in the picture."""
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    model = transformers.ViTModel(transformers.ViTConfig(**sizes, image_size=16, patch_size=8)).eval()
    backbone = create_backbone(save(model, tmp_path, edge=16)).eval()
    prepared = backbone.prepare(images(2, 16, 16))
    hidden = model(prepared).last_hidden_state  # (2, 1 + 4, 8)
    assert hidden.shape == (2, 5, 8)
    torch.testing.assert_close(backbone(prepared), hidden[:, 1:].mean(dim=1))
