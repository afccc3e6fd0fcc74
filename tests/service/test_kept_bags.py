"""Kept bags: their limits, several processes, and what a kill leaves."""

import multiprocessing
import os
import stat
import time
from contextlib import suppress
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from miv.service.errors import RefusedRequest
from miv.service.storage import BagStore
from tests.files.killing import kill_at_change, names_in
from tests.service.serving import vectors


def files_in(folder: Path) -> list[str]:
    return [name for name in names_in(folder) if name != "kept.lock"]


def test_a_bag_is_found_again_by_another_process_and_can_be_removed(tmp_path: Path) -> None:
    kept = BagStore(tmp_path / "kept").keep(vectors(3, 0), "abc", "miv/digits")
    again = BagStore(tmp_path / "kept")
    assert np.array_equal(again.features(kept.id, "abc"), vectors(3, 0))
    assert again.find(kept.id) == kept
    assert stat.S_IMODE((tmp_path / "kept").stat().st_mode) == 0o700  # only its user can read the folder
    document = kept.document()
    assert document["size"] == 3
    assert document["created"] < document["expires"]
    again.remove(kept.id)
    assert files_in(tmp_path / "kept") == []
    for ask in (again.find, again.remove):
        with pytest.raises(RefusedRequest, match=r"There is no kept bag .*Keep it again"):
            ask(kept.id)


@given(name=st.one_of(st.text(), st.sampled_from(["../secret", "kept.lock", "a" * 32 + "/..", "A" * 32, "0" * 31])))
def test_a_name_from_outside_is_never_a_path(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    folder = tmp_path_factory.getbasetemp() / "names"
    bags = BagStore(folder / "kept")
    (folder / "secret.safetensors").touch()
    for ask in (bags.find, bags.remove):
        with pytest.raises(RefusedRequest):
            ask(name)
    assert (folder / "secret.safetensors").exists()


def test_an_old_bag_is_gone_and_its_file_too(tmp_path: Path) -> None:
    bags = BagStore(tmp_path, days=2)
    old, new = bags.keep(vectors(3, 0), "abc", "m"), bags.keep(vectors(4, 0), "abc", "m")
    three_days_ago = time.time() - 3 * 86_400
    os.utime(tmp_path / f"{old.id}.safetensors", (three_days_ago, three_days_ago))
    with pytest.raises(RefusedRequest):
        bags.find(old.id)
    bags.tidy()
    assert files_in(tmp_path) == [f"{new.id}.safetensors"]


@pytest.mark.parametrize("limit", [{"most_bags": 3}, {"most_bytes": 4_000}])
def test_the_oldest_bags_make_room(tmp_path: Path, limit: dict[str, int]) -> None:
    bags = BagStore(tmp_path, **limit)
    kept = []
    for number in range(8):
        kept.append(bags.keep(vectors(60, number), "abc", "m"))  # about 1,200 bytes
        os.utime(tmp_path / f"{kept[-1].id}.safetensors", (time.time() - 100 + number,) * 2)
    if "most_bytes" in limit:
        with pytest.raises(RefusedRequest, match="--keep-bytes"):
            bags.keep(vectors(1000, 0), "abc", "m")  # never fits
    assert files_in(tmp_path) == sorted(f"{one.id}.safetensors" for one in kept[-3:])


def test_a_damaged_file_counts_as_gone(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for number in range(24):
        bags = BagStore(tmp_path)
        kept = bags.keep(vectors(3, 0), "abc", "miv/digits")
        path = tmp_path / f"{kept.id}.safetensors"
        content = bytearray(path.read_bytes())
        if number % 3:
            content[random.integers(len(content))] ^= 1 << random.integers(8)
        else:
            content = content[: random.integers(len(content))]
        path.write_bytes(content)
        with pytest.raises(RefusedRequest):
            bags.features(kept.id, "abc")
        assert files_in(tmp_path) == []


def change(folder: Path) -> None:
    bags = BagStore(folder, most_bags=2)
    bags.keep(vectors(5, 1), "abc", "m")
    bags.keep(vectors(5, 2), "abc", "m")


def test_a_kill_at_any_moment_leaves_whole_bags(tmp_path: Path) -> None:
    for number in count(1):
        folder = tmp_path / str(number)
        before = BagStore(folder).keep(vectors(5, 0), "abc", "m")
        os.utime(folder / f"{before.id}.safetensors", (time.time() - 100,) * 2)
        killed = kill_at_change(number, change, folder)
        bags = BagStore(folder, most_bags=2)
        last = bags.keep(vectors(6, 0), "abc", "m")  # the lock of a killed process is free, and what it left is cleared
        names = files_in(folder)
        assert len(names) <= 2
        assert f"{last.id}.safetensors" in names
        assert {len(bags.find(name.removesuffix(".safetensors")).features) for name in names} <= {5, 6}
        if not killed:
            break
    assert number > 2


def keep_many(folder: Path, seed: int) -> None:
    bags = BagStore(folder, most_bytes=20_000, most_bags=10)
    for number in range(8):
        kept = bags.keep(vectors(50, 1000 * seed + number), "abc", "m")
        with suppress(RefusedRequest):  # the others kept ten newer ones meanwhile
            assert np.array_equal(bags.features(kept.id, "abc"), vectors(50, 1000 * seed + number))


def test_the_limits_hold_while_several_processes_keep_bags(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=keep_many, args=(tmp_path, seed)) for seed in range(3)]
    for process in processes:
        process.start()
    most = 0
    while any(process.is_alive() for process in processes):
        most = max(most, len(list(tmp_path.glob("[0-9a-f]*.safetensors"))))
        time.sleep(0.002)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert most <= 10
    assert len(files_in(tmp_path)) == 10


def test_trouble_with_the_disk_is_503_and_does_not_name_the_folder(tmp_path: Path) -> None:
    bags = BagStore(tmp_path / "kept")
    (tmp_path / "kept").rmdir()
    (tmp_path / "kept").touch()
    with pytest.raises(RefusedRequest, match=r"could not be written on the server: .*Try again later") as caught:
        bags.keep(vectors(3, 0), "abc", "m")
    assert caught.value.status == 503
    assert str(tmp_path) not in str(caught.value)
