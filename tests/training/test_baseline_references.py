"""Plain methods with several references: the mean direction, and the mean of the words."""

import numpy as np
import pytest

from miv import ExemplarSet, InstancePool
from miv.data.batches import embedded, make_batch
from miv.evaluation.cosines import cosines
from miv.training.baselines import bm25
from miv.training.stage_module import halves
from miv.training.stages import contrast_losses


def test_cosines_are_with_the_mean_direction() -> None:
    values = np.array([[2, 0], [0, 5], [1, 1], [0, 3]], np.float32)
    pool = InstancePool("features", values)
    exemplars = ExemplarSet.from_lists(pool, None, [[2, 3], [3]], [1, 0], references=[[0, 1], [1]])
    assert cosines(exemplars, values).each == pytest.approx([1, np.sqrt(0.5), 1])
    single = exemplars.with_first_reference()
    assert cosines(single, values).each == pytest.approx([np.sqrt(0.5), 0, 1])


def test_bm25_averages_the_references() -> None:
    pool = InstancePool("text", np.array(["sky blue", "sky", "blue sky", "green grass"], dtype=object))
    asked = [[0], [1], [0, 1]]
    scores = [bm25(ExemplarSet.from_lists(pool, None, [[2, 3]], [1], references=[references])) for references in asked]
    assert scores[2] == pytest.approx((scores[0] + scores[1]) / 2)


def test_contrast_asks_with_the_mean_direction() -> None:
    values = np.array([[2, 0], [0, 5], [1, 1], [0, 3], [1, 0]], np.float32)
    exemplars = ExemplarSet.from_lists(
        InstancePool("features", values), None, [[2], [3], [4]], [1, 1, 1], references=[[0, 1], [1], [0]]
    )
    mean = np.concatenate([values, [[1, 1]]]).astype(np.float32)
    by_hand = ExemplarSet.from_lists(InstancePool("features", mean), [5, 1, 0], [[2], [3], [4]], [1, 1, 1])
    both = [contrast_losses(make_batch(one, np.arange(3), embedded(known)), 0.1) for one, known in
            ((exemplars, values), (by_hand, mean))]  # fmt: skip
    assert both[0].tolist() == pytest.approx(both[1].tolist(), abs=1e-5)


def test_halves_keep_references() -> None:
    values = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
    pool = InstancePool("features", values)
    sets = {
        split: ExemplarSet.from_lists(
            pool, None, [[8, 9]] * 4, [1, 0, 1, 0], references=[[0, 1], [2, 3], [4, 5], [6, 7, 8]]
        )
        for split in ("train", "validation")
    }
    divided, known = halves(sets, {"train": values, "validation": values + 1}, seed=0)
    held_out = divided["validation"]
    assert held_out.references(len(held_out) - 1).tolist() == [18, 19, 20]  # after the twelve of train
    assert known["validation"][18].tolist() == (values[6] + 1).tolist()
