"""Where validation is tiny, a trial on halves of train decides for how many epochs each stage trains."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from miv.data import ExemplarSet, InstancePool
from miv.training.run import Machine, train
from miv.training.stage_module import ENOUGH, halves
from tests.training.tiny import FEATURES, IMAGES, rows, tiny_sets

SIMILAR: dict[str, Any] = {
    "start": "similar",
    "heads": 1,
    "optimiser": "adamw",
    "select_by": "auroc",
    "pull": 1.0,
    "learning_rates": ((0, 1e-3),),
    "max_epochs": 3,
    "patience": 3,
}


def small_validation(exemplars: int, kind: str = "features") -> dict[str, ExemplarSet]:
    sets = tiny_sets(kind, 400 if kind == "features" else 60)
    return {**sets, "validation": tiny_sets(kind, exemplars)["validation"]}


@pytest.mark.parametrize("seed", [0, 1])
def test_halves_share_no_query_and_lose_no_exemplar(seed: int) -> None:
    sets = small_validation(50)
    features = {split: sets[split].pool.values for split in ("train", "validation")}
    divided, known = halves(sets, features, seed)
    first, held_out = divided["train"], divided["validation"]
    from_train = held_out.query < len(sets["train"].pool)
    assert len(first) + int(from_train.sum()) == len(sets["train"])
    assert not set(first.query) & set(held_out.query[from_train])
    assert 0.25 < len(first) / len(sets["train"]) < 0.75
    assert int((~from_train).sum()) == len(sets["validation"])
    assert known["validation"].shape == held_out.pool.values.shape
    other = halves(sets, features, seed + 1)[0]["train"]
    assert len(first) != len(other) or not np.array_equal(first.query, other.query)


def test_halves_share_no_class_where_classes_are_known() -> None:
    sets = small_validation(50)
    train = sets["train"]
    classes = np.array([f"class {number % 7}" for number in range(len(train.pool))])
    pool = InstancePool("features", train.pool.values, classes)
    sets["train"] = ExemplarSet(pool, train.query, train.bag_ptr, train.bag_index, train.label)
    divided, _ = halves(sets, {split: sets[split].pool.values for split in ("train", "validation")}, seed=0)
    first, held_out = divided["train"], divided["validation"]
    others = held_out.query[held_out.query < len(pool)]
    assert len(first) + len(others) == len(train)
    assert not set(classes[first.query]) & set(classes[others])


@pytest.mark.parametrize(("exemplars", "is_tried"), [(50, True), (ENOUGH + 50, False)])
def test_a_trial_is_made_where_validation_is_tiny_only(tmp_path: Path, exemplars: int, is_tried: bool) -> None:
    run = tmp_path / "run"
    train(small_validation(exemplars), FEATURES.changed(SIMILAR), run, Machine(tmp_path / "cache", quiet=True))
    assert (run / "checkpoints" / "pilot").is_dir() is is_tried


def test_the_paper_and_stages_that_train_the_backbone_make_no_trial(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "cache", quiet=True)
    few = {"max_epochs": 1}
    train(small_validation(50), FEATURES.changed(few), tmp_path / "paper", machine)
    train(small_validation(20, "image"), IMAGES.changed({**SIMILAR, **few}), tmp_path / "all", machine)
    assert not list(tmp_path.rglob("pilot"))


def test_the_trial_decides_how_many_epochs_are_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    sets = small_validation(20)
    settings = {**SIMILAR, "align_epochs": 2, "learning_rates": ((0, 1e-9),), "align_learning_rate": 1e-9}
    train(sets, FEATURES.changed(settings), run, Machine(tmp_path / "cache"))
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "Validation has only 20 exemplars. Choosing the number of epochs in a trial on halves of train."
    assert told[-1].startswith("Epochs chosen by the trial: 0 of align, 0 of frozen.")
    assert told[-1].endswith("None was better than the start, so the start fitted on all of train is kept.")
    # Nothing changes, so no epoch is better than the start: none is taken.
    assert json.loads((run / "run.json").read_text())["best"] == {"stage": "frozen", "epoch": 0}
    assert {row["epoch"] for row in rows(run)} == {"0"}
    tried = [row["stage"] for row in rows(run / "checkpoints" / "pilot")]
    assert tried == ["align"] * 2 + ["frozen"] * 3
