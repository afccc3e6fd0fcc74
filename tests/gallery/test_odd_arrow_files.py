"""Arrow files of a gallery that another program wrote: refused before they take memory or end in a traceback."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from miv import Gallery, MIVError, Verifier

pa = pytest.importorskip("pyarrow")
CHANNELS = 4
ROWS = 1 << 20


def gallery_in(folder: Path) -> None:
    gallery = Gallery.create(folder, Verifier("cap_vema", channels=CHANNELS))
    gallery.add_many({"one": np.eye(3, CHANNELS), "two": np.ones((2, CHANNELS))})
    gallery.remove("two")


def rewrite(folder: Path, pattern: str, change: Any, compression: str | None = None) -> Path:
    """Change the only record batch of a file, and list its new size."""
    [path] = folder.glob(pattern)
    with pa.ipc.open_file(path) as file:
        batch = file.get_batch(0)
        changed = pa.record_batch(change(batch), schema=file.schema)
        options = pa.ipc.IpcWriteOptions(compression=compression)
        with pa.OSFile(str(path) + ".new", "wb") as out, pa.ipc.new_file(out, file.schema, options=options) as writer:
            writer.write_batch(changed)
    old, new = path.stat().st_size, Path(str(path) + ".new").replace(path).stat().st_size
    manifest = folder / "gallery.json"
    document = json.loads(manifest.read_text())
    if path.name.startswith("removed"):
        document["removed"] |= {"bytes": new, "checksum": ""}
    else:
        assert document["segments"][0]["bytes"][path.name] == old
        document["segments"][0]["bytes"][path.name] = new
        document["segments"][0]["checksums"] = {}
    manifest.write_text(json.dumps(document))
    return path


def zeros(batch: Any) -> list[Any]:
    rows = pa.array(np.zeros(ROWS * batch.column(0).type.list_size, np.float32))
    return [pa.FixedSizeListArray.from_arrays(rows, batch.column(0).type.list_size)]


def test_a_compressed_file_is_refused_before_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gallery_in(tmp_path)
    path = rewrite(tmp_path, "segments/*/kept.arrow", zeros, "zstd")
    assert path.stat().st_size < 10_000
    unpacked: list[str] = []
    read = pa.ipc.read_record_batch

    def noted(message: Any, schema: Any) -> Any:
        unpacked.extend(schema.names)
        return read(message, schema)

    monkeypatch.setattr(pa.ipc, "read_record_batch", noted)
    with pytest.raises(MIVError, match="it is compressed"):
        Gallery.open(tmp_path)
    assert "features" in unpacked
    assert "kept" not in unpacked


def without(column: int, cells: Any) -> Any:
    """A change that empties some cells of a column."""

    def change(batch: Any) -> list[Any]:
        old = batch.column(column)
        new = pa.array(cells(old.to_pylist()), old.type)
        return [new if number == column else one for number, one in enumerate(batch.columns)]

    return change


@pytest.mark.parametrize(
    ("pattern", "change"),
    [
        ("segments/*/bags.arrow", without(0, lambda names: [None, *names[1:]])),
        ("segments/*/bags.arrow", without(1, lambda members: [[None, *members[0][1:]], *members[1:]])),
        ("segments/*/bags.arrow", without(1, lambda members: [None, *members[1:]])),
        ("segments/*/bags.arrow", without(2, lambda names: [None, *names[1:]])),
        ("segments/*/instances.arrow", without(1, lambda rows: [None, *rows[1:]])),
        ("removed-*.arrow", without(0, lambda bags: [None, *bags[1:]])),
    ],
)
def test_empty_cells_are_an_error(tmp_path: Path, pattern: str, change: Any) -> None:
    gallery_in(tmp_path)
    rewrite(tmp_path, pattern, change)
    with pytest.raises(MIVError, match="empty cells"):
        Gallery.open(tmp_path)
