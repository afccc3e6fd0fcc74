"""The results in docs/results can be read, and give the verdict at once on a machine without the raw data."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from miv.audit import AuditReport
from miv.audit.rows import markdown_table, tables
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


def kept_audit(data: str) -> AuditReport:
    document = json.loads((RESULTS / f"audit-{data}.json").read_text(encoding="utf-8"))
    return AuditReport(document["about"], document["models"])


@pytest.mark.parametrize("data", ["qmnist", "twins"])
def test_the_page_of_an_audit_is_made_of_its_figures(data: str) -> None:
    assert (RESULTS / f"audit-{data}.md").read_text(encoding="utf-8") == kept_audit(data).markdown()


def test_the_summary_of_the_audits_has_the_tables_of_their_figures() -> None:
    page = (RESULTS / "audit.md").read_text(encoding="utf-8")
    for data, title in (("qmnist", "In short"), ("twins", "In short"), ("twins", "Unit tests of the pooling")):
        rows = next(rows for name, _, rows in tables(kept_audit(data).models) if name == title)
        assert markdown_table(rows) in page, f"{title} of {data}"
