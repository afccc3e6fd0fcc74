import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from miv import ExemplarSet, InstancePool, MIVError
from miv.errors import MIVWarning
from miv.runtime import Progress, SilentProgress
from miv.tasks import TASKS, build_once, create_task, list_tasks, register_task, task_options


@dataclass(frozen=True)
class Coins:
    """Tosses of a coin.

    Args:
        tosses: how many tosses a bag holds,
            at most nine.
        draw: how to draw.
        seed: start of the random numbers.
        round: which draw of the data.

    Nothing below this line is an option:
        neither: this.
    """

    tosses: int = 5
    draw: Literal["fair", "loaded"] = "fair"
    seed: int = 0
    round: int = 0

    def build(self, progress: Progress) -> dict[str, ExemplarSet]:
        pool = InstancePool("text", np.array(["heads", "tails"], dtype=object))
        random = np.random.default_rng([self.seed, self.round, 0])
        with progress.step("Tossing", total=self.tosses) as advance:
            bag = random.integers(0, 2, self.tosses).tolist()
            advance(self.tosses)
        return {"train": ExemplarSet.from_lists(pool, [0], [bag], [int(0 in bag)])}


@pytest.fixture(autouse=True)
def _coins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TASKS, "_entries", dict(TASKS._entries))
    register_task("coins")(Coins)


def test_a_registered_task_is_found_described_and_built() -> None:
    assert "coins" in list_tasks()
    assert TASKS["coins"].summary == "Tosses of a coin"
    options = {option.name: option for option in task_options("coins")}
    assert list(options) == ["tosses", "draw", "seed", "round"]
    assert options["tosses"].help == "how many tosses a bag holds, at most nine."
    assert (options["tosses"].type, options["tosses"].default) == (int, 5)
    assert options["draw"].choices == ("fair", "loaded")
    assert options["tosses"].choices == ()
    task = create_task("coins", tosses=3)
    assert task.build(SilentProgress())["train"].bag_sizes.tolist() == [3]


def test_a_wrong_name_option_or_word_suggests_the_nearest() -> None:
    with pytest.raises(MIVError, match=r"no task 'coin'. Did you mean 'coins'"):
        create_task("coin")
    with pytest.raises(MIVError, match=r"no option of coins 'toses'. Did you mean 'tosses'"):
        create_task("coins", toses=3)
    with pytest.raises(MIVError, match=r"no draw of coins 'loded'. Did you mean 'loaded'"):
        create_task("coins", draw="loded")


def test_an_option_needs_its_line() -> None:
    @dataclass(frozen=True)
    class Undocumented:
        """Something."""

        seed: int = 0

    register_task("undocumented")(Undocumented)
    with pytest.raises(TypeError, match=r"'seed' of Undocumented needs a line"):
        create_task("undocumented")


@dataclass(frozen=True)
class Letters:
    """Letters of a file.

    Args:
        raw: the folder.
        seed: start of the random numbers.
        round: which draw of the data.
    """

    raw: Path = Path("data")
    seed: int = 0
    round: int = 0

    def build(self, progress: Progress) -> dict[str, ExemplarSet]:
        """Where there is no file, it is fetched."""
        if not (self.raw / "letters.txt").exists():
            self.raw.mkdir(exist_ok=True)
            (self.raw / "letters.txt").write_text("fetched")
        pool = InstancePool("text", np.array([*(self.raw / "letters.txt").read_text()], dtype=object))
        return {"train": ExemplarSet.from_lists(pool, [0], [[1]], [0])}


def test_sets_are_built_again_when_raw_files_have_changed(tmp_path: Path) -> None:
    register_task("letters")(Letters)
    raw = tmp_path / "raw"

    def letters() -> str:
        sets = build_once("letters", {"raw": raw}, tmp_path / "built", SilentProgress())
        return "".join(sets["train"].pool.values)

    assert letters() == letters() == "fetched"
    assert len(list((tmp_path / "built").glob("letters-*"))) == 1  # what the task fetched does not make it stale
    (raw / "letters.txt").write_text("changed")
    assert letters() == "changed"


# Sets in the cache: checked when they are opened, and built again if they are damaged.

SMALL: dict[str, Any] = {"writers": 12, "held_out_writers": 6, "copies": 2}


def digits(folder: Path) -> dict[str, str]:
    sets = build_once("digits-twin", SMALL, folder, SilentProgress())
    return {split: exemplars.fingerprint for split, exemplars in sets.items()}


def zero(array: Path) -> None:
    whole = array.read_bytes()
    array.write_bytes(whole[:1000] + bytes(5000) + whole[6000:])


def write_instead(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("?")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut array": lambda built: (built / "train" / "pool.npy").write_bytes(b"half"),
    "zeros": lambda built: zero(built / "train" / "pool.npy"),
    "cut table": lambda built: (built / "test" / "exemplars.parquet").write_bytes(b"PAR1"),
    "no manifest": lambda built: (built / "validation" / "manifest.json").unlink(),
    "no test": lambda built: shutil.rmtree(built / "test"),
    "a file instead": write_instead,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_set_is_built_again(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    first = digits(tmp_path)
    damage(next(tmp_path.glob("digits-twin-*")))
    with pytest.warns(MIVWarning, match="damaged.*built again"):
        assert digits(tmp_path) == first
    assert digits(tmp_path) == first


def test_sets_in_the_cache_are_not_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = digits(tmp_path)

    def built_again(*_: object) -> dict[str, ExemplarSet]:
        raise AssertionError("built again")

    monkeypatch.setattr("miv.tasks.digits_twin.SyntheticDigits.build", built_again)
    assert digits(tmp_path) == first
