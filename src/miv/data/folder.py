"""A set as a folder: ``exemplars.parquet``, the pool as ``pool.npy`` or ``pool.parquet``, and ``manifest.json``.

Opening a set checks the manifest, the hashes of the Parquet files, all dtypes and indices, and the
size and header of ``pool.npy``. It does not read the values of ``pool.npy``, so that a large set opens
instantly; ``verify=True`` checks their hash and looks for NaN. Nothing is ever unpickled.
"""

from pathlib import Path
from typing import Any

import numpy as np

from miv import __version__
from miv.data.exemplars import ExemplarSet
from miv.data.kinds import KINDS
from miv.data.pool import InstancePool
from miv.data.splits import SPLITS
from miv.errors import MIVError, unknown_name
from miv.files.atomic import bring_back, readable_disk_errors, refuse_current_folder, sha256_of, whole_folder
from miv.files.instances import check_name
from miv.files.json import check_shape, json_text, read_json_object

_AGAIN = "Build the set again."
TABLE, POOL_ARRAY, POOL_TABLE, NAME = "exemplars.parquet", "pool.npy", "pool.parquet", "manifest.json"
FORMAT, VERSION = "miv-exemplars", 2
_SHAPE = {
    **{"builder": str, "options": dict, "seed?": int, "kind": str, "miv": str, "splits?": [str], "image_steps?": [str]},
    "files": {"*": {"bytes": int, "sha256": str}},
}


def save_set(exemplars: ExemplarSet, folder: Path, *, overwrite: bool, **origin: Any) -> None:
    """See ``ExemplarSet.save``."""
    refuse_to_destroy(folder, overwrite=overwrite)
    with whole_folder(folder) as temporary:
        _write_set(exemplars, temporary, origin)


def _write_set(exemplars: ExemplarSet, folder: Path, origin: dict[str, Any]) -> None:
    """Write the files of a set to an existing empty folder; ``origin`` are the first fields of its manifest."""
    from miv.data.set_tables import write_columns  # imported only here because it needs pyarrow

    pool, references = exemplars.pool, exemplars.reference_index
    pool.check_finite()
    table = {
        "query": exemplars.query.astype(np.int32),
        "bag": (exemplars.bag_ptr, exemplars.bag_index.astype(np.int32)),
        "label": exemplars.label,
        "witness": None if exemplars.witness is None else (exemplars.bag_ptr, exemplars.witness),
        "group": exemplars.group,
        "weight": exemplars.weight,
        "query_id": exemplars.query_id,
        "references": None if references is None else (exemplars.reference_ptr, references.astype(np.int32)),
    }
    write_columns(table, folder / TABLE)
    strings: dict[str, Any] = {"text": pool.values, "class": pool.classes, "name": pool.names}
    if KINDS[pool.kind].is_array:
        np.save(folder / POOL_ARRAY, strings.pop("text"), allow_pickle=False)
    if any(column is not None for column in strings.values()):
        write_columns(strings, folder / POOL_TABLE)
    paths = [folder / name for name in (TABLE, POOL_ARRAY, POOL_TABLE) if (folder / name).exists()]
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "miv": __version__,
        **origin,
        "kind": pool.kind,
        "image_steps": None if pool.image_steps is None else list(pool.image_steps),
        "files": {path.name: {"bytes": path.stat().st_size, "sha256": sha256_of(path)} for path in paths},
    }
    try:
        (folder / NAME).write_text(json_text(manifest) + "\n", encoding="utf-8")
    except (TypeError, ValueError) as error:
        raise MIVError(f"The options cannot become JSON: {error}. Expected plain values.") from error


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read and check ``manifest.json`` of a set: how it was made, and its files."""
    path = folder / NAME
    manifest = read_json_object(path, _AGAIN)
    if manifest.get("format") != FORMAT:
        raise MIVError(f"{path} is not the manifest of a set: its format is not {FORMAT!r}.")
    if manifest.get("version") not in range(1, VERSION + 1):
        raise MIVError(f"{path} has format version {manifest.get('version')!r}. Expected at most {VERSION}. {_AGAIN}")
    check_shape(manifest, _SHAPE, str(path), _AGAIN)
    if manifest["kind"] not in KINDS:
        raise MIVError(f"{path}: {unknown_name('kind of instance', manifest['kind'], KINDS)}")
    return manifest


def load_set(make: type[ExemplarSet], folder: Path, *, verify: bool = False) -> ExemplarSet:
    """Open and check a saved set; with ``verify``, also check every value of a mapped pool."""
    from miv.data.set_tables import read_columns  # imported only here because it needs pyarrow
    from miv.files.parquet import pa

    bring_back(folder)
    if not folder.is_dir():
        raise MIVError(f"There is no folder {folder}. Expected a folder written by `miv data` or ExemplarSet.save.")
    manifest = read_manifest(folder)
    is_array, files = KINDS[manifest["kind"]].is_array, manifest["files"]
    for name in sorted({TABLE, POOL_ARRAY if is_array else POOL_TABLE} | files.keys() & {POOL_TABLE}):
        _check_file(folder / name, files.get(name), content=verify or name != POOL_ARRAY)
    indices, text = pa.list_(pa.int32()), pa.string()
    numbers = {"query": pa.int32(), "bag": indices, "label": pa.int8(), "weight?": pa.float64(), "references?": indices}
    known = {**numbers, "witness?": pa.list_(pa.bool_()), "group?": text, "query_id?": text}
    table = read_columns(folder / TABLE, known)
    columns = {"text?": text, "class?": text, "name?": text}
    strings = read_columns(folder / POOL_TABLE, columns) if POOL_TABLE in files else {}
    values: Any = _map_array(folder / POOL_ARRAY) if is_array else strings.get("text")
    table["bag_ptr"], table["bag_index"] = table.pop("bag")
    table["reference_ptr"], table["reference_index"] = table.pop("references", (None, None))
    if "witness" in table:
        borders, table["witness"] = table["witness"]
        if not np.array_equal(borders, table["bag_ptr"]):
            row = int((borders != table["bag_ptr"]).argmax()) - 1
            raise MIVError(f"{folder / TABLE}, row {row}: 'witness' and 'bag' have different lengths.")
    try:
        names, steps = strings.get("name"), manifest.get("image_steps")
        pool = InstancePool(manifest["kind"], values, strings.get("class"), names, steps)
        if verify:
            pool.check_finite()
        return make(pool, **table)
    except MIVError as error:
        raise MIVError(f"{folder}: {error}") from error


def _check_file(path: Path, expected: dict[str, Any] | None, *, content: bool) -> None:
    if expected is None or not path.is_file():
        what = f"{path.with_name(NAME)} does not list {path.name}" if expected is None else f"{path} is missing"
        raise MIVError(f"{what}. {_AGAIN}")
    try:
        size = path.stat().st_size
        if size == expected["bytes"] and not (content and sha256_of(path) != expected["sha256"]):
            return
    except OSError as error:
        raise MIVError(f"Could not read {path}: {error.strerror or error}.") from error
    wrong = "does not match its hash in the manifest"
    if size != expected["bytes"]:
        wrong = f"has {size} bytes. Expected {expected['bytes']} from the manifest"
    raise MIVError(f"{path} {wrong}; the file is damaged or was replaced. {_AGAIN}")


def _map_array(path: Path) -> Any:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # numpy raises many types for damaged headers
        raise MIVError(f"{path} is not a NumPy array: {error}. {_AGAIN}") from error


def is_set(folder: Path) -> bool:
    """Whether a folder looks like a saved set."""
    bring_back(folder)
    return (folder / NAME).is_file()


def refuse_to_destroy(folder: Path, *, overwrite: bool, splits: tuple[str, ...] = ()) -> None:
    """Raise an error if the folder contains anything but a set, or a set without ``overwrite``."""
    check_name(folder)
    with readable_disk_errors(folder):
        bring_back(folder)
        if not folder.exists() and not folder.is_symlink():
            return
        if not folder.is_dir() or folder.is_symlink():
            raise MIVError(f"{folder} is not a folder. Expected a new name or a folder that contains a set.")
        if foreign := _foreign_files(folder, splits):
            raise MIVError(f"{folder} contains {foreign[0]!r}, which is not part of a set. Choose another folder.")
        if any(folder.iterdir()) and not overwrite:
            choices = "Choose another folder, or use --overwrite (overwrite=True in Python)."
            raise MIVError(f"{folder} already contains a set. {choices}")
        refuse_current_folder(folder)


def _foreign_files(folder: Path, splits: tuple[str, ...]) -> list[str]:
    foreign = []
    for entry in sorted(folder.iterdir()):
        if entry.is_dir() and not entry.is_symlink() and entry.name in splits:
            foreign += [f"{entry.name}/{name}" for name in _foreign_files(entry, ())]
        elif entry.name not in (NAME, TABLE, POOL_ARRAY, POOL_TABLE) or not entry.is_file():
            foreign.append(entry.name)
    return foreign


# A folder of splits: ``train``, ``validation`` and ``test``, each an independent set.


def save_splits(
    sets: dict[str, ExemplarSet],
    folder: Path | str,
    *,
    builder: str = "save_splits",
    options: dict[str, Any] | None = None,
    seed: int | None = None,
    overwrite: bool = False,
) -> None:
    """Write ``folder/<split>/`` for some of train, validation and test, all together; see ``ExemplarSet.save``."""
    if not sets:
        raise MIVError(f"There are no splits to save. Expected some of {', '.join(SPLITS)}.")
    for split in sets:
        if split not in SPLITS:
            raise unknown_name("split", split, SPLITS)
    folder = Path(folder)
    refuse_to_destroy(folder, overwrite=overwrite, splits=SPLITS)
    origin = {"builder": builder, "options": options or {}, "seed": seed, "splits": list(sets)}
    with whole_folder(folder) as temporary:
        for split, exemplars in sets.items():
            (temporary / split).mkdir()
            _write_set(exemplars, temporary / split, origin)


def load_splits(folder: Path | str, *, verify: bool = False) -> dict[str, ExemplarSet]:
    """Open the splits of a folder, in the order train, validation, test; all that were saved together must be there."""
    folder = Path(folder)
    sets = {split: ExemplarSet.load(folder / split, verify=verify) for split in _splits_in(folder)}
    saved = {name for split in sets for name in read_manifest(folder / split).get("splits") or []}
    if missing := [split for split in SPLITS if split in saved - sets.keys()]:
        whole = ", ".join(split for split in SPLITS if split in saved)
        again = f"and {', '.join(missing)} is missing. Copy the whole folder again, or build it again."
        raise MIVError(f"{folder} was saved with the splits {whole}, {again}")
    return sets


def load_split(folder: Path | str, split: str, *, verify: bool = False) -> ExemplarSet:
    """Open one split of a folder of splits; if the folder is itself a set, open that set."""
    folder = Path(folder)
    if is_set(folder):
        return ExemplarSet.load(folder, verify=verify)
    splits = _splits_in(folder)
    if split not in splits:
        raise unknown_name("split", split, splits)
    return ExemplarSet.load(folder / split, verify=verify)


def folders_beside(missing: Path) -> list[str]:
    """The sets and folders of splits in the same place, to suggest one of them."""
    try:
        return [str(path) for path in missing.parent.iterdir() if any(is_set(path / split) for split in ("", *SPLITS))]
    except (OSError, ValueError):  # not a place
        return []


def _splits_in(folder: Path) -> list[str]:
    bring_back(folder)
    splits = [split for split in SPLITS if (folder / split).is_dir()]
    if not splits and not folder.exists():
        if known := folders_beside(folder):
            raise unknown_name("folder", str(folder), known)
        raise MIVError(f"There is no folder {folder}. Expected one with the splits of a set.")
    if not splits:
        hint = "`miv data from-folder` builds them from one folder per class, `miv data from-table` from a table."
        if is_set(folder):
            hint = "It is a single set. Save one set per split, as save_splits does."
        raise MIVError(f"{folder} contains none of the folders {', '.join(SPLITS)}. {hint}")
    has_classes = any(path.is_dir() for split in splits for path in (folder / split).iterdir())
    if has_classes and not any(is_set(folder / split) for split in splits):
        raise MIVError(f"{folder} contains no sets. Build them: miv data from-folder {folder} --out {folder}-sets")
    return splits
