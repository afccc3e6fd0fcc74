"""JSON: small files read with a message that says what to do, written whole; and text for both files and pipes."""

import json
from pathlib import Path
from typing import Any

from miv.errors import MIVError
from miv.io.whole_files import whole_file

MAX_BYTES = 16 << 20  # a page or two of text; a larger file is something else


def read_json_object(path: Path, remedy: str) -> dict[str, Any]:
    """Read a JSON object; where that fails, ``remedy`` ends the message."""
    try:
        if not path.is_file():  # missing, or a pipe that would never end
            raise MIVError(f"{path} {'is not a file' if path.exists() else 'is missing'}. {remedy}")
        if path.stat().st_size > MAX_BYTES:
            raise MIVError(f"{path} has {path.stat().st_size} bytes. Expected {MAX_BYTES} at most. {remedy}")
        document = json.loads(path.read_text(encoding="utf-8"))
    except MIVError:
        raise
    except OSError as error:
        raise MIVError(f"Could not read {path}: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:  # bad UTF-8, bad JSON, a number of too many digits
        raise MIVError(f"{path} is not JSON: {error}. {remedy}") from error
    if not isinstance(document, dict):
        raise MIVError(f"{path} holds a {type(document).__name__}. Expected an object. {remedy}")
    return document


def write_json(path: Path, document: dict[str, Any]) -> None:
    """Write a JSON object, whole."""
    text = json_text(document) + "\n"
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def json_text(document: Any) -> str:
    """Return a document as JSON that every reader takes: what Python writes for NaN is none."""
    try:
        return json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False)
    except ValueError as error:
        raise MIVError(f"The result holds a number that is NaN or infinite, which JSON has not ({error}).") from error
