"""Whole trainings from a start that is fitted: they cannot end below it, and go on bit for bit after a kill."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from miv import Verifier
from miv.data import ExemplarSet
from miv.errors import MIVError
from miv.evaluation.predicting import predict
from miv.training.checkpoint import START, StageState
from miv.training.run import Machine, train
from miv.training.start import fit_start
from tests.training.test_pilot import SIMILAR
from tests.training.tiny import FEATURES, KILLED, assert_same_run, run_tiny, start_tiny, tiny_sets

WILD = {**SIMILAR, "learning_rates": ((0, 3e-2),), "max_epochs": 4, "patience": 4, "pull": 0.0}


def shuffled(exemplars: ExemplarSet) -> ExemplarSet:
    """Labels of chance, so that whatever is learned is wrong."""
    label = np.random.default_rng(0).permutation(exemplars.label)
    return ExemplarSet(exemplars.pool, exemplars.query, exemplars.bag_ptr, exemplars.bag_index, label)


@pytest.mark.parametrize("pooling", ["cap_dba_l2", "baseline", "gabmil"])
def test_a_training_on_chance_cannot_end_below_its_start(tmp_path: Path, pooling: str) -> None:
    sets = tiny_sets("features")
    sets["train"] = shuffled(sets["train"])
    config = FEATURES.changed({**WILD, "pooling": pooling})
    train(sets, config, tmp_path / "run", Machine(tmp_path / "cache", quiet=True))
    state = torch.load(tmp_path / "run/checkpoints/frozen/last.ckpt", weights_only=True)["stage"]
    evaluation = json.loads((tmp_path / "run/evaluation.json").read_text())
    start = state["start"]["validation_auroc"]
    reached = [row["validation_auroc"] for row in state["history"]]
    # If the start is at chance, nothing is lost by taking an epoch that is better by chance.
    criterion = "validation_auroc" if pooling == "gabmil" else "validation_clear_auroc"
    kept = max([state["start"], *state["history"]], key=lambda row: row[criterion])
    final = evaluation["validation"]["classification"]["auroc"]
    assert final == pytest.approx(kept["validation_auroc"], abs=1e-9)
    assert final >= start - 1e-9
    if pooling == "cap_dba_l2":  # the others may gain by chance
        assert max(reached) < start, "an example that learned something after all"
        assert json.loads((tmp_path / "run/run.json").read_text())["best"] == {"stage": "frozen", "epoch": 0}
        torch.manual_seed(0)
        fresh = Verifier(pooling, channels=8, pooling_options={"heads": 1})
        known = {split: one.pool.values for split, one in sets.items()}
        fit_start(fresh, sets, known, config.seed, only_scale=False, with_head=True)
        final = predict(Verifier.from_pretrained(tmp_path / "run"), sets["test"])
        np.testing.assert_array_equal(final.logit, predict(fresh, sets["test"]).logit)


def epoch_of(auroc: float) -> dict[str, float]:
    return {"learning_rate": 1e-3, "train_loss": 0.5, "validation_auroc": auroc}


def test_the_start_stands_before_the_first_epoch_and_wins_where_none_is_better() -> None:
    state = StageState(criterion="validation_auroc", start={"validation_auroc": 0.7})
    assert (state.best, state.best_value) == (START, 0.7)
    state.history = [epoch_of(0.7), epoch_of(0.6)]
    assert (state.best, state.best_value) == (START, 0.7)  # the earlier one of equals
    assert [state.is_over(10, patience) for patience in (2, 3)] == [True, False]
    state.history.append(epoch_of(0.8))
    assert (state.best, state.best_value) == (2, 0.8)
    state.keeps_last, state.start = True, None
    state.history.append(epoch_of(0.1))
    assert state.best == 3
    again = StageState(criterion="validation_auroc")
    again.restore(state.document())
    assert (again.history, again.start) == (state.history, None)
    old = {name: value for name, value in state.document().items() if name != "start"}
    again.restore(old)  # a checkpoint from before there was one
    assert again.start is None


# With 400 exemplars of validation there is no trial; with images, of which there are 44, there is one.
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "align": ("features", {**SIMILAR, "align_epochs": 2}),
    "pilot": ("image", {**SIMILAR, "align_epochs": 2, "full_stage": False, "frozen_patience": 3}),
    "contrast": ("image", {**SIMILAR, "contrast_epochs": 1, "max_epochs": 1, "frozen_patience": 1}),
}


@pytest.fixture(scope="module", params=RUNS)
def unbroken(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    kind, settings = RUNS[request.param]
    run = tmp_path_factory.mktemp("unbroken") / "run"
    run_tiny(kind, run, **settings)
    assert (run / "checkpoints" / "pilot").is_dir() is (request.param == "pilot")
    return request.param, run


# Each run is killed around these of its checkpoints; the last number is that of its last one. One kill in the middle of
# each run is a part of every test run, the others are slow.
CHECKPOINTS = {"align": (1, 2, 3, 5), "pilot": (1, 2, 3, 5), "contrast": (1, 2, 3)}
USUAL = [("align", "after checkpoint 2"), ("pilot", "before checkpoint 3"), ("contrast", "final verifier")]
MOMENTS = [
    (name, f"{when} checkpoint {number}")
    for name, numbers in CHECKPOINTS.items()
    for when in ("before", "after")
    for number in numbers
] + [(name, "final verifier") for name in CHECKPOINTS]
SLOW = [pytest.param(*moment, marks=pytest.mark.slow) for moment in MOMENTS if moment not in USUAL]


@pytest.mark.parametrize(("unbroken", "moment"), [*USUAL, *SLOW], indirect=["unbroken"])
def test_a_killed_run_goes_on_as_if_it_had_not_been(unbroken: tuple[str, Path], tmp_path: Path, moment: str) -> None:
    name, reference = unbroken
    kind, settings = RUNS[name]
    run = tmp_path / "run"
    process = start_tiny(kind, run, moment, **settings)
    process.join()
    assert process.exitcode == KILLED
    run_tiny(kind, run, **settings)
    assert_same_run(reference, run)
    assert (
        json.loads((run / "run.json").read_text())["best"] == json.loads((reference / "run.json").read_text())["best"]
    )
    assert list(run.rglob(".*")) == [run / ".lock"]  # nothing that the killed process had begun to write


@pytest.mark.parametrize("split", ["train", "validation"])
def test_labels_that_are_all_the_same_are_refused_before_any_work(tmp_path: Path, split: str) -> None:
    sets = tiny_sets("features")
    sets[split] = sets[split].subset(sets[split].label == 1)
    assert len(sets[split]) == 200
    with pytest.raises(MIVError, match=f"All 200 exemplars of {split} have the label 1"):
        train(sets, FEATURES.changed(SIMILAR), tmp_path / "run", Machine(tmp_path / "cache", quiet=True))
    assert not (tmp_path / "run").exists()
