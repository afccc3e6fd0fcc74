"""``manifest.json``: the content of a saved set, its origin, and the hashes of its files."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from miv import __version__
from miv.data.exemplars import ExemplarSet
from miv.data.kinds import KINDS
from miv.errors import MIVError
from miv.files.atomic import sha256_of
from miv.files.instances import InstanceKind
from miv.files.json import check_shape, json_text, read_json_object

TABLE, POOL_ARRAY, POOL_TABLE = "exemplars.parquet", "pool.npy", "pool.parquet"
NAME = "manifest.json"
FORMAT = "miv-exemplars"
VERSION = 2
_READ = (1, VERSION)
_NEW_IN_2: dict[str, Any] = {"references": None, "has_query_ids": False, "has_names": False}
_OPTIONAL: dict[str, Any] = {"has_weights": False, "splits": None, "image_steps": None}  # written only if known
_SHAPE = {
    **dict.fromkeys(("builder", "kind", "miv"), str),
    **dict.fromkeys(("instances", "exemplars", "bag_entries", "positives", "seed?", "witnesses?", "references?"), int),
    **dict.fromkeys(("has_classes", "has_groups", "has_weights", "has_query_ids", "has_names"), bool),
    **{"options": dict, "shape": [int], "splits?": [str], "image_steps?": [str]},
    "files": {"*": {"bytes": int, "sha256": str}},
}
BUILD_AGAIN = "The set is damaged. Build it again."


def counts_of(exemplars: ExemplarSet) -> dict[str, Any]:
    """The counts of a set that its manifest has."""
    witness, references = exemplars.witness, exemplars.reference_index
    return {
        "exemplars": len(exemplars),
        "bag_entries": len(exemplars.bag_index),
        "positives": int(exemplars.label.sum()),
        "witnesses": None if witness is None else int(witness.sum()),
        "references": None if references is None else len(references),
    }


@dataclass(frozen=True)
class Manifest:
    """The content of ``manifest.json``: origin, counts, size and hash of each file."""

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
    files: dict[str, dict[str, Any]]
    has_weights: bool = False
    splits: list[str] | None = None
    references: int | None = None
    has_query_ids: bool = False
    has_names: bool = False
    image_steps: list[str] | None = None
    miv: str = __version__

    @classmethod
    def describe(cls, exemplars: ExemplarSet, folder: Path, **origin: Any) -> "Manifest":
        """The manifest of a set whose files are in a folder."""
        pool = exemplars.pool
        paths = [folder / name for name in (TABLE, POOL_ARRAY, POOL_TABLE) if (folder / name).exists()]
        return cls(
            kind=pool.kind,
            instances=len(pool),
            shape=list(pool.values.shape[1:]),
            has_classes=pool.classes is not None,
            has_groups=exemplars.group is not None,
            has_weights=exemplars.weight is not None,
            files={path.name: {"bytes": path.stat().st_size, "sha256": sha256_of(path)} for path in paths},
            has_query_ids=exemplars.query_id is not None,
            has_names=pool.names is not None,
            image_steps=None if pool.image_steps is None else list(pool.image_steps),
            **counts_of(exemplars),
            **origin,
        )

    def write(self, folder: Path) -> None:
        """Write ``manifest.json`` into a folder."""
        document = {"format": FORMAT, "version": VERSION, **asdict(self)}
        for name, default in _OPTIONAL.items():
            if document[name] == default:
                del document[name]
        try:
            (folder / NAME).write_text(json_text(document) + "\n", encoding="utf-8")
        except (TypeError, ValueError) as error:
            raise MIVError(f"The options cannot become JSON: {error}. Expected plain values.") from error

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """Read and check ``manifest.json`` of a folder."""
        path = folder / NAME
        document = read_json_object(path, "Build the set again.")
        if document.get("format") != FORMAT:
            raise MIVError(f"{path} is not the manifest of a set: its format is not {FORMAT!r}.")
        version = document.get("version")
        if type(version) is not int or version not in _READ:
            raise MIVError(f"{path} has format version {version!r}; this miv reads 1 and 2. Build the set again.")
        document = _OPTIONAL | (_NEW_IN_2 if version == 1 else {}) | document
        names = [name.removesuffix("?") for name in _SHAPE]
        for name in names:
            if name not in document:
                raise MIVError(f"{path} has no {name!r}. {BUILD_AGAIN}")
        check_shape(document, _SHAPE, str(path), BUILD_AGAIN)
        if document["kind"] not in KINDS:
            raise MIVError(f"{path}: 'kind' is {document['kind'][:60]!r}. Expected one of {', '.join(KINDS)}.")
        return cls(**{name: document[name] for name in names})
