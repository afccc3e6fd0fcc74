"""The reference as a text table, alone or with a verifier."""

from collections.abc import Mapping

from miv.evaluation.evaluation_text import TITLES
from miv.reference.plain_figures import COLUMNS, Figures
from miv.runtime.aligned_table import aligned_table


def print_table(title: str, rows: Mapping[str, Figures]) -> None:
    """One row per method on standard output; ``*`` marks the best of each column."""
    headings = ["method", *(TITLES[column] for column in COLUMNS)]
    table = aligned_table(headings, [[name, *cells] for name, cells in marked(rows).items()])
    print(f"{title}\n\n{table}\n* best of its column\n")


def marked(rows: Mapping[str, Figures]) -> dict[str, list[str]]:
    """The figures as text, with ``*`` for the best of each column and ``–`` for missing ones.

    >>> marked({"nearest": Figures(0.7, 0.9, None), "mean": Figures(0.6, 0.9, None)})
    {'nearest': ['0.7000 *', '0.9000 *', '–'], 'mean': ['0.6000  ', '0.9000 *', '–']}
    """
    best = {
        column: max((value for one in rows.values() if (value := getattr(one, column)) is not None), default=None)
        for column in COLUMNS
    }
    return {name: [_cell(getattr(one, column), best[column]) for column in COLUMNS] for name, one in rows.items()}


def _cell(value: float | None, best: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.4f} {'*' if value == best else ' '}"
