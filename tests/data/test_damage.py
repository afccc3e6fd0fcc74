"""Fuzzing of the reader: whatever happens to the files, a set opens as it was or a MIVError says why not."""

import json
import tempfile
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from miv import ExemplarSet, MIVError
from tests.data.example_sets import KINDS, example_set

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@cache
def saved(kind: str) -> tuple[dict[str, bytes], str]:
    """The files of an example set, and its fingerprint."""
    with tempfile.TemporaryDirectory() as folder:
        example_set(kind).save(folder, builder="test", options={}, seed=0)
        files = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
    return files, example_set(kind).fingerprint


@st.composite
def damages(draw: Any, size: int) -> Any:
    """Say how to damage a file of some size: cut it, change a byte, put bytes in, leave bytes out."""
    place = draw(st.integers(0, size - 1))
    kind = draw(st.sampled_from(["cut", "change", "insert", "remove"]))
    return kind, place, draw(st.binary(min_size=1, max_size=4))


def damaged(data: bytes, damage: tuple[str, int, bytes]) -> bytes:
    kind, place, other = damage
    tail = {
        "cut": b"",
        "change": data[place + len(other) :],
        "insert": data[place:],
        "remove": data[place + 1 :],
    }
    return data[:place] + (other if kind in ("change", "insert") else b"") + tail[kind]


def open_files(files: dict[str, bytes], *, verify: bool) -> ExemplarSet | None:
    """Open these files as a set; ``None`` where it is refused. Anything but a MIVError comes out."""
    with tempfile.TemporaryDirectory() as folder:
        for name, data in files.items():
            (Path(folder) / name).write_bytes(data)
        try:
            exemplars = ExemplarSet.load(folder, verify=verify)
        except MIVError:
            return None
        assert exemplars.fingerprint  # reads every value while the files are still there
        return exemplars


@given(st.sampled_from(KINDS), st.data())
@settings(max_examples=300)
def test_damage_is_noticed(kind: str, data: st.DataObject) -> None:
    files, fingerprint = saved(kind)
    name = data.draw(st.sampled_from(sorted(files)))
    broken = damaged(files[name], data.draw(damages(len(files[name]))))
    exemplars = open_files({**files, name: broken}, verify=True)
    assert exemplars is None or exemplars.fingerprint == fingerprint


@given(st.sampled_from(KINDS), st.data(), st.booleans())
@settings(max_examples=300)
def test_damage_behind_right_hashes_is_survived(kind: str, data: st.DataObject, verify: bool) -> None:
    files, _ = saved(kind)
    manifest = json.loads(files["manifest.json"])
    name = data.draw(st.sampled_from(sorted(manifest["files"])))
    broken = files[name]
    for damage in data.draw(st.lists(damages(len(broken)), min_size=1, max_size=3)):
        broken = damaged(broken, damage)
    manifest["files"][name] = {"bytes": len(broken), "sha256": sha256(broken).hexdigest()}
    open_files({**files, name: broken, "manifest.json": json.dumps(manifest).encode()}, verify=verify)


@given(st.sampled_from(KINDS), st.data(), JSON)
@settings(max_examples=200)
def test_a_wrong_manifest_is_refused_or_changes_nothing(kind: str, data: st.DataObject, other: Any) -> None:
    files, fingerprint = saved(kind)
    manifest = json.loads(files["manifest.json"])
    key = data.draw(st.sampled_from(sorted(manifest)))
    if data.draw(st.booleans()):
        manifest[key] = other
    else:
        del manifest[key]
    exemplars = open_files({**files, "manifest.json": json.dumps(manifest).encode()}, verify=True)
    # Only what a set has beside it may be left out: its groups, its classes, its witnesses.
    if key not in ("has_groups", "has_classes", "witnesses"):
        assert exemplars is None or exemplars.fingerprint == fingerprint


@given(st.dictionaries(st.sampled_from(["manifest.json", "exemplars.parquet", "pool.npy"]), st.binary(max_size=200)))
@settings(max_examples=50)
def test_a_folder_of_noise_is_refused(files: dict[str, bytes]) -> None:
    assert open_files(files, verify=False) is None
