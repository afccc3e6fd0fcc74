"""The commit of the code, for the record of a result."""

import subprocess
from pathlib import Path

import pytest

from miv.runtime import source_commit


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


def test_a_package_that_is_only_inside_a_clone_has_no_commit(package: Path, tmp_path: Path) -> None:
    installed = package / "environment" / "two"
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text("")
    assert source_commit(installed) is None
    assert source_commit(tmp_path) is None


def test_without_git_it_is_not_known(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    source_commit.cache_clear()
    assert source_commit(package) is None
