"""A network beside a histogram of gradients: two descriptors of length 1, of which one learns."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from miv import MIVError
from miv.backbones import create_backbone
from miv.backbones.cnn import HogCNN
from tests.backbones.test_fixed import SIZES, photographs


@pytest.mark.parametrize("size", ["small", "large"])
@pytest.mark.parametrize("grid", [1, 4])
@pytest.mark.parametrize("shape", [(28, 28), (17, 40), (1, 1)])
def test_a_batch_equals_its_images_one_by_one_while_training(size: str, grid: int, shape: tuple[int, int]) -> None:
    backbone = create_backbone("compact_cnn", size=size, grid=grid).train()
    images = torch.rand(4, 1, *shape) * torch.tensor([1, 0.2, 0.01, 0]).reshape(4, 1, 1, 1)
    features = backbone(images)
    alone = torch.cat([backbone(image[None]) for image in images])
    torch.testing.assert_close(features, alone, atol=1e-5, rtol=1e-4)


def test_it_takes_grey_images_only() -> None:
    backbone = create_backbone("compact_cnn")
    prepared = backbone.prepare(np.array([[[0, 255, 51]]], dtype=np.uint8))
    torch.testing.assert_close(prepared, torch.tensor([[[[0.0, 1.0, 0.2]]]]))
    with pytest.raises(MIVError, match="Expected uint8 grey"):
        backbone.prepare(np.zeros((1, 4, 4, 3), dtype=np.uint8))
    with pytest.raises(MIVError, match=r"The instances are torch.float32 \(2, 3, 8, 8\)"):
        backbone(torch.zeros(2, 3, 8, 8))
    with pytest.raises(MIVError, match="Did you mean 'large'"):
        create_backbone("compact_cnn", size="larg")


def test_a_grid_keeps_where_things_are() -> None:
    """Two pictures of one square far from the border differ by its place only, which a global average does not see."""
    images = torch.zeros(3, 1, 64, 64)
    images[0, 0, 16:20, 16:20] = images[1, 0, 40:44, 40:44] = 1
    distance = []
    for grid in (1, 4):
        torch.manual_seed(0)
        backbone = create_backbone("compact_cnn", grid=grid, features=10).eval()
        first, second, blank = backbone(images)
        distance.append(float((first - second).norm() / (first - blank).norm()))
    assert backbone.channels == len(first) == 10
    assert distance[0] < 1e-4
    assert distance[1] > 0.5


def test_a_shift_means_over_the_nine_neighbours_but_not_while_learning() -> None:
    images = torch.rand(3, 1, 12, 10, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    backbone = create_backbone("compact_cnn", grid=2, features=5, shift=1).eval()
    torch.manual_seed(0)
    plain = create_backbone("compact_cnn", grid=2, features=5).eval()
    copies = []
    for down in (-1, 0, 1):
        for right in (-1, 0, 1):
            moved = torch.zeros_like(images)
            for row in range(12):
                for column in range(10):
                    if 0 <= row - down < 12 and 0 <= column - right < 10:
                        moved[:, :, row, column] = images[:, :, row - down, column - right]
            copies.append(plain(moved))
    torch.testing.assert_close(backbone(images), sum(copies) / 9)
    torch.testing.assert_close(backbone.train()(images), plain(images))
    torch.testing.assert_close(backbone.freeze()(images), sum(copies) / 9)  # a frozen one has learned, whoever trains


# A network beside a histogram of gradients: two descriptors of length 1, of which one learns.

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
