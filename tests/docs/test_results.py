"""docs/results stays small, and its pages are what the generator writes (test_figures.py compares every table)."""

import json
from pathlib import Path

import pytest

from miv.verifier.saving import shipped_folder

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def test_the_folder_is_small_and_the_pages_are_short() -> None:
    files = [path for path in RESULTS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 3_000_000
    assert sum(len(path.read_text("utf-8").split()) for path in RESULTS.glob("*.md")) <= 8_000
    pages = "".join(path.read_text("utf-8") for path in (*RESULTS.glob("*.md"), *RESULTS.parent.glob("*.md")))
    assert [path.name for path in (RESULTS / "plots").iterdir() if path.name not in pages] == []


def test_every_cell_names_its_commit_or_says_why_not() -> None:
    lines = [line for path in sorted(RESULTS.glob("*/*.jsonl")) for line in path.read_text("utf-8").splitlines()]
    assert len(lines) == 329
    for cell in map(json.loads, lines):
        code = cell["result"]["code"]
        assert code["commit"] or code["why"].startswith("Not recorded: "), cell["cell"]


def test_the_card_of_the_shipped_verifier_has_the_figures_of_its_operating_point() -> None:
    folder = shipped_folder("miv/digits")
    assert folder is not None
    cells = map(json.loads, (RESULTS / "best.jsonl").read_text("utf-8").splitlines())
    [figures] = [cell["at_the_operating_point"] for cell in cells if "at_the_operating_point" in cell]
    formats = (".4f", ".3f", ".3f", ".3f", ".1f")
    row = " | ".join(format(value, form) for value, form in zip(figures.values(), formats, strict=True))
    assert f"| {row} |" in (folder / "README.md").read_text("utf-8")


@pytest.mark.parametrize("data", ["qmnist", "twins"])
def test_the_page_of_the_audits_has_their_figures(data: str) -> None:
    document = json.loads((RESULTS / f"audit-{data}.json").read_text(encoding="utf-8"))
    page = (RESULTS / "audit.md").read_text(encoding="utf-8")
    for name, model in document["models"].items():
        area, counts, deleted = model["metrics"]["auroc"], model["reasons"], model["delete_witnesses"]["turned_to_no"]
        shares = [counts["right_reason"]["share"], counts["right_reason_chance"], deleted["share"]]
        assert f"| {name} | {area:.4f} | {' | '.join(f'{share:.0%}' for share in shares)} |" in page
