"""JSON: read small files with helpful errors, write files atomically, and format text."""

import json
from pathlib import Path
from typing import Any

from miv.errors import MIVError
from miv.io.whole_files import whole_file

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
        raise MIVError(
            f"The result contains a number that is NaN or infinite, which JSON does not allow ({error})."
        ) from error
