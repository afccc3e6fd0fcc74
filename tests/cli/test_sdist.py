"""The source distribution builds the wheel and has what its own tests need."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import miv
from tests.cli.packing import ROOT, build_wheel, copy_of_source, run

BUILD = "from setuptools import build_meta; build_meta.build_sdist('.')"


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that unpacking the source distribution gives."""
    folder = tmp_path_factory.mktemp("sdist")
    source = copy_of_source(folder)
    run(sys.executable, "-c", BUILD, cwd=source)
    file = source / f"miv-{miv.__version__}.tar.gz"
    assert file.stat().st_size <= 8_000_000
    with tarfile.open(file) as archive:
        archive.extractall(folder, filter="data")
    return folder / f"miv-{miv.__version__}"


@pytest.mark.slow
def test_it_holds_every_file_of_the_repository(unpacked: Path) -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a clone of the repository")
    lacking = [name for name in listed.stdout.splitlines() if not (unpacked / name).exists()]
    assert [name for name in lacking if not name.startswith(".")] == []  # workflows and settings of git


@pytest.mark.slow
def test_it_builds_the_wheel_and_its_tests_run(unpacked: Path, tmp_path: Path) -> None:
    assert build_wheel(unpacked, tmp_path).name == f"miv-{miv.__version__}-py3-none-any.whl"
    environment = {**os.environ, "PYTHONPATH": str(unpacked / "src")}
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/files", "tests/bags", "tests/test_runtime.py"]
    done = subprocess.run(
        [sys.executable, *words], cwd=unpacked, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
