"""Many small folders of results as one file: JSON lines, one line per cell, sorted by name.

A line is ``{"cell": "pma/round-0", "files": {"metrics.csv": "…", "predictions.parquet": "…", "result.json": {…}}}``.
JSON files are stored as JSON, text files as strings, all others in base64, so that packing loses only the layout of
JSON. The same cells always give the same bytes, and version control merges two sets of new cells by line.
"""

import base64
import json
import shutil
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from miv.errors import MIVError
from miv.files.atomic import whole_file
from miv.files.tables import read_json_lines

SUFFIX = ".jsonl"
_TEXTS = (".csv", ".md", ".txt")


def packed_file(folder: Path) -> Path:
    """The file into which the cells below a folder are packed."""
    return folder.with_name(folder.name + SUFFIX)


def read_packed(folder: Path) -> Mapping[str, Mapping[str, bytes]]:
    """The packed cells of a folder: by their path in it, the content of each file by name."""
    path = packed_file(folder)
    if not path.is_file():
        return {}
    state = path.stat()
    return _read(path, state.st_mtime_ns, state.st_size)


def pack_cells(folder: Path, check: Callable[[Path, Mapping[str, bytes]], object]) -> int:
    """Move every cell below a folder into the packed file; return the number of cells.

    The packed file is whole before a folder is removed. A cell with different content in both is an error.

    Args:
        folder: the folder of the cells; ``packed_file`` says where they go.
        check: called with the folder and the files of each cell; raises an error if the cell must not be packed.
    """
    packed = {name: dict(files) for name, files in read_packed(folder).items()}
    parents = {path.parent for path in folder.rglob("*") if path.is_file()}
    # What a killed process left behind begins with a dot.
    found = sorted(one for one in parents if not any(part[0] == "." for part in one.relative_to(folder).parts))
    for cell in found:
        name = cell.relative_to(folder).as_posix()
        files = {path.name: path.read_bytes() for path in sorted(cell.iterdir()) if path.is_file()}
        check(cell, files)
        if name in packed and _line(name, packed[name]) != _line(name, files):
            raise MIVError(f"{cell} and {packed_file(folder)} hold different results for one cell. Remove one of them.")
        packed[name] = files
    if not found:
        return 0
    with whole_file(packed_file(folder)) as temporary:
        temporary.write_text("".join(_line(name, packed[name]) for name in sorted(packed)), encoding="utf-8")
    shutil.rmtree(folder)
    return len(found)


@lru_cache(maxsize=8)  # a report asks for every cell; a file that changes has another time or size
def _read(path: Path, changed: int, size: int) -> Mapping[str, Mapping[str, bytes]]:
    cells: dict[str, Mapping[str, bytes]] = {}
    for number, line in read_json_lines(path):
        try:
            files = {str(name): _content(str(name), packed) for name, packed in line["files"].items()}
            name = str(line["cell"])
        except (KeyError, AttributeError, TypeError, ValueError) as error:
            raise MIVError(f"{path}, line {number}: not a packed cell ({error}). Restore the file.") from error
        if name in cells:
            raise MIVError(f"{path}, line {number}: the cell {name} occurs twice. Remove one of the two lines.")
        cells[name] = files
    return cells


def _line(name: str, files: Mapping[str, bytes]) -> str:
    packed = {file: _packed(file, content) for file, content in sorted(files.items())}
    return json.dumps({"cell": name, "files": packed}, ensure_ascii=False, separators=(",", ":")) + "\n"


def _packed(name: str, content: bytes) -> Any:
    if name.endswith(".json"):
        return json.loads(content)
    return content.decode() if name.endswith(_TEXTS) else base64.b64encode(content).decode()


def _content(name: str, packed: Any) -> bytes:
    if name.endswith(".json"):
        return (json.dumps(packed, ensure_ascii=False, indent=2) + "\n").encode()
    return str(packed).encode() if name.endswith(_TEXTS) else base64.b64decode(packed, validate=True)
