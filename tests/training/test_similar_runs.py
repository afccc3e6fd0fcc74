"""Epochs from the selected recipe: they cannot end below it, and go on bit for bit after a kill."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from miv.data import ExemplarSet
from miv.training.checkpoint import START, StageState
from miv.training.run import Machine, run_training
from tests.training.tiny import FEATURES, KILLED, SIMILAR, assert_same_run, run_tiny, start_tiny, tiny_sets

WILD = {**SIMILAR, "learning_rates": ((0, 3e-2),), "max_epochs": 4, "patience": 4, "pull": 0.0}


def shuffled(exemplars: ExemplarSet) -> ExemplarSet:
    """Labels of chance, so that whatever is learned is wrong."""
    label = np.random.default_rng(0).permutation(exemplars.label)
    return ExemplarSet(exemplars.pool, exemplars.query, exemplars.bag_ptr, exemplars.bag_index, label)


@pytest.mark.parametrize("pooling", ["cap_dba_l2", "gabmil"])
def test_a_training_on_chance_cannot_end_below_its_start(tmp_path: Path, pooling: str) -> None:
    sets = tiny_sets("features")
    sets["train"] = shuffled(sets["train"])
    options = SIMILAR["pooling_options"] if pooling == "cap_dba_l2" else {}
    config = FEATURES.changed({**WILD, "pooling": pooling, "pooling_options": options})
    run_training(sets, config, tmp_path / "run", Machine(tmp_path / "cache", quiet=True))
    state = torch.load(tmp_path / "run/checkpoints/frozen/last.ckpt", weights_only=True)["stage"]
    evaluation = json.loads((tmp_path / "run/evaluation.json").read_text())
    start = state["start"]["validation_auroc"]
    reached = [row["validation_auroc"] for row in state["history"]]
    # If the start is at chance, nothing is lost by taking an epoch that is better by chance.
    kept = max([state["start"], *state["history"]], key=lambda row: row["validation_auroc"])
    final = evaluation["validation"]["classification"]["auroc"]
    assert final == pytest.approx(kept["validation_auroc"], abs=1e-9)
    assert final >= start - 1e-9
    if pooling == "cap_dba_l2":  # the others may gain by chance
        assert max(reached) < start, "an example that learned something after all"
        assert json.loads((tmp_path / "run/run.json").read_text())["best"] == {"stage": "frozen", "epoch": 0}
        selected = config.changed({"recipe": "select"})
        alone = run_training(sets, selected, tmp_path / "alone", Machine(tmp_path / "cache", quiet=True))
        assert final == pytest.approx(alone["validation"].metrics["auroc"], abs=1e-9)


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


RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "features": ("features", {**SIMILAR, "max_epochs": 4}),
    "image": ("image", {**SIMILAR, "full_stage": False, "frozen_patience": 3}),
    "paper": ("features", {"max_epochs": 3, "patience": 3}),
    "contrast": ("image", {**SIMILAR, "contrast_epochs": 1, "max_epochs": 1, "frozen_patience": 1}),
}


@pytest.fixture(scope="module", params=RUNS)
def unbroken(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    kind, settings = RUNS[request.param]
    run = tmp_path_factory.mktemp("unbroken") / "run"
    run_tiny(kind, run, **settings)
    return request.param, run


# One kill in each run is a part of every test run; the others are slow.
USUAL = [("features", "before checkpoint 2"), ("image", "begin"), ("contrast", "final verifier"), ("paper", "finish")]
MOMENTS = ("begin", "before checkpoint 1", "before checkpoint 2", "after checkpoint 2", "final verifier", "finish")
SLOW = [
    pytest.param(name, moment, marks=pytest.mark.slow)
    for name in RUNS
    for moment in MOMENTS
    if (name, moment) not in USUAL
]


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
