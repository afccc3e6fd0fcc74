"""A gallery whose writer is killed at any moment, or that is damaged, or that another process writes to."""

import json
import shutil
import signal
import subprocess
import sys
import zlib
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from miv import Gallery, MIVError, Verifier
from miv.cli.app import app
from miv.errors import MIVWarning
from miv.gallery import GalleryManifest
from tests.cli.running import run_command
from tests.files.killing import kill_at_change, names_in

CHANNELS = 4


def vectors(count: int, seed: int) -> Any:
    return np.random.default_rng(seed).normal(size=(count, CHANNELS)).astype(np.float32)


def small_gallery(folder: Path) -> Gallery:
    gallery = Gallery.create(folder, Verifier("cap_vema", channels=CHANNELS))
    gallery.add_many({"one": vectors(3, 1), "two": vectors(2, 2)})
    return gallery


def change(folder: Path) -> None:
    """All kinds of change: each must be there whole, or not at all."""
    gallery = Gallery.open(folder)
    gallery.add("three", vectors(2, 3))
    gallery.replace("one", vectors(1, 4))
    gallery.remove("two")
    gallery.compact()


STATES = [
    {"one": 3, "two": 2},
    {"one": 3, "two": 2, "three": 2},
    {"one": 1, "two": 2, "three": 2},
    {"one": 1, "three": 2},
]


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_a_kill_at_any_moment_leaves_a_state_before_or_after_a_change(tmp_path: Path, step: int) -> None:
    small_gallery(tmp_path / "start")
    seen = []
    for number in count(step, step):
        folder = tmp_path / f"killed-{number}"
        shutil.copytree(tmp_path / "start", folder)
        killed = kill_at_change(number, change, folder)
        gallery = Gallery.open(folder)
        found = {hit.name: hit.size for hit in gallery.search(vectors(1, 9)[0])}
        seen.append(STATES.index(found))
        if not killed:
            break
        gallery.add("four", vectors(2, 8))  # the next writer clears what was left
        assert len(gallery.search(vectors(2, 8)[0])) == len(found) + 1
        assert len(names_in(folder / "segments")) == gallery.info()["segments"]
    assert seen == sorted(seen)
    assert set(seen) == {0, 1, 2, 3} if step == 1 else len(set(seen)) > 1


SLOW_ADD = """
import sys, time
import numpy as np, torch
import miv
from miv.backbones.descriptors import Features

class Slow(torch.nn.Module):
    kind, channels = "text", 4
    def prepare(self, values):
        return torch.tensor([[float(ord(letter)) for letter in text[-4:].rjust(4)] for text in values])
    def forward(self, x):
        print(len(x), flush=True)
        time.sleep(float(sys.argv[2]))
        return x

miv.register_backbone("slow")(Slow)
gallery = miv.Gallery.open(sys.argv[1]) if sys.argv[3] == "open" else miv.Gallery.create(
    sys.argv[1], miv.Verifier("nearest", backbone="slow"))
for bag in range(gallery.info()["bags"], 30):
    gallery.add(f"bag {bag}", [f"text {number:04}" for number in range(100 * bag, 100 * bag + 100)])
print("done", gallery.info()["instances"], flush=True)
"""


@pytest.mark.slow
def test_embedding_goes_on_after_kill_9(tmp_path: Path) -> None:
    script, folder = tmp_path / "add.py", tmp_path / "gallery"
    script.write_text(SLOW_ADD)
    command = [sys.executable, str(script), str(folder)]
    with subprocess.Popen([*command, "0.2", "create"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(5):  # one bag at a time: the fifth comes after the fourth commit
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()
    kept = GalleryManifest.load(folder).instances
    assert 400 <= kept < 3000
    again = subprocess.run([*command, "0", "open"], capture_output=True, text=True, check=True).stdout.split("\n")
    assert again[-2] == "done 3000"
    assert sum(int(line) for line in again[:-2]) <= 128 * (30 - kept // 100)  # batches are padded


def damaged_documents() -> list[Any]:
    def changed(**changes: Any) -> Any:
        return lambda document: {**document, **changes}

    def of_segment(**changes: Any) -> Any:
        return lambda document: {**document, "segments": [{**document["segments"][0], **changes}]}

    return [
        changed(format="other"),
        changed(format_version=9),
        changed(segments=3),
        changed(surprise=1),
        changed(channels=10**30),
        changed(width=True),
        changed(per="page"),
        changed(removed=[2]),
        changed(removed=[1, 0]),
        changed(removed=[-1]),
        of_segment(name="../verifier"),
        of_segment(instances=-1),
        of_segment(instances=4),
        of_segment(bags=3),
        of_segment(bags=0),
        of_segment(members=6),
        of_segment(bytes=7),
        of_segment(checksums=""),
    ]


@pytest.mark.parametrize("damage", damaged_documents())
def test_a_damaged_manifest_is_an_error(tmp_path: Path, damage: Any) -> None:
    small_gallery(tmp_path / "gallery")
    path = tmp_path / "gallery" / "gallery.json"
    document = damage(json.loads(path.read_text()))
    for is_right in (False, True):
        if is_right:  # written by someone who knows how
            del document["checksum"]
            document["checksum"] = f"{zlib.crc32(json.dumps(document, sort_keys=True).encode()):08x}"
        path.write_text(json.dumps(document))
        with pytest.raises(MIVError, match="gallery"):
            Gallery.open(tmp_path / "gallery").search(vectors(1, 9)[0])


def segment_file(folder: Path) -> Path:
    [path] = (folder / "segments").iterdir()
    return path


def test_every_damage_of_a_file_is_noticed(tmp_path: Path) -> None:
    small_gallery(tmp_path / "gallery")
    path = segment_file(tmp_path / "gallery")
    whole, random = path.read_bytes(), np.random.default_rng(0)
    for number in range(60):
        content = bytearray(whole)
        if number % 3:
            content[random.integers(len(content))] ^= 1 << random.integers(8)
        else:
            content = content[: random.integers(len(content))]
        path.write_bytes(content)
        with pytest.raises(MIVError, match="miv gallery check"):
            Gallery.open(tmp_path / "gallery").search(vectors(1, 9)[0])
        assert Gallery.check(tmp_path / "gallery").problems
    path.write_bytes(whole)
    assert Gallery.check(tmp_path / "gallery").document() == {"bags": 2, "problems": [], "lost": [], "nameless": 0}


@pytest.mark.parametrize(
    ("array", "value"), [("sizes", 1 << 62), ("sizes", 0), ("members", 9), ("text_sizes", 9), ("texts", 0)]
)
def test_odd_numbers_with_the_right_checksum_are_refused(tmp_path: Path, array: str, value: int) -> None:
    gallery = small_gallery(tmp_path)
    [segment], path = gallery._store.snapshot.segments, segment_file(tmp_path)
    content, (start, _) = bytearray(path.read_bytes()), segment.borders[array]
    content[start : start + segment.views[array].itemsize] = np.array(value, segment.views[array].dtype).tobytes()
    path.write_bytes(content)
    manifest = gallery._store.manifest
    replace(manifest, segments=(replace(segment.entry, checksums=f"{zlib.crc32(content):08x}"),)).save(tmp_path)
    with pytest.raises(MIVError, match="miv gallery check"):
        _ = Gallery.open(tmp_path).names


def flipped(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def test_a_rebuilt_gallery_has_all_that_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("miv.gallery.files.BLOCK", 16)  # one instance
    folder, bags = tmp_path / "gallery", {name: vectors(3, seed) for seed, name in enumerate("abcd")}
    gallery = Gallery.create(folder, Verifier("cap_vema", channels=CHANNELS))
    gallery.add_many(bags)
    gallery.remove("d")
    query = vectors(1, 9)[0]
    expected = {hit.name: hit.probability for hit in gallery.search(query)}

    def rebuilt(name: str) -> tuple[str, ...]:
        check = Gallery.check(folder, rebuild=tmp_path / name)
        assert len(check.problems) == 1
        hits = Gallery.open(tmp_path / name).search(query)
        assert {hit.name: hit.probability for hit in hits} == pytest.approx(expected)
        return check.lost

    path, [segment] = segment_file(folder), gallery._store.snapshot.segments
    flipped(path, segment.borders["stored"][0] + 40)
    assert rebuilt("first") == ()  # computed again from the instances
    flipped(path, path.read_bytes().index(bags["b"][1].tobytes()))
    del expected["b"]
    assert rebuilt("second") == ("b",)
    path.unlink()
    assert Gallery.check(folder, rebuild=tmp_path / "none").nameless == 3
    assert len(Gallery.open(tmp_path / "none")) == 0


def test_replaced_and_removed_bags_stay_away_from_a_rebuilt_gallery(tmp_path: Path) -> None:
    gallery = small_gallery(tmp_path / "gallery")
    gallery.replace("one", vectors(1, 4))
    gallery.remove("two")
    flipped(max((tmp_path / "gallery" / "segments").iterdir(), key=lambda path: path.stat().st_size), 0)
    check = Gallery.check(tmp_path / "gallery", rebuild=tmp_path / "new")
    assert (check.bags, check.lost, len(check.problems)) == (1, (), 1)
    assert [(hit.name, hit.size) for hit in Gallery.open(tmp_path / "new").search(vectors(1, 9)[0])] == [("one", 1)]


def test_the_command_tells_what_is_damaged(tmp_path: Path) -> None:
    small_gallery(tmp_path / "gallery")
    assert "Whole bags: 2. Damaged bags: 0." in run_command("gallery", "check", str(tmp_path / "gallery"))
    segment_file(tmp_path / "gallery").unlink()
    done = CliRunner().invoke(app, ["gallery", "check", str(tmp_path / "gallery")])
    assert (done.exit_code, "is missing" in done.output, "Damaged bags: 2" in done.output) == (1, True, True)


def test_merging_is_not_part_of_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gallery = small_gallery(tmp_path / "gallery")

    def full(*_: object) -> None:
        raise MIVError("Could not write: No space left on device.") from OSError(28, "No space left on device")

    monkeypatch.setattr("miv.gallery.store._count_to_merge", full)
    with pytest.warns(MIVWarning, match="could not be merged"):
        gallery.add("three", vectors(2, 3))
    assert "three" in Gallery.open(tmp_path / "gallery")
