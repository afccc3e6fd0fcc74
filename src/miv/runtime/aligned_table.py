"""Plain-text tables that look the same in a terminal, a log file and an email."""

from collections.abc import Collection, Iterable, Sequence
from io import StringIO
from typing import Any

_NEVER_CUT = 100_000  # columns: a row wider than the terminal wraps


def aligned_table(headings: Sequence[str], rows: Iterable[Sequence[str]], left: Collection[int] = (0,)) -> str:
    """Align cells in columns: columns in ``left`` to the left, the others to the right.

    >>> print(aligned_table(["group", "exemplars"], [["3", "1,200"], ["all", "17"]]))
    group  exemplars
    ────────────────
    3          1,200
    all           17
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for place, heading in enumerate(headings):
        table.add_column(Text(heading), justify="left" if place in left else "right", no_wrap=True)
    for row in rows:
        # As text, not markup: a cell may contain brackets. Rich counts a tab as one letter and would cut the cell.
        table.add_row(*(Text(cell.expandtabs()) for cell in row))
    page = StringIO()
    console = Console(file=page, width=_NEVER_CUT, color_system=None, force_jupyter=False, legacy_windows=False)
    console.print(table)
    return "\n".join(line.rstrip() for line in page.getvalue().splitlines())


def table_of(rows: Sequence[dict[str, Any]]) -> str:
    """Align rows under their column names, all to the left; a missing value is a dash.

    >>> print(table_of([{"run": "a", "auroc": 0.5}, {"run": "b"}]))
    run  auroc
    ───────────
    a    0.5000
    b    –
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    return aligned_table(names, [[cell_text(row.get(name)) for name in names] for row in rows], left=range(len(names)))


def cell_text(value: Any) -> str:
    """Format a number with four decimals, a missing value as a dash, and anything else unchanged."""
    if value is None:
        return "–"
    return f"{value:.4f}" if isinstance(value, float) else str(value)
