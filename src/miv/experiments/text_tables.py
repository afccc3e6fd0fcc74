"""A table as every output takes it: texts in rows, a cell may have several lines."""

from dataclasses import dataclass

NOTHING = "–"  # where there is no figure


@dataclass(frozen=True)
class Table:
    """A table.

    Args:
        title: what it shows.
        headings: of the columns; the first names the rows.
        rows: as many texts each as there are headings.
        note: below it.
    """

    title: str
    headings: list[str]
    rows: list[list[str]]
    note: str = ""
