"""Every file and command in docs/your-own-data.md, in its order, in one empty folder."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import miv
from miv.exemplars import ExemplarSet, load_splits

PAGE = Path(__file__).parents[2] / "docs" / "your-own-data.md"
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def environment(folder: Path) -> dict[str, str]:
    """An environment in which ``miv`` and ``python`` are the ones under test."""
    commands = {"miv": "-c 'from miv.cli import main; main()'", "python": ""}
    folder.mkdir()
    for name, arguments in commands.items():
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        (folder / name).chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(Path(miv.__file__).parents[1])}


@pytest.mark.skipif(shutil.which("bash") is None, reason="the commands of the page are for a Unix shell")
def test_the_page_runs(tmp_path: Path) -> None:
    where = tmp_path / "here"
    where.mkdir()
    env = environment(tmp_path / "commands")
    ran = []
    for language, name, content in BLOCK.findall(PAGE.read_text("utf-8")):
        if name:
            (where / name).write_text(content, "utf-8")
        elif language in {"sh", "python"}:
            program = ["bash", "-e", "-c"] if language == "sh" else [sys.executable, "-c"]
            done = subprocess.run([*program, content], cwd=where, env=env, capture_output=True, text=True)
            assert done.returncode == 0, f"{content}\n{done.stderr}"
            ran.append(content)
    miv_commands = [command for command in ran if command.startswith("miv ")]
    assert len(miv_commands) == 6
    assert "miv data inspect" in miv_commands[1]
    assert (where / "sheet.html").stat().st_size > 0
    sizes = {split: len(exemplars) for split, exemplars in load_splits(where / "exemplars").items()}
    assert sizes == {"train": 800, "validation": 100, "test": 100}
    assert {split: len(s) for split, s in load_splits(where / "claims").items()} == {"train": 1, "test": 1}
    assert load_splits(where / "vectors")["train"].pool.values.shape == (3, 2)
    assert load_splits(where / "faces")["train"].pool.values.shape == (6, 32, 32)
    assert load_splits(where / "by_id")["train"].pool.values[0] == "The sky is blue."
    assert len(ExemplarSet.load(where / "from_arrays")) == 4
