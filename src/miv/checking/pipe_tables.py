"""Tables of Markdown: each row as a text of its own, with the heads of its columns."""

import re
from itertools import chain, repeat

# The line under the heads of the columns. Nothing is tried twice, so that the time stays linear.
_RULER = re.compile(r"\s*+\|?+\s*+:?-++:?+\s*+(?:\|\s*+:?-++:?+\s*+)*+\|?+\s*+$")
_BAR = re.compile(r"(?<!\\)\|")
# Heads are copied into every row. A table whose heads are far longer than its rows must not fill the memory.
_MOST_GROWTH = 20  # characters of heads per character of the rows so far
_ALWAYS = 2_000  # characters of heads that any table may add


class PipeTable:
    """A table that begins with the heads of its columns.

    Args:
        heads: one per column.
    """

    def __init__(self, heads: list[str]) -> None:
        self._heads = [head.rstrip(": ") for head in heads]
        self.is_empty = True
        self._room = _ALWAYS

    @classmethod
    def begun_by(cls, heads: str, ruler: str) -> "PipeTable | None":
        """A table if the second of two lines rules off as many columns as the first has; ``None`` otherwise."""
        if "|" not in ruler or "|" not in heads or not _RULER.match(ruler):
            return None
        found = _cells(heads)
        return cls(found) if len(found) == len(_cells(ruler)) else None

    def heads(self) -> str:
        """The heads as one text."""
        return "; ".join(filter(None, self._heads))

    def row(self, line: str) -> str | None:
        """A row as a text, such as ``Country: France; Capital: Paris``; ``None`` for a line that is no row.

        From the first row for whose heads there is no room, rows are their cells alone.
        """
        if not _BAR.search(line):
            return None
        self.is_empty = False
        pairs = [(head, cell) for cell, head in zip(_cells(line), chain(self._heads, repeat("")), strict=False) if cell]
        self._room += _MOST_GROWTH * len(line)
        self._room -= sum(len(head) for head, _ in pairs)
        if self._room < 0:
            self._heads = []
            return "; ".join(cell for _, cell in pairs)
        return "; ".join(f"{head}: {cell}" if head else cell for head, cell in pairs)


def _cells(line: str) -> list[str]:
    line = line.strip().removeprefix("|")
    line = line[:-1] if line.endswith("|") and not line.endswith("\\|") else line
    return [cell.strip().replace("\\|", "|") for cell in _BAR.split(line)]
