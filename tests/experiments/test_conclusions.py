"""The page of conclusions: each claim on each task, by each scoring, from whatever cells there are."""

import json
from pathlib import Path

import pytest

from miv.errors import MIVError
from miv.experiments.comparison import CellEvidence
from miv.experiments.conclusions import GROUNDS, draw_conclusions
from miv.experiments.experiment_report import build_section
from miv.experiments.grids import EXPERIMENTS
from miv.experiments.paired import Estimate
from tests.cli.running import run_command
from tests.experiments.test_verdict import AS_IN_THE_PAPER, finished, plain

QMNIST = "QMNIST"
CAP_OVER_BASELINE = "CAP > baseline in finding witnesses"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two rounds of the main table of QMNIST, as in the paper, and nothing else."""
    folder = tmp_path_factory.mktemp("results")
    finished(folder, plain(AS_IN_THE_PAPER))
    return folder


def cells(results: Path) -> dict[tuple[str, str], dict[str, str]]:
    table = draw_conclusions(results, "cpu", (0, 1)).tables[0]
    return {(row[0], row[1]): dict(zip(table.headings[2:], row[2:], strict=True)) for row in table.rows}


def test_a_task_without_cells_says_so_and_the_others_are_judged(results: Path) -> None:
    found = cells(results)
    judged = found["CAP > baseline in classification", "–"]
    assert judged[QMNIST].startswith("holds\n+0.20")  # 0.90 against 0.70
    assert {judged[one.heading] for one in GROUNDS[1:]} == {"no cells"}
    assert found["CAP is ahead at every size", "as in the paper"]["signatures"] == "not claimed"
    assert found["CAP is less sensitive to bag size", "–"][QMNIST] == "cells missing"  # other experiments have cells


def test_the_scorings_of_a_claim_stand_together(results: Path) -> None:
    rows = [row[:2] for row in draw_conclusions(results, "cpu", (0, 1)).tables[0].rows]
    first = rows.index([CAP_OVER_BASELINE, "as in the paper"])
    assert rows[first + 1 : first + 3] == [[CAP_OVER_BASELINE, f"by {how}"] for how in ("own score", "first choice")]


def test_the_sentences_say_what_survives(results: Path) -> None:
    sentences = draw_conclusions(results, "cpu", (0, 1)).sentences
    survivors, _, rest = sentences[0].partition(" These hold as the paper scores them")
    assert survivors.startswith("QMNIST: These survive every scoring that applies: ")
    assert "CAP > baseline in classification" in survivors
    assert "attention function finds the witnesses" not in sentences[0]  # its steps are not computed
    assert rest
    assert sentences[1:] == [f"{one.heading}: no cells, so nothing is judged." for one in GROUNDS[1:]]


def test_the_command_writes_every_form(results: Path, tmp_path: Path) -> None:
    flags = ["reproduce", "--conclusions", "--rounds", "2", "--results", str(results)]
    page = tmp_path / "page.md"
    run_command(*flags, "--format", "markdown", "--out", str(page))
    assert page.read_text("utf-8").startswith("## Which of the paper's claims hold?\n\n> ")
    grounds = json.loads(run_command(*flags, "--json"))[0]["grounds"]
    claim = grounds[QMNIST][CAP_OVER_BASELINE]
    assert claim["judgement"] == "holds"
    assert claim["weakest"]["low"] <= claim["weakest"]["value"] <= claim["weakest"]["high"]
    assert grounds["signatures"][CAP_OVER_BASELINE] is None
    assert "no cells" in run_command(*flags)
    with pytest.raises(MIVError, match="exists"):
        run_command(*flags, "--out", str(page))
    with pytest.raises(MIVError, match="Remove qmnist"):
        run_command("reproduce", "qmnist", "--conclusions")
    with pytest.raises(MIVError, match="synthetic twins"):
        run_command(*flags, "--tier", "smoke")


def test_the_interval_is_the_wider_of_the_two() -> None:
    assert Estimate(0.0, 3, 1.0, 0.1).interval == pytest.approx((-1.96, 1.96), abs=1e-3)
    assert Estimate(0.0, 3, 0.1, 1.0).interval == pytest.approx((-4.303, 4.303), abs=1e-3)
    assert Estimate(0.0, 1, 0.1, None).interval == pytest.approx((-0.196, 0.196), abs=1e-3)


def test_a_report_says_of_how_many_cells_the_commit_is_unknown(results: Path) -> None:
    evidence = CellEvidence("qmnist", "cpu", (0, 1), results)
    remarks = build_section(EXPERIMENTS["qmnist"]["classification"], evidence).remarks
    assert "The commit of the code was not recorded for 18 of the 18 cells." in remarks
    [path] = results.glob("cpu/qmnist/baseline/round-0/result.json")
    before = path.read_text("utf-8")
    path.write_text(before.replace('"code": null', '"code": {"commit": "0a1b", "changed": false}'), "utf-8")
    evidence = CellEvidence("qmnist", "cpu", (0, 1), results)
    remarks = build_section(EXPERIMENTS["qmnist"]["classification"], evidence).remarks
    path.write_text(before, "utf-8")
    assert "The commit of the code was not recorded for 17 of the 18 cells." in remarks
