"""The instances in the cells of a table: given directly, or by ids of a second table."""

from collections.abc import Hashable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from miv.data import InstanceKind, InstancePool
from miv.data.sources.pool_builder import ImageForm, PoolBuilder, read_image_file
from miv.errors import MIVError
from miv.io.instance_files import check_text, check_vector, is_file, read_vectors_file, short
from miv.io.json_lines import parse_json
from miv.io.table_cells import guess_kind, is_blank, parse_id, separator_hint
from miv.io.table_records import read_records
from miv.runtime.progress import Advance

_WORDS: dict[InstanceKind, str] = {
    "image": "the path of an image",
    "text": "a text",
    "features": "a vector (a list of numbers, or the path of a .npy file)",
}
# A path may point to an image or a vector; its suffix decides.
_KIND_OF_COLUMN: dict[str, InstanceKind | None] = {"path": None, "text": "text", "vector": "features"}


class CellInstances:
    """Reads instances from cells: paths relative to the table, texts, or vectors; each file once.

    Args:
        folder: base folder of relative paths.
        kind: kind of instance; ``None`` infers it from the first cell.
        form: target form of all images.
    """

    def __init__(self, folder: Path, kind: InstanceKind | None, form: ImageForm) -> None:
        self._folder = folder
        self._form = form
        self._builder = None if kind is None else PoolBuilder(kind, form)
        self._known: dict[Hashable, int] = {}

    def index(self, cell: Any, place: str, name: str = "") -> int:
        """Return the pool index of the instance in a cell; ``name`` is for one that is not in a file."""
        if self._builder is None:
            self._builder = PoolBuilder(guess_kind(cell), self._form)
        kind = self._builder.kind
        if not isinstance(cell, str):
            if kind != "features":
                raise MIVError(f"{place}: expected {_WORDS[kind]}, got {short(cell)}.")
            return self._builder.add(check_vector(cell, place), place, name)
        index = self._known.get(cell)
        if index is None:
            is_file_name = kind == "image" or (kind == "features" and not cell.strip().startswith("["))
            known_as = cell.strip() if is_file_name else name
            index = self._known[cell] = self._builder.add(self._read(kind, cell, place), place, known_as)
        return index

    def pool(self) -> InstancePool:
        """All instances so far."""
        if self._builder is None:
            raise MIVError("There are no instances. Expected at least one.")
        return self._builder.pool()

    def _read(self, kind: InstanceKind, cell: str, place: str) -> Any:
        if kind == "text":
            return check_text(cell, place)
        text = cell.strip()
        if not text:
            raise MIVError(f"{place}: the cell is empty. Expected {_WORDS[kind]}.")
        if kind == "features" and text.startswith("["):
            return check_vector(parse_json(text, place), place)
        path = self._folder / text
        try:
            if kind == "image":
                return read_image_file(path, self._form)
            if not text.lower().endswith(".npy"):
                raise MIVError(f"expected {_WORDS[kind]}, got {short(text)}.")
            vectors = read_vectors_file(path)
            if len(vectors) != 1:
                raise MIVError(f"{path} contains {len(vectors)} vectors. Expected one instance per cell.")
        except MIVError as error:
            hint = "" if is_file(path) else separator_hint(text)
            raise MIVError(f"{place}: {error}{hint}") from error
        return vectors[0]


class InstanceTable:
    """Instances by id from a separate table.

    The table has the columns ``id``, one of ``path``, ``text`` or ``vector``, and optionally ``class``.
    """

    def __init__(self, path: Path, kind: InstanceKind | None, form: ImageForm, advance: Advance) -> None:
        self._path = path
        self._index: dict[str, int] = {}
        self._classes: dict[int, tuple[str, str]] = {}  # class of each pool index, and where it was given
        self._cells: CellInstances | None = None
        first_place: dict[str, str] = {}
        for place, record in read_records(path, required=["id"]):
            name = parse_id(record["id"], place)
            if name in first_place:
                raise MIVError(f"{place}: the id {name!r} is already in {first_place[name]}. Use each id once.")
            first_place[name] = place
            self._index[name] = self._read(record, kind, form, place, name)
            advance(1)
        if self._cells is None:
            raise MIVError(f"{path}: no rows. Expected an id and a path, text or vector per row.")
        self._pool: InstancePool = self._with_classes(self._cells.pool())

    def index(self, cell: Any, place: str) -> int:
        """Return the pool index of the instance with the id in a cell."""
        name = parse_id(cell, place)
        if name not in self._index:
            near = get_close_matches(name, self._index, n=1, cutoff=0.6) if len(self._index) < 10_000 else []
            suggestion = f" Did you mean {near[0]!r}?" if near else ""
            hint = separator_hint(name) or suggestion
            raise MIVError(f"{place}: {self._path} has no instance with the id {name!r}.{hint}")
        return self._index[name]

    def pool(self) -> InstancePool:
        """All instances of the table."""
        return self._pool

    def _read(self, record: dict[str, Any], kind: InstanceKind | None, form: ImageForm, place: str, name: str) -> int:
        columns = [column for column in _KIND_OF_COLUMN if not is_blank(record.get(column))]
        if len(columns) != 1:
            found = ", ".join(map(str, record))
            raise MIVError(
                f"{place}: expected exactly one of path, text and vector in addition to the id; got {found}."
            )
        if self._cells is None:
            self._cells = CellInstances(self._path.parent, _KIND_OF_COLUMN[columns[0]] or kind, form)
        index = self._cells.index(record[columns[0]], place, name)
        if not is_blank(record.get("class")):
            named = parse_id(record["class"], place)
            known, known_place = self._classes.setdefault(index, (named, place))
            if known != named:
                raise MIVError(
                    f"{place}: the class is {named!r}, but {known_place} says {known!r} for the same instance. "
                    "Give it one class, or remove one of the rows."
                )
        return index

    def _with_classes(self, pool: InstancePool) -> InstancePool:
        if not self._classes:
            return pool
        if len(self._classes) < len(pool):
            raise MIVError(f"{self._path}: some instances have a class and some do not. Give a class for all or none.")
        classes = np.array([self._classes[index][0] for index in range(len(pool))], dtype=object)
        return InstancePool(pool.kind, pool.values, classes, pool.names, pool.image_steps)
