"""The share of the cores of each of several processes."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from miv import runtime
from miv.reproduction.cells import source_commit
from miv.runtime import RichProgress, Terminated, aligned_table, raising_on_terminate


@pytest.mark.parametrize(("units", "shown"), [([2, 1], "3/3"), ([], "1/1")])
def test_a_step_of_unknown_length_ends_with_its_count(
    capsys: pytest.CaptureFixture[str], units: list[int], shown: str
) -> None:
    with RichProgress().step("Reading exemplars") as advance:
        for count in units:
            advance(count)
    said = capsys.readouterr().err
    assert shown in said
    assert "?" not in said


# The share of the cores of each of several processes.


@pytest.mark.parametrize(
    ("allowed", "processes", "threads"),
    [("", 2, 4), ("3", 2, 3), ("6", 2, 4), ("1", 1, 1), ("0", 2, 4), ("2,1", 2, 4), ("", 20, 1)],
)
def test_no_process_has_more_threads_than_are_allowed(
    allowed: str, processes: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "available_cores", lambda: 8)
    monkeypatch.setenv("OMP_NUM_THREADS", allowed)
    assert runtime.threads_of_each(processes) == threads


# The commit of the code, for the record of a result.


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", str(folder), *who, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package in a clone."""
    folder = tmp_path / "clone" / "src" / "one"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "Start")
    return folder


def test_the_commit_and_whether_the_code_differs_from_it(package: Path) -> None:
    commit = git(package, "rev-parse", "HEAD")
    (package.parents[1] / "notes.txt").write_text("not of the package")
    assert source_commit(package) == {"commit": commit, "changed": False}
    (package / "__init__.py").write_text("x = 1")
    source_commit.cache_clear()
    assert source_commit(package) == {"commit": commit, "changed": True}


# SIGTERM as an exception.


class Swallowing:
    """Python drops what is raised while it frees an object."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_swallowed_stop_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "REPEAT_SECONDS", 0.0)
    with raising_on_terminate():
        Swallowing()
        with pytest.raises(Terminated):
            os.kill(os.getpid(), signal.SIGTERM)


def test_a_repeat_within_seconds_is_ignored() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with raising_on_terminate():
        with pytest.raises(Terminated):
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)  # as `timeout` sends it, while blocks clean up
    assert signal.getsignal(signal.SIGTERM) is before


# A table for people is plain text: whole, without colour, whatever it is printed to.


def test_a_cell_is_shown_as_it_is_however_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("FORCE_COLOR", "1")
    cells = ["[bold]not markup[/bold]", ":smile:", "x" * 300, "runs/a\tb"]
    headings, _, row = aligned_table(list("abcd"), [cells]).splitlines()
    assert headings.split() == list("abcd")
    assert row.split() == ["[bold]not", "markup[/bold]", ":smile:", "x" * 300, "runs/a", "b"]
