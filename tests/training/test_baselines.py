"""The plain methods beside naive computations, exemplar by exemplar."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from miv import ExemplarSet, InstancePool, MIVError
from miv.backbones import create_backbone
from miv.backbones.cache import embed_instances
from miv.backbones.descriptors import Features
from miv.evaluation.baselines import Baselines, Figures, cosines
from miv.training.baselines import METHODS, bm25, score_baselines
from tests.evaluation.test_cosines import naive_cosine
from tests.training.tiny import tiny_sets

TEXTS = [
    "Is the sky blue?",
    "The sky is blue.",
    "Grass is green, grass is wet.",
    "Who eats grass?",
    "...",
    "Cows, cows!",
]


def texts() -> ExemplarSet:
    pool = InstancePool("text", np.array(TEXTS, dtype=object))
    bags, witnesses = [[1, 2], [2, 4, 5], [2, 1], [5, 4]], [[True, False], [False] * 3, [True, False], [False, False]]
    return ExemplarSet.from_lists(pool, [0, 0, 3, 3], bags, [1, 0, 1, 0], witnesses)


def test_bm25_is_the_formula_word_by_word() -> None:
    exemplars = texts()
    words = [re.findall(r"\w+", text.lower()) for text in TEXTS]
    targets = sorted({int(target) for target in exemplars.bag_index})
    mean_length = sum(len(words[target]) for target in targets) / len(targets)
    expected = []
    for number in range(len(exemplars)):
        for target in exemplars.bag(number):
            score = 0.0
            for word in words[exemplars.query[number]]:
                having = sum(word in words[other] for other in targets)
                count = words[target].count(word)
                rarity = math.log(1 + (len(targets) - having + 0.5) / (having + 0.5))
                held_back = 1.5 * (1 - 0.75 + 0.75 * len(words[target]) / mean_length)
                score += rarity * count * 2.5 / (count + held_back) if count else 0.0
            expected.append(score)
    assert bm25(exemplars) == pytest.approx(expected)
    assert score_baselines({"test": exemplars}).splits["test"] == {"bm25": Figures(1.0, 1.0, 1.0)}


def test_the_figures_are_those_of_scikit_learn() -> None:
    sets = tiny_sets("features", 60)
    rows = score_baselines(sets, Features(sets["test"].pool.values.shape[1])).splits["test"]
    assert list(rows) == ["nearest", "mean", "centred", "logistic"]
    test, values = sets["test"], sets["test"].pool.values
    each = [[naive_cosine(values[test.query[e]], values[t]) for t in test.bag(e)] for e in range(60)]
    assert rows["nearest"].auroc == pytest.approx(roc_auc_score(test.label, [max(one) for one in each]))
    assert rows["mean"].auroc == pytest.approx(roc_auc_score(test.label, [np.mean(one) for one in each]))
    positive = [e for e in range(60) if test.label[e]]
    i_auroc = np.mean([roc_auc_score(test.bag_witness(e), each[e]) for e in positive])
    i_ap = np.mean([average_precision_score(test.bag_witness(e), each[e]) for e in positive])
    for method in ("nearest", "mean", "logistic"):  # instances by their own cosine
        assert rows[method].i_auroc == pytest.approx(i_auroc)
        assert rows[method].i_ap == pytest.approx(i_ap)


def test_images_have_hog_and_pixels_and_with_a_backbone_the_rest(tmp_path: Path) -> None:
    sets = tiny_sets("image")
    plain = score_baselines(sets, cache=tmp_path)
    assert plain.backbone is None
    assert [list(rows) for rows in plain.splits.values()] == [["hog", "pixels"]] * 2
    for name in ("hog", "pixels"):
        features = embed_instances(create_backbone(name), sets["test"].pool, np.arange(40))
        nearest = cosines(sets["test"], features).nearest
        assert plain.splits["test"][name].auroc == pytest.approx(roc_auc_score(sets["test"].label, nearest))
    with_backbone = score_baselines(sets, "hog", backbone_options={"cells": 4}, cache=tmp_path)
    assert list(with_backbone.splits["test"]) == [name for name in METHODS if name not in ("bm25", "colour")]
    in_colour = {
        split: replace(one, pool=replace(one.pool, values=np.repeat(one.pool.values[..., None], 3, axis=3)))
        for split, one in sets.items()
    }
    assert list(score_baselines(in_colour, cache=tmp_path).splits["test"]) == ["hog", "colour", "pixels"]
    assert with_backbone.splits["test"]["nearest"] != with_backbone.splits["test"]["hog"]  # 4 cells, not 5
    ready = score_baselines(sets, create_backbone("hog"), cache=tmp_path, splits=("test",))
    assert list(ready.splits) == ["test"]
    assert ready.splits["test"]["nearest"] == plain.splits["test"]["hog"]


def test_what_does_not_exist_is_none() -> None:
    sets = tiny_sets("features", 40)
    one_label = sets["test"].subset(np.flatnonzero(sets["test"].label == 0))
    rows = score_baselines({**sets, "test": one_label}).splits["test"]
    assert set(rows.values()) == {Figures(None, None, None)}
    found = score_baselines({**sets, "train": one_label})
    assert found.splits["test"]["logistic"].auroc is None
    assert found.splits["test"]["nearest"].auroc is not None
    assert found.strength is None
    assert list(score_baselines({"test": sets["test"]}).splits["test"]) == ["nearest", "mean"]  # nothing to fit on


def test_the_best_is_the_best_on_validation_and_the_file_says_the_same(tmp_path: Path) -> None:
    rows = {"nearest": Figures(0.7, 0.9, None), "mean": Figures(0.8, None, None), "logistic": Figures(None, None, None)}
    plain = Baselines({"validation": rows, "test": {"nearest": Figures(0.9, None, None)}}, "features", 0.1, True)
    assert plain.best == "mean"
    assert Baselines({"test": rows}).best is None
    plain.save(tmp_path / "reference.json")
    assert Baselines.load(tmp_path / "reference.json") == plain


def test_what_cannot_be_scored_is_refused() -> None:
    sets = tiny_sets("features", 12)
    for given_sets, splits, message in (
        (sets, ("train",), "which the logistic regression is fitted on"),
        (sets, ("tset",), "Did you mean 'test'"),
        ({"train": sets["train"]}, None, "only split is train"),
        ({"test": sets["test"], "validation": texts()}, None, "instances of one kind"),
    ):
        with pytest.raises(MIVError, match=message):
            score_baselines(given_sets, splits=splits)
