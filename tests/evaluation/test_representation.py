"""The representation of images and vectors that is chosen by the train bags."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import hsv_to_rgb
from numpy.typing import NDArray

from miv import ExemplarSet, InstancePool
from miv.evaluation.baselines import candidates_for, choose_backbone
from miv.training.auto import choose

CLASSES, MEMBERS = 20, 10


def bags_of(pool: InstancePool) -> ExemplarSet:
    """300 bags of five; each class has ten instances in a row."""
    random = np.random.default_rng(1)
    classes = np.repeat(np.arange(CLASSES), MEMBERS)
    queries, bags, labels = [], [], []
    for number in range(300):
        query = int(random.integers(len(classes)))
        bag = random.choice(np.flatnonzero(classes != classes[query]), 5)
        if number % 2:
            bag[0] = random.choice(np.flatnonzero((classes == classes[query]) & (np.arange(len(classes)) != query)))
        queries.append(query)
        bags.append(bag)
        labels.append(number % 2)
    return ExemplarSet.from_lists(pool, queries, bags, labels)


def of_vectors(scale: NDArray[np.float64], told_by: int) -> ExemplarSet:
    """Classes differ only in the first ``told_by`` channels; all channels are multiplied by ``scale``."""
    random = np.random.default_rng(0)
    values = random.normal(size=(CLASSES * MEMBERS, len(scale)))
    centres = np.repeat(3 * random.normal(size=(CLASSES, told_by)), MEMBERS, axis=0)
    values[:, :told_by] = centres + 0.3 * values[:, :told_by]
    return bags_of(InstancePool("features", (values * scale).astype(np.float32)))


def of_pictures(classes_by: str) -> ExemplarSet:
    """Shapes on a background of another colour; a class is a shape in any colour, or a colour of any shape."""
    random = np.random.default_rng(0)
    classes = np.repeat(np.arange(CLASSES), MEMBERS)
    shapes = random.random((CLASSES, 4, 4)) < 0.5
    is_shape = classes_by == "shape"
    shape = shapes[classes if is_shape else random.integers(CLASSES, size=len(classes))]  # (P, 4, 4)
    hue = random.random(len(classes)) if is_shape else classes / CLASSES
    foreground = np.stack([hue, random.uniform(0.7, 1, len(hue)), random.uniform(0.6, 1, len(hue))], axis=1)
    background = random.uniform([0, 0.2, 0.2], [1, 0.6, 0.5], (len(hue), 3))
    mask = np.kron(shape, np.ones((6, 6)))[..., None]  # (P, 24, 24, 1)
    images = mask * hsv_to_rgb(foreground)[:, None, None] + (1 - mask) * hsv_to_rgb(background)[:, None, None]
    noise = random.normal(0, 0.05, images.shape)
    return bags_of(InstancePool("image", (255 * (images + noise).clip(0, 1)).astype(np.uint8)))


def test_a_column_in_large_units_that_says_nothing_is_tamed(tmp_path: Path) -> None:
    large = of_vectors(np.array([1.0] * 6 + [1000.0] * 2), told_by=6)
    assert list(candidates_for(large)) == ["standardised", "raw"]  # as in tables
    assert choose_backbone(large, candidates_for(large), tmp_path)[0] == "standardised"


def test_a_column_in_large_units_that_says_everything_stays_large(tmp_path: Path) -> None:
    large = of_vectors(np.array([1000.0] * 4 + [1.0] * 12), told_by=4)
    name, aurocs = choose_backbone(large, candidates_for(large), tmp_path)
    assert name == "raw"
    assert aurocs["raw"] > aurocs["standardised"]


def test_vectors_of_many_channels_stay_raw_unless_that_is_clearly_worse(tmp_path: Path) -> None:
    vectors = of_vectors(np.ones(64), told_by=64)
    assert list(candidates_for(vectors)) == ["raw", "standardised"]
    choice = choose({"train": vectors}, {}, cache=tmp_path)
    assert choice.config.backbone_options == {}
    assert "vectors unchanged (AUROC of the nearest target: raw " in choice.reason


@pytest.mark.parametrize(("classes_by", "expected"), [("colour", "hog_colour"), ("shape", "hog")])
def test_colour_counts_if_classes_differ_in_it(classes_by: str, expected: str, tmp_path: Path) -> None:
    train = of_pictures(classes_by)
    name, aurocs = choose_backbone(train, candidates_for(train), tmp_path)
    assert name == expected
    assert list(aurocs) == ["hog", "hog_colour", "colour"]
    assert aurocs[expected] > 0.75 > 0.6 > aurocs["colour" if expected == "hog" else "hog"]
    choice = choose({"train": train}, {}, cache=tmp_path)
    assert choice.config.backbone == expected
    assert f"images described by {expected} (AUROC of the nearest target: hog ." in choice.reason
    assert choose({"train": train}, {"backbone_options": {"cells": 4}}).config.backbone == "hog"


def test_grey_images_use_hog_without_a_comparison() -> None:
    colour = of_pictures("shape")
    grey = bags_of(InstancePool("image", colour.pool.values[..., 0].copy()))
    assert choose_backbone(grey, candidates_for(grey)) == ("hog", {})
