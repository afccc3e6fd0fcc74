"""Networks of timm, where its torchvision can be loaded; elsewhere, what is said."""

import builtins
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from miv import MIVError, Verifier
from miv.backbones import create_backbone

IMAGES = np.random.default_rng(0).integers(0, 256, (3, 28, 28), dtype=np.uint8)


def import_timm() -> Any:
    try:
        import timm
    except Exception as error:  # a torchvision of another build breaks in many ways
        pytest.skip(f"needs timm and a torchvision that fits torch (pip install 'miv[timm]'): {error}")
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


def test_an_unknown_network_is_refused() -> None:
    import_timm()
    with pytest.raises(MIVError, match="timm has no network 'resnet18a'"):
        create_backbone("timm:resnet18a", pretrained=False)


def test_a_network_from_elsewhere_is_refused() -> None:
    with pytest.raises(MIVError, match="Expected one of timm's own names"):
        create_backbone("timm:hf-hub:someone/model")


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
    found = builtins.__import__

    def without(name: str, *rest: Any, **options: Any) -> Any:
        if name == library:
            raise ImportError(f"No module named '{library}'")
        return found(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.delitem(sys.modules, library, raising=False)
    with pytest.raises(MIVError, match=words):
        create_backbone(spec)


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
