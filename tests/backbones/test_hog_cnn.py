"""A network beside a histogram of gradients: two descriptors of length 1, of which one learns."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from miv import Bags, MIVError, Verifier
from miv.backbones import create_backbone
from miv.backbones.cnn import HogCNN
from miv.interop import export_onnx
from tests.backbones.test_fixed import SIZES, photographs

SMALL = {"features": 24, "grid": 2, "cells": 3}
HOG_CHANNELS = 2 * 2 * 4 * 9  # blocks of four cells of nine directions


def made() -> HogCNN:
    torch.manual_seed(0)
    return HogCNN(features=24, grid=2, cells=3).eval()


@pytest.mark.parametrize("size", SIZES)
def test_each_image_of_any_size_has_features_of_length_one_whatever_is_beside_it(size: tuple[int, int]) -> None:
    backbone = made()
    images = photographs((4, *size))
    features = backbone(backbone.prepare(images))
    assert features.shape == (4, backbone.channels) == (4, HOG_CHANNELS + 24)
    alone = torch.cat([backbone(backbone.prepare(image[None])) for image in images])
    torch.testing.assert_close(features, alone, atol=1e-5, rtol=1e-4)
    if min(size) > 1:  # one pixel has no gradients, hence no histogram
        torch.testing.assert_close(features.norm(dim=1), torch.ones(4))


def test_its_cosine_is_a_mean_of_the_cosines_of_its_parts() -> None:
    backbone = made()
    backbone.balance.data.fill_(0.7)
    share = 1 / (1 + np.exp(-0.7))
    images = backbone.prepare(photographs((5, 28, 28)))

    def cosines(part: torch.nn.Module) -> torch.Tensor:
        directions = functional.normalize(part(images))
        return directions @ directions.T

    torch.testing.assert_close(
        cosines(backbone), share * cosines(backbone.hog) + (1 - share) * cosines(backbone.cnn), atol=1e-5, rtol=1e-5
    )


def test_network_and_balance_learn_and_nothing_else() -> None:
    backbone = made().train()
    images = backbone.prepare(photographs((3, 28, 28)))
    backbone(images)[0].dot(backbone(images)[1]).backward()
    assert backbone.balance.grad is not None
    assert backbone.balance.grad.abs() > 0
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in backbone.cnn.parameters())
    assert not list(backbone.hog.parameters())
    learned = {name.split(".")[0] for name, _ in backbone.named_parameters()}
    assert learned == {"cnn", "balance"}
    backbone.freeze()
    assert not any(weight.requires_grad for weight in backbone.parameters())
    assert not backbone.cnn.training


def test_the_same_seed_gives_the_same_features() -> None:
    images = photographs((2, 20, 20))
    first, second = made(), made()
    assert torch.equal(first(first.prepare(images)), second(second.prepare(images)))


def test_colours_count_by_how_bright_they_are() -> None:
    backbone = made()
    grey = photographs((2, 30, 20))
    same = np.repeat(grey[..., None], 3, axis=3)
    torch.testing.assert_close(backbone(backbone.prepare(same)), backbone(backbone.prepare(grey)), atol=1e-5, rtol=1e-4)


def test_a_blank_image_has_features() -> None:
    backbone = made()
    assert bool(backbone(backbone.prepare(np.zeros((1, 20, 20), np.uint8))).isfinite().all())


@pytest.mark.slow
def test_a_verifier_with_it_is_saved_loaded_and_exported(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needs onnxruntime (pip install 'miv[onnx]')")
    torch.manual_seed(0)
    form = {"kind": "image", "height": 21, "width": 34, "mode": "L"}
    verifier = Verifier("nearest", "hog_cnn", backbone_options={**SMALL, "shift": 1}, instances=form).eval()
    assert isinstance(verifier.backbone, HogCNN)
    verifier.backbone.balance.data.fill_(0.5)
    verifier.save_pretrained(tmp_path / "saved")
    loaded = Verifier.from_pretrained(tmp_path / "saved")
    assert loaded.backbone.fingerprint() == verifier.backbone.fingerprint()
    assert loaded.backbone.configuration() == {**SMALL, "size": "small", "shift": 1}
    images = torch.rand(7, 1, 21, 34)
    bags = Bags(images[2:], torch.tensor([0, 2, 5]))
    torch.testing.assert_close(loaded(images[:2], bags).logit, verifier(images[:2], bags).logit)
    assert export_onnx(loaded, tmp_path / "verifier.onnx", bags=3).worst <= 1e-4


def test_a_wrong_option_is_named() -> None:
    with pytest.raises(MIVError, match="cells of hog is 1"):
        create_backbone("hog_cnn", cells=1)
    with pytest.raises(MIVError, match="Did you mean 'small'"):
        create_backbone("hog_cnn", size="smal")
