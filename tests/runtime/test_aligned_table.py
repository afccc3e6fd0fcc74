"""A table for people is plain text: whole, without colour, whatever it is printed to."""

import pytest

from miv.runtime import aligned_table, table_of


def test_words_stand_at_the_left_and_figures_at_the_right() -> None:
    shown = aligned_table(["bag", "size", "note"], [["a", "7", "first"], ["long name", "1,000", "x"]], left=(0, 2))
    assert shown.splitlines() == [
        "bag         size  note",
        "───────────────────────",
        "a              7  first",
        "long name  1,000  x",
    ]


def test_a_cell_is_shown_as_it_is_however_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("FORCE_COLOR", "1")
    cells = ["[bold]not markup[/bold]", ":smile:", "x" * 300, "runs/a\tb"]
    headings, _, row = aligned_table(list("abcd"), [cells]).splitlines()
    assert headings.split() == list("abcd")
    assert row.split() == ["[bold]not", "markup[/bold]", ":smile:", "x" * 300, "runs/a", "b"]


def test_signs_of_two_columns_keep_their_neighbours_in_line() -> None:
    rows = aligned_table(["name", "n"], [["漢字", "1"], ["abcd", "2"]]).splitlines()
    assert rows[2:] == ["漢字  1", "abcd  2"]


def test_rows_that_lack_a_name_show_a_dash() -> None:
    shown = table_of([{"run": "a", "auroc": 0.51239}, {"run": "b", "seed": 3}]).splitlines()
    assert [line.split() for line in shown if "─" not in line] == [
        ["run", "auroc", "seed"],
        ["a", "0.5124", "–"],
        ["b", "–", "3"],
    ]
