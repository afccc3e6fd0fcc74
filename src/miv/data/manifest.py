"""``manifest.json``: the content of a saved set, its origin, and the hashes of its files."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from miv import __version__
from miv.data.kinds import KINDS
from miv.errors import MIVError
from miv.files.atomic import sha256_of
from miv.files.instances import InstanceKind
from miv.files.json import json_text, read_json_object

NAME = "manifest.json"
FORMAT = "miv-exemplars"
VERSION = 2
_READ = (1, VERSION)
_NEW_IN_2: dict[str, Any] = {"references": None, "has_query_ids": False, "has_names": False}
Check = Callable[[object], str | None]  # returns what was expected if a value is invalid


@dataclass(frozen=True)
class FileEntry:
    """Size and hash of one file of the set."""

    bytes: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> "FileEntry":
        """Measure a file."""
        return cls(path.stat().st_size, sha256_of(path))


@dataclass(frozen=True)
class Manifest:
    """The content of ``manifest.json``.

    Args:
        builder: the task or command that made the set.
        options: its options.
        seed: its random seed, if it used one.
        kind: kind of instance.
        instances: size of the pool.
        shape: shape of one instance, ``[]`` for a text.
        has_classes: whether the pool knows classes.
        exemplars: number of exemplars.
        bag_entries: total number of bag members.
        positives: number of exemplars with label 1.
        witnesses: number of witnesses, ``None`` if unknown.
        has_groups: whether the exemplars have groups.
        files: size and hash of each file by name.
        has_weights: whether the exemplars have weights; written only if true.
        splits: names of the splits that were saved together; written only for a folder of splits.
        references: total number of references, ``None`` if every query is one instance. This and the next two are new
            in version 2 of the format.
        has_query_ids: whether the exemplars have query ids.
        has_names: whether the pool knows where its instances come from.
        image_steps: the steps from a file to an image; written only if known.
        miv: version of the package that wrote it.
    """

    builder: str
    options: dict[str, Any]
    seed: int | None
    kind: InstanceKind
    instances: int
    shape: list[int]
    has_classes: bool
    exemplars: int
    bag_entries: int
    positives: int
    witnesses: int | None
    has_groups: bool
    files: dict[str, FileEntry]
    has_weights: bool = False
    splits: list[str] | None = None
    references: int | None = None
    has_query_ids: bool = False
    has_names: bool = False
    image_steps: list[str] | None = None
    miv: str = __version__

    def write(self, folder: Path) -> None:
        """Write ``manifest.json`` into a folder."""
        document = {"format": FORMAT, "version": VERSION, **asdict(self)}
        if not self.has_weights:  # as in older sets
            del document["has_weights"]
        for optional in ("splits", "image_steps"):
            if document[optional] is None:
                del document[optional]
        try:
            text = json_text(document)
            (folder / NAME).write_text(text + "\n", encoding="utf-8")
        except (TypeError, ValueError) as error:
            raise MIVError(
                f"Could not write the options as JSON: {error}. Expected numbers, strings, lists and dicts."
            ) from error

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """Read and check ``manifest.json`` of a folder."""
        path = folder / NAME
        document = read_json_object(path, "Build the set again.")
        if document.get("format") != FORMAT:
            raise MIVError(f"{path} is not the manifest of a set: its format is not {FORMAT!r}.")
        version = document.get("version")
        if type(version) is not int or version not in _READ:
            raise MIVError(
                f"{path} has format version {version!r}; this version of miv reads {' and '.join(map(str, _READ))}. "
                "Use the version of miv that wrote it, or build the set again."
            )
        if version == 1:
            document = {**document, **_NEW_IN_2}
        document = {"has_weights": False, "splits": None, "image_steps": None, **document}
        fields = {name: _field(path, document, name, check) for name, check in _CHECKS.items()}
        files = {}
        for name in fields["files"]:
            entry = _field(path, fields["files"], name, _is_object, "files")
            size = _field(path, entry, "bytes", _is_count, f"files.{name}")
            files[name] = FileEntry(size, _field(path, entry, "sha256", _is_hash, f"files.{name}"))
        return cls(**{**fields, "files": files})


def _is_count(value: object) -> str | None:
    fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
    return None if fits else "a whole number from 0"


def _is_optional_count(value: object) -> str | None:
    return None if value is None else _is_count(value)


def _is_seed(value: object) -> str | None:
    fits = value is None or (isinstance(value, int) and not isinstance(value, bool))
    return None if fits else "a whole number or null"


def _is_bool(value: object) -> str | None:
    return None if isinstance(value, bool) else "true or false"


def _is_text(value: object) -> str | None:
    return None if isinstance(value, str) else "a string"


def _is_object(value: object) -> str | None:
    return None if isinstance(value, dict) else "an object"


def _is_kind(value: object) -> str | None:
    return None if isinstance(value, str) and value in KINDS else f"one of {', '.join(KINDS)}"


def _is_shape(value: object) -> str | None:
    fits = isinstance(value, list) and all(_is_count(side) is None for side in value)
    return None if fits else "a list of whole numbers"


def _is_optional_names(value: object) -> str | None:
    fits = value is None or (isinstance(value, list) and all(isinstance(name, str) for name in value))
    return None if fits else "a list of names"


def _is_hash(value: object) -> str | None:
    fits = isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")
    return None if fits else "64 hexadecimal digits"


_CHECKS: dict[str, Check] = {
    "builder": _is_text,
    "options": _is_object,
    "seed": _is_seed,
    "kind": _is_kind,
    "instances": _is_count,
    "shape": _is_shape,
    "has_classes": _is_bool,
    "exemplars": _is_count,
    "bag_entries": _is_count,
    "positives": _is_count,
    "witnesses": _is_optional_count,
    "has_groups": _is_bool,
    "has_weights": _is_bool,
    "files": _is_object,
    "splits": _is_optional_names,
    "references": _is_optional_count,
    "has_query_ids": _is_bool,
    "has_names": _is_bool,
    "image_steps": _is_optional_names,
    "miv": _is_text,
}


def _field(
    path: Path, document: dict[str, Any], name: str, check: Callable[[object], str | None], where: str = ""
) -> Any:
    label = f"{where}.{name}" if where else name
    if name not in document:
        raise MIVError(f"{path} has no {label!r}. The file is damaged. Build the set again.")
    expected = check(document[name])
    if expected is not None:
        raise MIVError(f"{path}: {label!r} is {str(document[name])[:60]!r}. Expected {expected}.")
    return document[name]
