"""The results in docs/results can be read, and give the verdict at once on a machine without the raw data."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from miv.cli.app import app

RESULTS = Path(__file__).parents[2] / "docs" / "results"


@pytest.mark.parametrize(("experiment", "rows"), [("classification", 9), ("key_instance", 6), ("ablation", 10)])
def test_the_table_is_there_at_once(
    experiment: str, rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # no raw data here
    monkeypatch.setenv("MIV_CACHE_DIR", str(tmp_path / "cache"))
    done = CliRunner().invoke(app, ["reproduce", "qmnist", experiment, "--results", str(RESULTS), "--json"])
    assert done.exit_code == 0, done.output
    section = json.loads(done.stdout)[0]
    assert len({(figure["model"], figure["variant"]) for figure in section["figures"]}) == rows
    assert all(figure["rounds"] >= 1 for figure in section["figures"])
    assert {claim["judgement"] for claim in section["claims"]} <= {"holds", "does not hold", "cannot be told"}
