"""The plain methods beside naive computations, exemplar by exemplar."""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score

from miv import ExemplarSet, InstancePool, MIVError
from miv.backbones import Backbone, create_backbone
from miv.backbones.cache import embed_instances
from miv.backbones.descriptors import Features
from miv.errors import collect_warnings
from miv.evaluation.baselines import Baselines, Figures, cosines
from miv.evaluation.plain_methods import METHODS, bm25, score_baselines
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


def naive_bm25(exemplars: ExemplarSet, bags: ExemplarSet) -> list[float]:
    """With the statistics of the targets of ``bags``."""

    def words(of: ExemplarSet, text: int) -> list[str]:
        return re.findall(r"\w+", str(of.pool.values[text]).lower())

    known = [words(bags, target) for target in sorted(set(bags.bag_index.tolist()))]
    mean_length = sum(len(text) for text in known) / len(known)
    scores = []
    for number in range(len(exemplars)):
        for target in exemplars.bag(number):
            text, score = words(exemplars, target), 0.0
            for word in set(words(exemplars, exemplars.query[number])):
                having = sum(word in other for other in known)
                rarity = math.log(1 + (len(known) - having + 0.5) / (having + 0.5))
                held_back = 1.5 * (1 - 0.75 + 0.75 * len(text) / mean_length)
                score += rarity * text.count(word) * 2.5 / (text.count(word) + held_back)
            scores.append(score)
    return scores


def test_bm25_is_the_formula_word_by_word() -> None:
    exemplars = texts()
    assert bm25(exemplars) == pytest.approx(naive_bm25(exemplars, exemplars))
    assert score_baselines({"test": exemplars}).splits["test"] == {"bm25": Figures(1.0, 1.0, 1.0)}


def test_bm25_counts_rare_words_in_train_and_a_repeated_query_word_once() -> None:
    pool = InstancePool("text", np.array(["Red, red fox?", "Red fox.", "Grey fox, grey cat.", "A fox."], dtype=object))
    test = ExemplarSet.from_lists(pool, [0], [[1, 2, 3]], [1])
    expected = naive_bm25(test, texts())
    assert bm25(test, texts()) == pytest.approx(expected)
    assert expected[1] == pytest.approx(expected[2], rel=0.5)  # by the fox alone
    once = InstancePool("text", np.array(["Red fox?", *pool.values[1:]], dtype=object))
    assert bm25(ExemplarSet.from_lists(once, [0], [[1, 2, 3]], [1]), texts()) == pytest.approx(expected)
    assert bm25(test) != pytest.approx(expected)


def test_the_figures_are_those_of_scikit_learn() -> None:
    sets = tiny_sets("features", 60)
    rows = score_baselines(sets, Features(sets["test"].pool.values.shape[1])).splits["test"]
    assert list(rows) == ["nearest", "mean", "centred", "logistic", "query_only", "bag_only"]
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
    with_backbone = score_baselines(sets, create_backbone("hog", cells=4), cache=tmp_path)
    assert list(with_backbone.splits["test"]) == [name for name in METHODS if name not in ("blend", "bm25", "colour")]
    in_colour = {
        split: replace(one, pool=replace(one.pool, values=np.repeat(one.pool.values[..., None], 3, axis=3)))
        for split, one in sets.items()
    }
    assert list(score_baselines(in_colour, cache=tmp_path).splits["test"]) == ["hog", "colour", "pixels"]
    assert with_backbone.splits["test"]["nearest"] != with_backbone.splits["test"]["hog"]  # 4 cells, not 5
    ready = score_baselines(sets, create_backbone("hog"), cache=tmp_path, splits=("test",))
    assert list(ready.splits) == ["test"]
    assert ready.splits["test"]["nearest"] == plain.splits["test"]["hog"]


class Lengths(Backbone):
    """Of a text, only its number of characters."""

    kind, channels, instance_shape = "text", 2, (2,)

    def prepare(self, values: NDArray[Any]) -> torch.Tensor:
        return torch.tensor([[len(text), 1.0] for text in values])

    def forward(self, instances: torch.Tensor) -> torch.Tensor:
        return instances


def test_blend_reads_words_that_the_features_do_not(tmp_path: Path) -> None:
    """Every second bag has the number of its query."""
    sets = {}
    for seed, split in enumerate(("train", "validation")):
        random = np.random.default_rng(seed)
        numbers = random.permutation(9000)[:160] + 1000
        values = [f"Is it {number}?" for number in numbers[:80]] + [f"It was {number}, no doubt." for number in numbers]
        bags = [[80 + n if n % 2 else 160 + n, 80 + (n + 7) % 80] for n in range(80)]  # own or unasked, and another
        pool = InstancePool("text", np.array(values, dtype=object))
        witness = [[bool(n % 2), False] for n in range(80)]
        sets[split] = ExemplarSet.from_lists(pool, list(range(80)), bags, [n % 2 for n in range(80)], witness)
    plain = score_baselines(sets, Lengths(), cache=tmp_path)
    rows = plain.splits["validation"]
    assert list(rows) == ["nearest", "mean", "centred", "logistic", "blend", "bm25", "query_only", "bag_only"]
    assert rows["blend"].auroc == pytest.approx(1.0, abs=0.01)
    assert rows["blend"].i_auroc == 1.0
    without_train = score_baselines({"validation": sets["validation"]}, Lengths(), cache=tmp_path)
    assert list(without_train.splits["validation"]) == ["nearest", "mean", "bm25"]


def test_what_does_not_exist_is_none() -> None:
    sets = tiny_sets("features", 40)
    one_label = sets["test"].subset(np.flatnonzero(sets["test"].label == 0))
    rows = score_baselines({**sets, "test": one_label}).splits["test"]
    assert set(rows.values()) == {Figures(None, None, None)}
    found = score_baselines({**sets, "train": one_label})
    assert found.splits["test"]["logistic"].auroc is None
    assert found.splits["test"]["nearest"].auroc is not None
    assert list(score_baselines({"test": sets["test"]}).splits["test"]) == ["nearest", "mean"]  # nothing to fit on


def test_the_best_is_the_best_on_validation_and_the_file_says_the_same(tmp_path: Path) -> None:
    rows = {"nearest": Figures(0.7, 0.9, None), "mean": Figures(0.8, None, None), "logistic": Figures(None, None, None)}
    plain = Baselines({"validation": rows, "test": {"nearest": Figures(0.9, None, None)}}, "features", True)
    assert plain.best == "mean"
    assert Baselines({"test": rows}).best is None
    plain.save(tmp_path / "reference.json")
    assert Baselines.load(tmp_path / "reference.json") == plain


def test_what_cannot_be_scored_is_refused() -> None:
    sets = tiny_sets("features", 12)
    for given_sets, splits, message in (
        (sets, ("train",), "no split 'train'"),
        (sets, ("tset",), "Did you mean 'test'"),
        ({"train": sets["train"]}, None, "only split is train"),
        ({"test": sets["test"], "validation": texts()}, None, "instances of one kind"),
    ):
        with pytest.raises(MIVError, match=message):
            score_baselines(given_sets, splits=splits)


@pytest.mark.parametrize("leaks", [False, True])
def test_a_label_that_the_query_tells_is_warned_of(leaks: bool) -> None:
    random = np.random.default_rng(0)

    def drawn(count: int) -> ExemplarSet:
        labels = np.arange(count) % 2
        queries = random.normal(size=(count, 8)) + leaks * labels[:, None]
        values = np.concatenate([queries, random.normal(size=(3 * count, 8))]).astype(np.float32)
        bags = [list(range(count + 3 * e, count + 3 * e + 3)) for e in range(count)]
        return ExemplarSet.from_lists(InstancePool("features", values), list(range(count)), bags, labels.tolist())

    with collect_warnings() as warned:
        plain = score_baselines({"train": drawn(300), "validation": drawn(200)})
    rows = plain.splits["validation"]
    assert rows["query_only"].auroc == pytest.approx(0.95 if leaks else 0.5, abs=0.1)
    assert any("query_only" in text for text in warned) == leaks
    assert rows["bag_only"].auroc == pytest.approx(0.5, abs=0.12)
    assert plain.best not in ("query_only", "bag_only")
