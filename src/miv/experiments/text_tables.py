"""The table that every output accepts: rows of texts; a cell may have several lines."""

from dataclasses import dataclass

NOTHING = "–"  # where there is no figure


@dataclass(frozen=True)
class Table:
    """A table.

    Args:
        title: what it shows.
        headings: column headings; the first column names the rows.
        rows: one text per heading in each row.
        note: text below the table.
    """

    title: str
    headings: list[str]
    rows: list[list[str]]
    note: str = ""
