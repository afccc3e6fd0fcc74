"""JSON files and model cards: read with helpful errors, written atomically."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from itertools import takewhile
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from miv.errors import MIVError, unknown_name
from miv.files.atomic import whole_file

MAX_BYTES = 16 << 20  # our JSON files are far smaller than this


def read_json_object(path: Path, remedy: str) -> dict[str, Any]:
    """Read a JSON object; ``remedy`` ends the error message."""
    try:
        if not path.is_file():  # missing, or an endless pipe
            raise MIVError(f"{path} {'is not a file' if path.exists() else 'is missing'}. {remedy}")
        if path.stat().st_size > MAX_BYTES:
            raise MIVError(f"{path} has {path.stat().st_size} bytes. Expected at most {MAX_BYTES}. {remedy}")
        document = json.loads(path.read_text(encoding="utf-8"))
    except MIVError:
        raise
    except OSError as error:
        raise MIVError(f"Could not read {path}: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:  # bad UTF-8, bad JSON, or a number with too many digits
        raise MIVError(f"{path} is not JSON: {error}. {remedy}") from error
    if not isinstance(document, dict):
        raise MIVError(f"{path} contains a {type(document).__name__}. Expected an object. {remedy}")
    return document


def write_json(path: Path, document: dict[str, Any], *, make_folder: bool = True) -> None:
    """Write a JSON object atomically."""
    text = json_text(document) + "\n"
    with whole_file(path, make_folder=make_folder) as temporary:
        temporary.write_text(text, encoding="utf-8")


def json_text(document: Any, encoding: str = "utf-8") -> str:
    """Return a document as strictly valid JSON, without NaN.

    Letters stay readable, unless ``encoding`` lacks some. No encoding has the half letters that stand for the bytes of
    a file name that is not UTF-8; in JSON, escapes can hold all of them.
    """
    try:
        text = json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False)
        try:
            text.encode(encoding)
        except UnicodeEncodeError:
            return json.dumps(document, indent=2, allow_nan=False)
        return text
    except ValueError as error:
        raise MIVError(f"The result has a NaN or infinite number, which JSON lacks ({error}).") from error


# The expected shape of a JSON document: one check before it is used, instead of one per use.

Shape = Any
"""What a value must be.

A type or a tuple of types; a dict with the shapes of its fields, where ``"name?"`` may be missing or null and ``"*"``
is the shape of all other fields; or a list with the shape of its elements. ``None`` means anything.
"""

NUMBER = (int, float)
_WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
_WORDS |= {dict: "an object", list: "a list"}


def check_shape(value: Any, shape: Shape, place: str, remedy: str, path: tuple[str, ...] = ()) -> None:
    """Raise an error that names the first field with another shape; ``remedy`` ends the message."""
    if shape is None:
        return
    kinds = shape if isinstance(shape, tuple) else (type(shape) if isinstance(shape, dict | list) else shape,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        where, expected = ".".join(path) or "content", _WORDS[float if float in kinds else kinds[0]]
        raise MIVError(f"{place}: {where!r} is {str(value)[:60]!r}. Expected {expected}. {remedy}")
    if isinstance(shape, list):
        for number, element in enumerate(value):
            check_shape(element, shape[0], place, remedy, (*path, str(number)))
    if isinstance(shape, dict):
        for name, inner in shape.items():
            field = name.removesuffix("?")
            if name == "*":
                for other in value.keys() - {known.removesuffix("?") for known in shape}:
                    check_shape(value[other], inner, place, remedy, (*path, str(other)))
            elif field == name and field not in value:
                raise MIVError(f"{place} has no {'.'.join((*path, field))!r}. {remedy}")
            elif field == name or value.get(field) is not None:
                check_shape(value[field], inner, place, remedy, (*path, field))


# Validated numbers, and small dataclasses as JSON objects with their name.


def finite_number(
    what: str, value: object, *, low: float = -math.inf, high: float = math.inf, above: float = -math.inf
) -> float:
    """Return a number from ``low`` to ``high``, and above ``above``, as a float; anything else is an error."""
    shown = repr(value)[:80]
    number = math.nan
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:  # JSON allows integers of any length
            shown = "a number with more than 308 digits"
    if math.isfinite(number) and low <= number <= high and number > above:
        return number
    bounds = [f" from {low:g}"] if low > -math.inf else [f" above {above:g}"] if above > -math.inf else []
    bounds += [f" to {high:g}"] if high < math.inf else []
    raise MIVError(f"The {what} is {shown}. Expected a finite number{''.join(bounds)}.")


class Tagged:
    """A dataclass with a name that identifies its type in JSON."""

    name: ClassVar[str]

    def document(self) -> dict[str, Any]:
        """Return the name and parameters as plain values, for JSON."""
        return {"name": self.name, **asdict(self)}  # type: ignore[call-overload]  # every subclass is a dataclass


TaggedType = TypeVar("TaggedType", bound=Tagged)


def from_document(document: object, kinds: Mapping[str, type[TaggedType]], what: str) -> TaggedType:
    """Return the object of one of ``kinds`` described by ``Tagged.document``; anything else is an error."""
    if not isinstance(document, dict) or not isinstance(document.get("name"), str):
        raise MIVError(f"The {what} is {str(document)[:80]!r}. Expected an object with a name.")
    parameters = dict(document)
    name = parameters.pop("name")
    if name not in kinds:
        raise unknown_name(what, name, kinds)
    try:
        return kinds[name](**parameters)
    except TypeError as error:  # a missing, extra or wrongly typed parameter
        raise MIVError(f"Invalid parameters for the {what} {name!r}: {error}.") from error


# The model card, README.md: its sentence on what the verifier decides, and sections that are written anew.


def card_about(folder: Path) -> str | None:
    """What a verifier decides, in a sentence: the line ``about:`` in the front matter of its card, if there is one."""
    lines = _read(folder / "README.md").splitlines()
    if lines[:1] != ["---"]:
        return None
    front = takewhile(lambda line: line != "---", lines[1:])
    about = next((line.removeprefix("about:") for line in front if line.startswith("about:")), "")
    return about.strip().strip("'\"") or None


def check_section(folder: Path, begin: str, end: str) -> None:
    """Raise an error if ``write_section`` could not write this section; call it before long work."""
    _around(folder / "README.md", begin, end)


def write_section(folder: Path, begin: str, end: str, text: str) -> None:
    """Write a section between two marks to the card in a verifier's folder; the rest stays, and "" removes it."""
    path = folder / "README.md"
    before, exists, after = _around(path, begin, end)
    if not exists and not text:
        return
    section = f"{begin}\n{text}\n{end}" if text else ""
    whole = f"{before.rstrip()}\n\n{section}{after or chr(10)}" if text else f"{before.rstrip()}\n{after}"
    with whole_file(path) as temporary:
        temporary.write_text(whole.lstrip(), encoding="utf-8")


def _around(path: Path, begin: str, end: str) -> tuple[str, bool, str]:
    """The text before the section, whether there is one, and the text after it."""
    before, opened, rest = _read(path).partition(begin)
    _, closed, after = rest.partition(end)
    if opened and not closed:
        raise MIVError(f"{path} has {begin} without {end} after it. Add that line, or delete the first one.")
    return before, bool(opened), after


def _read(path: Path) -> str:
    """The card; empty if there is none."""
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else ""
    except OSError as error:
        raise MIVError(f"Could not read {path}: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise MIVError(f"{path} is not UTF-8: {error}. Save it as UTF-8, or move it away.") from error


# Names in the folder of a run, for modules that must not wait for torch.

RUN_NAME = "run.json"
VERIFIER_NAME = "verifier"
