"""Networks of timm, where its torchvision can be loaded; elsewhere, what is said."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from miv import MIVError, Verifier
from miv.backbones import create_backbone

IMAGES = np.random.default_rng(0).integers(0, 256, (3, 28, 28), dtype=np.uint8)


def import_timm() -> Any:
    try:
        import timm
    except Exception as error:  # a torchvision of another build breaks in many ways
        pytest.skip(f"needs timm and a torchvision that matches torch (pip install 'miv[timm]'): {error}")
    return timm


@pytest.mark.parametrize(("name", "channels"), [("resnet18", 512), ("tf_efficientnetv2_b3", 1536)])
def test_the_networks_of_the_paper(tmp_path: Path, name: str, channels: int) -> None:
    import_timm()
    options = {"pretrained": False, "image_size": (32, 32)}
    verifier = Verifier("baseline", backbone=f"timm:{name}", backbone_options=options).eval()
    features = verifier.backbone(verifier.backbone.prepare(IMAGES))
    assert features.shape == (3, channels)
    verifier.save_pretrained(tmp_path)
    loaded = Verifier.from_pretrained(tmp_path)
    assert loaded.backbone.fingerprint() == verifier.backbone.fingerprint()


def test_an_unknown_network_and_one_from_elsewhere_are_refused() -> None:
    with pytest.raises(MIVError, match="Expected one of timm's own names"):
        create_backbone("timm:hf-hub:someone/model")
    import_timm()
    with pytest.raises(MIVError, match="timm has no network 'resnet18a'"):
        create_backbone("timm:resnet18a", pretrained=False)


@pytest.mark.parametrize(
    ("library", "spec", "words"),
    [
        ("timm", "timm:resnet18", r"pip install 'miv\[timm\]'"),
        ("transformers", "hf:someone/model", r"pip install 'miv\[hf\]'"),
    ],
)
def test_an_absent_library_is_named_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, library: str, spec: str, words: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)  # importing it is then an error
    with pytest.raises(MIVError, match=words):
        create_backbone(spec)


class Network(torch.nn.Module):
    """As timm makes one, without its classifier."""

    num_features = 3
    pretrained_cfg: ClassVar = {"input_size": (3, 8, 8), "mean": (0.4, 0.4, 0.4), "std": (1.0, 1.0, 1.0)}

    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Linear(3, 3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.body(images.mean(dim=(2, 3)))
        return out


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """Networks are made here, and what is asked of timm is noted."""
    made: list[tuple[str, bool]] = []

    def create(name: str, pretrained: bool) -> Network:
        made.append((name, pretrained))
        return Network()

    monkeypatch.setattr("miv.backbones.timm._create", create)
    return made


WEIGHTS = {"body.weight": 2 * torch.eye(3), "body.bias": torch.zeros(3), "fc.weight": torch.zeros(7, 3)}


@pytest.mark.parametrize("file", ["a.pth", "a.safetensors"])
def test_a_checkpoint_is_read_instead_of_fetched(tmp_path: Path, asked: list[tuple[str, bool]], file: str) -> None:
    if file.endswith(".pth"):
        torch.save(
            {"epoch": 3, "state_dict": {f"module.{key}": value for key, value in WEIGHTS.items()}}, tmp_path / file
        )
    else:
        save_file(WEIGHTS, tmp_path / file)
    backbone = create_backbone("timm:net", checkpoint=str(tmp_path / file), image_size="6x4")
    assert asked == [("net", False)]
    assert backbone.freeze_batch_norm
    assert backbone.instance_shape == (3, 6, 4)
    white = np.full((1, 6, 4), 255, np.uint8)
    torch.testing.assert_close(backbone(backbone.prepare(white)), torch.full((1, 3), 2 * (1 - 0.4)))
    assert backbone.configuration() == {"pretrained": False, "image_size": [6, 4], "freeze_batch_norm": True}


def test_a_local_folder_of_timm(tmp_path: Path, asked: list[tuple[str, bool]]) -> None:
    folder = tmp_path / "net"
    folder.mkdir()
    save_file(WEIGHTS, folder / "model.safetensors")
    seen = {"input_size": [3, 4, 4], "mean": [0.5, 0.5, 0.5], "std": [1.0, 1.0, 1.0]}
    (folder / "config.json").write_text(json.dumps({"architecture": "resnet99", "pretrained_cfg": seen}))
    verifier = Verifier("nearest", backbone=f"timm:local-dir:{folder}").eval()
    features = verifier.backbone(verifier.backbone.prepare(IMAGES))
    verifier.save_pretrained(tmp_path / "verifier")
    shutil.rmtree(folder)
    loaded = Verifier.from_pretrained(tmp_path / "verifier").backbone
    assert torch.equal(loaded(loaded.prepare(IMAGES)), features)
    assert loaded.fingerprint() == verifier.backbone.fingerprint()
    assert set(asked) == {("resnet99", False)}


def test_files_that_do_not_fit_are_refused(tmp_path: Path, asked: list[tuple[str, bool]]) -> None:
    torch.save({"body.weight": torch.eye(3), "neck.weight": torch.eye(3)}, tmp_path / "other.pth")
    torch.save(torch.nn.Linear(1, 1), tmp_path / "whole.pth")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "config.json").write_text('{"architecture": "resnet18"}')
    for spec, options, words in (
        ("timm:net", {"checkpoint": str(tmp_path / "nope.pth")}, "There is no file"),
        ("timm:net", {"checkpoint": str(tmp_path / "other.pth")}, r"missing \['body.bias'\].* \['neck.weight'\]"),
        ("timm:net", {"checkpoint": str(tmp_path / "whole.pth")}, r"not a checkpoint of weights"),
        (f"timm:local-dir:{tmp_path}/nope", {}, "there is no folder.* holds: empty"),
        (f"timm:local-dir:{tmp_path}/empty", {}, "contains no weights"),
    ):
        with pytest.raises(MIVError, match=words):
            create_backbone(spec, **options)


def test_networks_are_told_apart_by_name_and_by_how_they_see_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two networks may have the same weights by name and shape, and yet differ in an activation or in the mean."""

    def network(name: str, pretrained: bool) -> torch.nn.Module:
        made = torch.nn.Linear(1, 1)
        torch.nn.init.zeros_(made.weight)
        torch.nn.init.zeros_(made.bias)
        mean = (0.5, 0.5, 0.5) if name == "a-half" else (0.4, 0.4, 0.4)
        made.pretrained_cfg = {"input_size": (3, 8, 8), "mean": mean, "std": (1.0, 1.0, 1.0)}  # type: ignore[assignment]
        made.num_features = 1  # type: ignore[assignment]
        return made

    monkeypatch.setattr("miv.backbones.timm._create", network)
    prints = [create_backbone(f"timm:{name}", pretrained=False).fingerprint() for name in ("a", "a", "b", "a-half")]
    assert prints[0] == prints[1]
    assert len(set(prints)) == 3
