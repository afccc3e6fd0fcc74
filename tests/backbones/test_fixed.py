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


def in_colour(shape: tuple[int, ...]) -> NDArray[np.uint8]:
    return np.stack([photographs(shape, seed) for seed in range(3)], axis=3)


def naive_colour(image: NDArray[Any], hues: int, cells: int) -> list[float]:
    """One pixel after the other; ``image`` ``(H, W, 3)`` has no side above 32."""
    height, width, _ = image.shape
    histograms = []
    for row, column in [(None, None), *np.ndindex(cells, cells)]:
        counts, total = np.zeros(1 + 3 * (1 + 3 * hues)), 0.0
        for y in range(height):
            for x in range(width):
                near = 1.0
                for place, side, cell in ((y, height, row), (x, width, column)):
                    if cell is not None:
                        size = side / cells
                        near *= max(0.0, 1 - abs(place + 0.5 - (cell + 0.5) * size) / max(1.0, size))
                total += near
                red, green, blue = (float(channel) for channel in image[y, x])
                value = max(red, green, blue)
                saturation = (value - min(red, green, blue)) / value if value else 0.0
                hue = math.atan2(math.sqrt(3) * (green - blue), 2 * red - green - blue) / (2 * math.pi) * hues
                for level in range(4):
                    bright = near * max(0.0, 1 - abs(3 * value - level))
                    if level == 0:
                        counts[0] += bright
                        continue
                    first = 1 + (level - 1) * (1 + 3 * hues)
                    counts[first] += bright * max(0.0, 1 - 3 * saturation)
                    for step in (1, 2, 3):
                        strong = bright * max(0.0, 1 - abs(3 * saturation - step))
                        for number in range(hues):
                            apart = abs(hue - number) % hues
                            share = max(0.0, 1 - min(apart, hues - apart))
                            counts[first + 1 + (step - 1) * hues + number] += strong * share
        histograms.append(counts / total)
    return [math.sqrt(count / len(histograms)) for counts in histograms for count in counts]


@pytest.mark.parametrize(("hues", "cells", "size"), [(12, 2, (6, 5)), (3, 1, (4, 9)), (5, 3, (2, 7)), (6, 2, (1, 1))])
def test_colour_is_what_a_loop_over_pixels_gives(hues: int, cells: int, size: tuple[int, int]) -> None:
    backbone = create_backbone("colour", hues=hues, cells=cells)
    images = in_colour((3, *size))
    features = backbone(backbone.prepare(images))
    assert features.shape == (3, backbone.channels)
    for image, each in zip(images / 255, features, strict=True):
        assert each.square().numpy() == pytest.approx(np.square(naive_colour(image, hues, cells)), abs=1e-6)


def test_red_black_and_white_have_a_bin_each() -> None:
    image = np.zeros((1, 2, 2, 3), np.uint8)
    image[0, 0, 0] = 255, 0, 0
    image[0, 0, 1] = 255
    backbone = create_backbone("colour", hues=3, cells=1)
    counts = backbone(backbone.prepare(image)).reshape(2, 31)[0].square() * 2  # of the whole image
    expected = np.zeros(31)
    expected[[0, 21, 28]] = 0.5, 0.25, 0.25  # black; white; of the same value, saturated and red
    assert counts.numpy() == pytest.approx(expected, abs=1e-6)


def test_the_cosine_of_hog_colour_is_the_mean_of_two() -> None:
    images = in_colour((2, 40, 33))
    vectors = {}
    for name in ("hog", "colour", "hog_colour"):
        backbone = create_backbone(name)
        vectors[name] = functional.normalize(backbone(backbone.prepare(images)), dim=1)
    hog, colour, both = (float(first @ second) for first, second in vectors.values())
    assert both == pytest.approx((hog + colour) / 2, abs=1e-6)


@pytest.mark.parametrize("name", ["hog", "pixels", "colour", "hog_colour"])
@pytest.mark.parametrize("size", SIZES)
def test_images_of_any_size_have_features_of_one_length(name: str, size: tuple[int, int]) -> None:
    backbone = create_backbone(name)
    images = photographs((4, *size))
    features = backbone(backbone.prepare(images))
    assert features.shape == (4, backbone.channels)
    assert bool(features.isfinite().all())
    for form in (images, in_colour((4, *size))):
        features = backbone(backbone.prepare(form))
        alone = torch.cat([backbone(backbone.prepare(image[None])) for image in form])
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


@pytest.mark.parametrize("name", ["colour", "hog_colour"])
def test_a_verifier_of_colours_is_saved_and_loaded_but_not_exported(name: str, tmp_path: Path) -> None:
    form = {"kind": "image", "height": 9, "width": 11, "mode": "RGB"}
    verifier = Verifier("nearest", name, instances=form).eval()
    verifier.save_pretrained(tmp_path / "saved")
    images = in_colour((3, 9, 11))
    loaded = Verifier.from_pretrained(tmp_path / "saved")
    assert loaded.verify(images[0], images[1:]).logit == verifier.verify(images[0], images[1:]).logit
    pytest.importorskip("onnxruntime", reason="needs onnxruntime (pip install 'miv[onnx]')")
    with pytest.raises(MIVError, match=f"'{name}' cannot be exported"):
        export_onnx(verifier, tmp_path / "verifier.onnx")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("hog", {"cells": 1}, "cells of hog is 1. Expected a whole number from 2 to 32"),
        ("hog", {"cell_size": True}, "cell_size of hog is True"),
        ("compact_cnn", {"grid": 17}, "grid of compact_cnn is 17"),
        ("colour", {"hues": 2}, "hues of colour is 2. Expected a whole number from 3 to 36"),
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


def test_trigrams_count_the_runs_of_three_characters() -> None:
    backbone = create_backbone("trigrams", buckets=4096)
    texts = np.array(["Ab, ab", "AB AB!", "ab", "", "\ud800…"], object)
    features = backbone(backbone.prepare(texts))
    # The runs of " ab ab " are " ab" and "ab " twice and "b a" once.
    assert sorted(features[0][features[0] > 0].exp().sub(1).tolist()) == pytest.approx([1, 2, 2])
    assert features[1].equal(features[0])
    assert int((features[2] > 0).sum()) == 2
    assert not features[3:].any()
    assert backbone.fingerprint() != create_backbone("trigrams").fingerprint()


def test_trigrams_match_a_name_that_differs_by_an_ending() -> None:
    backbone = create_backbone("trigrams")
    asked, near, far = functional.normalize(backbone(backbone.prepare(np.array(["Kowalski", "Kowalska", "Dupont"]))))
    assert float(asked @ near) > 0.6
    assert float(asked @ far) < 0.1


def test_a_verifier_of_trigrams_is_saved_and_loaded(tmp_path: Path) -> None:
    verifier = Verifier("nearest", "trigrams").eval()
    verifier.save_pretrained(tmp_path / "saved")
    loaded = Verifier.from_pretrained(tmp_path / "saved")
    asked, bag = "PZ-5567 is out of order", ["Order 12 is late", "see PZ-5567"]
    verdict = loaded.verify(asked, bag)
    assert verdict.logit == verifier.verify(asked, bag).logit
    assert verdict.attention is not None
    assert int(np.argmax(verdict.attention)) == 1
