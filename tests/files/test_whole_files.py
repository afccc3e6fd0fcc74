"""Temporary names that nobody else has, and overwriting that survives a kill at any moment."""

import errno
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from safetensors import SafetensorError

from miv import ExemplarSet, MIVError
from miv.data import load_split, load_splits, save_splits
from miv.files.atomic import remove_unfinished, whole_file, whole_folder
from tests.data.example_sets import example_set
from tests.files.killing import kill_at_change, names_in

ORIGIN: dict[str, Any] = {"builder": "test", "options": {}, "seed": None}


def test_two_writers_of_one_file_do_not_share_a_temporary_name(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with whole_file(path) as one, whole_file(path) as other:  # as two containers with the same process number
        assert one != other
        one.write_text("one")
        other.write_text("other")
    assert path.read_text() == "one"
    assert names_in(tmp_path) == ["file"]


def test_threads_write_one_file_whole(tmp_path: Path) -> None:
    def write(number: int) -> None:
        with whole_file(tmp_path / "file") as temporary, temporary.open("w") as file:
            for _ in range(50):
                file.write(str(number) * 1000)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, [1, 2, 3, 4, 5, 6, 7, 8] * 5))
    assert len(set((tmp_path / "file").read_text())) == 1
    assert names_in(tmp_path) == ["file"]


def test_a_planted_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "treasure").write_text("gold")
    (tmp_path / f".file.{os.getpid()}.part").symlink_to(tmp_path / "treasure")
    with whole_file(tmp_path / "file") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "treasure").read_text() == "gold"
    assert (tmp_path / "file").read_text() == "new"


@pytest.mark.parametrize(("umask", "file_mode", "folder_mode"), [(0o022, 0o644, 0o755), (0o077, 0o600, 0o700)])
def test_what_is_written_has_the_modes_of_the_umask(
    tmp_path: Path, umask: int, file_mode: int, folder_mode: int
) -> None:
    before = os.umask(umask)
    try:
        with whole_file(tmp_path / "file") as temporary:
            temporary.write_text("new")
        with whole_folder(tmp_path / "folder") as temporary:
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == file_mode
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == folder_mode


def test_a_set_overwritten_and_killed_at_any_rename_is_still_a_set(tmp_path: Path) -> None:
    def overwrite() -> None:
        example_set("grey").save(tmp_path / "set", **ORIGIN, overwrite=True)

    kinds = []
    for number in count(1):
        example_set("text").save(tmp_path / "set", **ORIGIN, overwrite=True)
        killed = kill_at_change(number, overwrite)
        kinds.append(ExemplarSet.load(tmp_path / "set", verify=True).pool.kind)
        if not killed:
            break
    assert kinds[-1] == "image"
    assert len(kinds) >= 3


def test_splits_moved_aside_come_back_however_they_are_opened(tmp_path: Path) -> None:
    folder = tmp_path / "splits"

    def overwrite() -> None:
        save_splits({"train": example_set("grey")}, folder, **ORIGIN, overwrite=True)

    uses: list[Callable[[], object]] = [lambda: load_splits(folder), lambda: load_split(folder, "train"), overwrite]
    for use in uses:
        save_splits({"train": example_set("text")}, folder, **ORIGIN, overwrite=True)
        assert kill_at_change(2, overwrite)
        assert not folder.exists()
        use()
        assert folder.is_dir()


def test_a_folder_that_someone_removed_does_not_come_back(tmp_path: Path) -> None:
    example_set("text").save(tmp_path / "set", **ORIGIN)
    overwrite = lambda: example_set("grey").save(tmp_path / "set", **ORIGIN, overwrite=True)  # noqa: E731
    assert kill_at_change(3, overwrite)  # both renames are done, the older set is not yet removed
    assert any(name.endswith(".old") for name in names_in(tmp_path))
    (tmp_path / "set").rename(tmp_path / "elsewhere")
    with pytest.raises(MIVError, match="There is no folder"):
        ExemplarSet.load(tmp_path / "set")


def test_only_names_that_we_made_are_removed(tmp_path: Path) -> None:
    theirs = [".notes.part", ".film.mkv.part", ".report.old", ".saving-money", ".a.123.part", ".miv-0.part"]
    for name in theirs:
        (tmp_path / name).write_text("mine")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / f".x.miv-{'0' * 16}.part").write_text("not below the run")
    run = tmp_path / "run"
    (run / "deep").mkdir(parents=True)
    for name in theirs:
        (run / "deep" / name).mkdir()
    (run / "link").symlink_to(tmp_path / "outside")
    (run / "deep" / f".x.json.miv-{'a' * 16}.part").write_text("half")
    (run / f".verifier.miv-{'b' * 16}.part").mkdir()
    remove_unfinished(run)
    assert names_in(run / "deep") == sorted(theirs)
    assert names_in(run) == ["deep", "link"]
    assert names_in(tmp_path / "outside") == [f".x.miv-{'0' * 16}.part"]


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
        OSError("192000 requested and 179168 written"),  # NumPy
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
    ],
)
def test_a_full_disk_is_named_and_the_older_file_stays(tmp_path: Path, error: Exception) -> None:
    def write() -> None:
        with whole_file(tmp_path / "a") as temporary:
            temporary.write_text("half")
            raise error

    (tmp_path / "a").write_text("older")
    with pytest.raises(MIVError, match=r"(disk is full|No space left).*Nothing is changed"):
        write()
    assert [path.read_text() for path in tmp_path.iterdir()] == ["older"]
