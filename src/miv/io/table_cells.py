"""Parse table cells: lists, labels, witnesses, ids, and kinds of instances."""

from typing import Any

from miv.errors import MIVError
from miv.io.image_files import IMAGE_SUFFIXES
from miv.io.instance_files import InstanceKind, short
from miv.io.json_lines import parse_json

SEPARATOR = "|"
_TWO_FORMS = (
    "Numbers are positions from 0, each given once; flags are one true or false per member, as in [true, false]."
)


def parse_list(cell: Any, what: str, place: str) -> list[Any]:
    """Return a list unchanged, or parse a JSON list or a string with parts separated by ``|``.

    >>> parse_list("a.png | b.png", "bag", "line 2"), parse_list('["a|b", "c"]', "bag", "line 2")
    (['a.png', 'b.png'], ['a|b', 'c'])
    """
    if isinstance(cell, str):
        text = cell.strip()
        if text.startswith("["):
            cell = parse_json(text, f"{place}, {what}")
        elif text:
            return [part.strip() for part in text.split(SEPARATOR)]
        else:
            return []
    if isinstance(cell, tuple):
        return list(cell)
    if not isinstance(cell, list):
        raise MIVError(f"{place}: the {what} must be a list, or a string such as 'a|b'; got {short(cell)}.")
    return cell


def separator_hint(cell: str) -> str:
    """A hint for an unknown cell that looks like a list with another separator; else "".

    >>> separator_hint("a.png;b.png"), separator_hint("a.png")
    (" Separate the parts of a list with '|', or use a JSON list.", '')
    """
    return f" Separate the parts of a list with {SEPARATOR!r}, or use a JSON list." * bool(set(cell) & set(";,"))


def is_label(cell: Any) -> bool:
    """Whether a cell is 0 or 1."""
    text = cell.strip() if isinstance(cell, str) else cell
    return text in (0, 1, "0", "1")  # also equal to True, False and 1.0


def parse_label(cell: Any, place: str) -> int:
    """Return 0 or 1."""
    if is_label(cell):
        return int(cell)
    raise MIVError(f"{place}: the label is {short(cell)}. Expected 0 (not in the bag) or 1 (in the bag).")


def parse_witnesses(cell: Any, size: int, place: str) -> list[bool]:
    """Return which of ``size`` bag members are witnesses. Numbers are always positions; true and false are flags.

    >>> parse_witnesses("0|2", 3, "line 2"), parse_witnesses([False, True], 2, "line 2")
    ([True, False, True], [False, True])
    >>> parse_witnesses([0, 1], 2, "line 2")
    [True, True]
    """
    given = [] if cell is None else parse_list(cell, "witnesses", place)
    if given and all(isinstance(entry, bool) for entry in given):
        if len(given) != size:
            raise MIVError(f"{place}: got {len(given)} true or false values as witnesses for a bag of {size}.")
        return given
    flags = [False] * size
    for entry in given:
        position = _position(entry)
        if position is None or not 0 <= position < size:
            raise MIVError(
                f"{place}: the witness {short(entry)} is not a position in the bag. Expected 0 to {size - 1}, "
                "or one true or false per instance."
            )
        if flags[position]:
            raise MIVError(f"{place}: the witness {position} is given twice. {_TWO_FORMS}")
        flags[position] = True
    return flags


def parse_id(cell: Any, place: str) -> str:
    """Return an id: a text or a whole number."""
    if isinstance(cell, int) and not isinstance(cell, bool):
        return str(cell)
    if isinstance(cell, str) and cell.strip():
        return cell.strip()
    raise MIVError(f"{place}: an id must be a text or a whole number; got {short(cell)}.")


def reference_cells(record: dict[str, Any], query: str, references: str, place: str) -> list[Any]:
    """The cells of an exemplar's query and of its references, given the names of both columns.

    A cell that is given twice counts once. Without a column of references, it is the query alone.

    >>> reference_cells({"query": "a", "references": "b|a|c"}, "query", "references", "line 2")
    ['a', 'b', 'c']
    """
    if references not in record:
        return [record[query]]
    cells = [] if is_blank(record.get(query)) else [record[query]]
    if not is_blank(record[references]):
        for cell in parse_list(record[references], references, place):
            cells += [] if cell in cells else [cell]
    if not cells:
        raise MIVError(
            f"{place}: there is no query. Expected an instance in the column {query!r}, or a list of them in "
            f"{references!r}."
        )
    return cells


def guess_kind(cell: Any) -> InstanceKind:
    """Infer the kind of instance from the first cell: numbers, an image file name, or else a text.

    >>> [guess_kind(cell) for cell in ([0.5, 1.0], "[0.5, 1.0]", "faces/anna.jpg", "v.npy", "Anna sings.")]
    ['features', 'features', 'image', 'features', 'text']
    """
    if not isinstance(cell, str):
        return "features"
    text = cell.strip().lower()
    if text.endswith(tuple(IMAGE_SUFFIXES)):
        return "image"
    return "features" if text.endswith(".npy") or text.startswith("[") else "text"


def _position(entry: Any) -> int | None:
    if isinstance(entry, str) and entry.isascii() and entry.isdecimal() and len(entry) < 10:
        return int(entry)
    return entry if isinstance(entry, int) and not isinstance(entry, bool) else None


def is_blank(cell: Any) -> bool:
    """Whether a cell is empty."""
    return cell is None or (isinstance(cell, str) and not cell.strip())
