"""The descriptors of images that learn nothing, beside a naive computation."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.nn import functional

from miv import Bags, MIVError, Verifier
from miv.backbones import create_backbone
from miv.backbones.descriptors import Features, resize
from miv.interop import export_onnx

SIZES = [(28, 28), (17, 40), (105, 61), (60, 60), (1, 1)]


def photographs(shape: tuple[int, ...], seed: int = 0) -> NDArray[np.uint8]:
    """Smooth noise, so that gradients have all lengths."""
    coarse = torch.from_numpy(np.random.default_rng(seed).random((shape[0], 1, 9, 9)))
    fine = functional.interpolate(coarse, shape[1:3], mode="bicubic").clamp(0, 1)[:, 0]
    return (255 * fine.numpy()).astype(np.uint8)


def naive_hog(image: NDArray[Any], cells: int, cell_size: int, orientations: int) -> list[float]:
    """One vote after the other; ``image`` has the working size already."""
    side = cells * cell_size
    votes = np.zeros((cells, cells, orientations))
    spread = np.zeros((cells, side))  # of each pixel of a side over the cells
    for cell in range(cells):
        for place in range(side):
            spread[cell, place] = max(0.0, 1 - abs(place + 0.5 - (cell + 0.5) * cell_size) / cell_size)
        spread[cell] /= spread[cell].sum()
    for y in range(side):
        for x in range(side):
            right = image[y, min(x + 1, side - 1)] - image[y, max(x - 1, 0)]
            down = image[min(y + 1, side - 1), x] - image[max(y - 1, 0), x]
            angle = math.atan2(down, right) % math.pi / math.pi * orientations
            below = math.floor(angle - 0.5)
            part = angle - 0.5 - below
            for step, share in ((below, 1 - part), (below + 1, part)):
                vote = math.hypot(right, down) * share
                for row in range(cells):
                    for column in range(cells):
                        votes[row, column, step % orientations] += vote * spread[row, y] * spread[column, x]
    blocks = np.zeros((4 * orientations, cells - 1, cells - 1))
    for row in range(cells - 1):
        for column in range(cells - 1):
            block = votes[row : row + 2, column : column + 2].reshape(-1)
            block = np.minimum(block / math.sqrt((block**2).sum() + 0.05**2), 0.2)
            blocks[:, row, column] = block / math.sqrt((block**2).sum() + 0.05**2)
    return [float(number) for number in blocks.reshape(-1)]


@pytest.mark.parametrize(("cells", "cell_size", "orientations"), [(3, 4, 9), (4, 5, 2), (2, 6, 7)])
def test_hog_is_what_a_loop_over_pixels_gives(cells: int, cell_size: int, orientations: int) -> None:
    backbone = create_backbone("hog", cells=cells, cell_size=cell_size, orientations=orientations)
    side = cells * cell_size
    images = photographs((3, side, side))
    with torch.inference_mode():
        features = backbone(backbone.prepare(images))
    assert features.shape == (3, backbone.channels)
    for image, given in zip(images / 255, features, strict=True):
        assert given.numpy() == pytest.approx(naive_hog(image, cells, cell_size, orientations), abs=2e-5)


@pytest.mark.parametrize("old", SIZES)
@pytest.mark.parametrize("new", [(16, 16), (60, 31), (3, 5)])
def test_images_are_resized_as_torch_does_it(old: tuple[int, int], new: tuple[int, int]) -> None:
    images = torch.rand(2, 3, *old)
    expected = functional.interpolate(images, new, mode="bilinear", antialias=True)
    torch.testing.assert_close(resize(images, new), expected)


def test_pixels_are_means_of_fields_less_the_mean_of_all() -> None:
    image = np.zeros((1, 4, 4), np.uint8)
    image[0, :2, :2] = 255  # a bright corner
    backbone = create_backbone("pixels", size=4)
    features = backbone(backbone.prepare(image))
    assert features.reshape(4, 4)[:2, :2].flatten().tolist() == [0.75] * 4
    assert features.sum() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("name", ["hog", "pixels"])
@pytest.mark.parametrize("size", SIZES)
def test_images_of_any_size_have_features_of_one_length(name: str, size: tuple[int, int]) -> None:
    backbone = create_backbone(name)
    images = photographs((4, *size))
    features = backbone(backbone.prepare(images))
    assert features.shape == (4, backbone.channels)
    assert bool(features.isfinite().all())
    alone = torch.cat([backbone(backbone.prepare(image[None])) for image in images])
    torch.testing.assert_close(features, alone, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["hog", "pixels", "hog_cnn"])
def test_colours_count_by_how_bright_they_are(name: str) -> None:
    backbone = create_backbone(name).eval()
    grey = photographs((2, 30, 20))
    same = np.repeat(grey[..., None], 3, axis=3)
    torch.testing.assert_close(backbone(backbone.prepare(same)), backbone(backbone.prepare(grey)), atol=1e-5, rtol=1e-4)
    reddish = same.copy()
    reddish[..., 1:] = 0
    expected = 0.299 * backbone.prepare(grey)
    torch.testing.assert_close(backbone.prepare(reddish), expected)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("hog", {"cells": 3, "orientations": 6}),
        ("pixels", {"size": 5}),
        pytest.param("hog_cnn", {"features": 24, "grid": 2, "cells": 3, "shift": 1}, marks=pytest.mark.slow),
    ],
)
def test_a_verifier_with_it_is_saved_loaded_and_exported(name: str, options: dict[str, int], tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needs onnxruntime (pip install 'miv[onnx]')")
    torch.manual_seed(0)
    form = {"kind": "image", "height": 21, "width": 34, "mode": "L"}
    verifier = Verifier("baseline", name, backbone_options=options, instances=form).eval()
    verifier.save_pretrained(tmp_path / "saved")
    loaded = Verifier.from_pretrained(tmp_path / "saved")
    assert loaded.backbone.fingerprint() == verifier.backbone.fingerprint()
    images = torch.rand(7, 1, 21, 34)
    bags = Bags(images[2:], torch.tensor([0, 2, 5]))
    torch.testing.assert_close(loaded(images[:2], bags).logit, verifier(images[:2], bags).logit)
    assert export_onnx(loaded, tmp_path / "verifier.onnx", bags=3).worst <= 1e-4
    in_colour = Verifier("baseline", name, backbone_options=options, instances={**form, "mode": "RGB"})
    with pytest.raises(MIVError, match="grey images only"):
        export_onnx(in_colour, tmp_path / "colour.onnx")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("hog", {"cells": 1}, "cells of hog is 1. Expected a whole number from 2 to 32"),
        ("hog", {"cell_size": True}, "cell_size of hog is True"),
        ("compact_cnn", {"grid": 17}, "grid of compact_cnn is 17"),
        ("pixels", {"size": 9.0}, "size of pixels is 9.0"),
        ("hog_cnn", {"cells": 1}, "cells of hog is 1"),
        ("hog_cnn", {"size": "smal"}, "Did you mean 'small'"),
    ],
)
def test_a_wrong_option_is_named(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(MIVError, match=message):
        create_backbone(name, **options)


# Vectors as they are, or with every channel brought to one scale.


def test_standardised_channels_have_mean_0_and_deviation_1() -> None:
    values = np.array([[1, 10, 5], [3, 30, 5]], np.float32)
    backbone = create_backbone("features", channels=3, standardise=True)
    assert isinstance(backbone, Features)
    backbone.fit(values)
    assert backbone(torch.from_numpy(values)).tolist() == [[-1, -1, 0], [1, 1, 0]]  # a constant channel tells nothing


def test_verify_standardises_too() -> None:
    verifier = Verifier("nearest", channels=2, backbone_options={"standardise": True}).eval()
    assert isinstance(verifier.backbone, Features)
    vectors = np.array([[1, 900], [1, 100], [3, 1000], [0, 400]], np.float32)
    verifier.backbone.fit(vectors)
    query, *targets = torch.from_numpy(vectors)
    expected = verifier(query[None], Bags.from_list([torch.stack(targets)])).probability.item()
    assert verifier.verify(vectors[0], vectors[1:]).probability == pytest.approx(expected, abs=1e-6)
    assert expected != pytest.approx(Verifier("nearest", channels=2).verify(vectors[0], vectors[1:]).probability)
