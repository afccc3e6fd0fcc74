"""`miv reproduce --tier smoke`, as a user runs it: real trainings on the twin, then the report."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from miv.errors import MIVError
from miv.runtime import source_commit
from tests.cli.running import run_command

pytestmark = pytest.mark.slow  # real trainings; test_runner.py runs cells that are smaller

FLAGS = "--tier smoke --rounds 1 --models baseline,cap_dba_l2"
COMMANDS = f"""
miv reproduce --list
miv reproduce qmnist key_instance {FLAGS} --parallel 2
miv reproduce qmnist classification {FLAGS} --report-only --format html --out report.html
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands were run."""
    folder = tmp_path_factory.mktemp("reproducing")
    miv = f'miv() {{ "{sys.executable}" -m miv "$@"; }}\n'
    environment = {**os.environ, "MIV_CACHE_DIR": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    command = ["bash", "-e", "-c", miv + COMMANDS]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (folder / "stdout").write_text(done.stdout)
    (folder / "stderr").write_text(done.stderr)
    return folder


def run(*arguments: str) -> str:
    return run_command("reproduce", *arguments)


def test_two_models_are_trained_on_the_twin_and_every_output_says_so(folder: Path) -> None:
    printed, said = (folder / "stdout").read_text(), (folder / "stderr").read_text()
    assert "QMNIST: train size and mean bag size" in printed  # --list
    assert "synthetic twin" in printed
    assert "within 2 SE" not in printed
    assert "0 of 2 cells are done; computing 2." in said
    assert said.count("Done    qmnist") == 2
    page = (folder / "report.html").read_text()
    assert "synthetic twin" in page
    assert page.count("data:image/svg+xml;base64,") == 1


def test_a_finished_cell_has_all_that_reports_need_and_no_weights_or_predictions(folder: Path) -> None:
    cell = folder / "docs/results/smoke/qmnist/cap_dba_l2/round-0"
    assert [path.name for path in cell.iterdir()] == ["result.json"]
    assert (cell / "result.json").stat().st_size < 10_000
    result, baseline = (
        json.loads((path / "result.json").read_text()) for path in (cell, cell.parents[1] / "baseline/round-0")
    )
    assert (result["twin"], result["description"]["data"]["task"]) == (True, "digits-twin")
    assert len(result["test"]["groups"]) == 10
    assert result["test"]["entropy"]["all"]["log_n"] > 0
    assert result["code"] == source_commit()
    assert set(result["data"]) == {"train", "validation", "test"}
    assert len(result["history"]["validation_auroc"]) == len(result["history"]["epoch"]) > 0
    assert str(folder) not in (cell / "result.json").read_text()
    assert "i_auroc_by_contribution" in result["test"]["figures"]
    assert "i_auroc_by_score" in baseline["test"]["figures"]
    assert "i_auroc_by_contribution" not in baseline["test"]["figures"]  # one instance has all of the logit
    # Whichever was finished second has the errors of their differences.
    assert {*result["paired"], *baseline["paired"]} & {"baseline", "cap_dba_l2"}


def test_the_report_comes_from_the_results_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MIV_CACHE_DIR", str(folder / "another cache"))
    flags = FLAGS.split()
    document = json.loads(run("qmnist", "key_instance", *flags, "--json"))  # all is there, so nothing is computed
    assert [figure["rounds"] for figure in document[0]["figures"]] == [1, 1, 1, 1]
    assert (document[0]["twin"], document[0]["claims"]) == (True, [])
    text = run("qmnist", *flags, "--report-only", "--format", "markdown", "--plots", "plots")
    assert "synthetic twin" in text
    assert "![" in text
    run("qmnist", "key_instance", *flags, "--out", "table.txt")
    assert "synthetic twin" in Path("table.txt").read_text()
    listed = json.loads(run("--list", "--tier", "smoke", "--rounds", "1", "--json"))
    assert [(row["done"], row["raw"]) for row in listed[:2]] == [(2, "none needed"), (2, "none needed")]
    assert not (folder / "another cache").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "The task is missing"),
        (["qmnst"], "Did you mean 'qmnist'"),
        (["qmnist", "ablaton"], "Did you mean 'ablation'"),
        (["qmnist", "--tier", "gpu"], "no tier 'gpu'"),
        (["qmnist", "--format", "pdf"], "no format 'pdf'"),
        (["qmnist", "--rounds", "x"], "rounds is 'x'"),
        (["qmnist", "--rounds", "0"], "rounds is '0'"),
        (["signature", "--raw", "nowhere"], "no folder nowhere"),
    ],
)
def test_mistakes_are_named(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MIVError, match=message):
        run(*arguments)
    assert list(tmp_path.iterdir()) == []
