"""Runs beside each other: intervals and paired tests beside a computation by hand, and tables that fit a terminal."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from miv.evaluation import Predictions, evaluate
from miv.evaluation.run_comparison import compare_runs, comparison_text
from miv.evaluation.runs import RunFolder
from tests.cli.running import run_command

LABEL = np.arange(80) % 2


def write_run(path: Path, wrong: int, test: str = "one test", **config: object) -> Predictions:
    """A run whose first ``wrong`` positives are answered with no."""
    logit = np.where(LABEL == 1, 1.0, -1.0) + 0.01 * np.arange(80)
    logit[1 : 2 * wrong : 2] = -2.0
    answers = Predictions(logit, LABEL, np.arange(81))
    run = RunFolder(path)
    run.predictions("test").parent.mkdir(parents=True)
    answers.save(run.predictions("test"))
    about = {"format": "miv-run", "version": 1, "done": True, "seed": 0, "seconds": 1.0, "versions": {}}
    about |= {"best": {"stage": "all", "epoch": 1}, "data": {"name": "data", "fingerprints": {"test": test}}}
    run.about.write_text(json.dumps(about))
    run.config.write_text(json.dumps({"pooling": "baseline", "backbone": "features", **config}))
    (path / "evaluation.json").write_text(json.dumps({"test": evaluate(answers).document()}))
    return answers


def test_differences_are_paired_over_exemplars(tmp_path: Path) -> None:
    for name, wrong in (("a", 10), ("b", 2)):
        write_run(tmp_path / name, wrong)
    first, second = compare_runs([tmp_path / "a", tmp_path / "b"], "test")
    assert first["against_first"] == {}
    assert (first["accuracy"], second["accuracy"]) == (70 / 80, 78 / 80)
    gained = np.repeat([1.0, 0.0], [8, 72])  # of each exemplar
    error = gained.std(ddof=1) / math.sqrt(80)
    found = second["against_first"]["accuracy"]
    assert found["difference"] == pytest.approx(0.1)
    assert found["high"] - found["difference"] == pytest.approx(1.96 * error, rel=0.01)
    assert found["p_holm"] == pytest.approx(2 * norm.sf(0.1 / error), rel=0.05)
    low, high = first["intervals"]["auroc"]
    assert low < first["auroc"] < high


def test_runs_on_other_exemplars_have_no_paired_tests(tmp_path: Path) -> None:
    for name in "ab":
        write_run(tmp_path / name, 3, test=name)
    rows = compare_runs([tmp_path / "a", tmp_path / "b"], "test")
    assert rows[1]["against_first"] == {}
    assert "No paired tests" in comparison_text(rows)


def test_the_tables_fit_100_columns(tmp_path: Path) -> None:
    names = [f"run {number}" for number in range(7)]
    for number, name in enumerate(names):
        write_run(tmp_path / name, number, pooling=f"pooling {number}" * 9, learning_rates=[[0, 0.1 * number]] * 9)
    text = run_command("runs", "compare", *(str(tmp_path / name) for name in names))
    tables = text[text.index("\n\n") :]  # after the paths
    assert max(map(len, tables.splitlines())) <= 100
    assert text.splitlines()[6].startswith("G  ")
    assert "learning_rates" in text
    assert "B − A" in text
    assert "*" in text
