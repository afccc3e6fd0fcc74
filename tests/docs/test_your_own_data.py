"""Every file and command in docs/your-own-data.md, in its order, in one empty folder."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from miv.cli.app import app
from miv.data import ExemplarSet, load_splits

PAGE = Path(__file__).parents[2] / "docs" / "your-own-data.md"
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def run_command(block: str) -> None:
    """Run a block of shell; ``miv`` in this process, as starting six more would take most of the time."""
    if block.startswith("miv "):
        done = CliRunner().invoke(app, shlex.split(block)[1:])
        assert done.exit_code == 0, f"{block}\n{done.output}\n{done.exception}"
    else:
        python = f'python() {{ "{sys.executable}" "$@"; }}\n'
        subprocess.run(["bash", "-e", "-c", python + block], check=True)


@pytest.mark.skipif(shutil.which("bash") is None, reason="the commands of the page are for a Unix shell")
def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MIV_CACHE_DIR", str(tmp_path / "cache"))
    commands = []
    for language, name, content in BLOCK.findall(PAGE.read_text("utf-8")):
        if name:
            Path(name).write_text(content, "utf-8")
        elif language == "python":
            exec(content, {})
        elif language == "sh":
            run_command(content)
            commands.append(content)
    assert [command.split()[0] for command in commands] == ["python"] + ["miv"] * 9
    assert [command.split()[1] for command in commands[1:5]] == ["data", "data", "train", "evaluate"]
    assert Path("sheet.html").stat().st_size > 0
    sizes = {split: len(exemplars) for split, exemplars in load_splits("exemplars").items()}
    assert sizes == {"train": 800, "validation": 100, "test": 100}
    assert {split: len(found) for split, found in load_splits("claims").items()} == {
        "train": 1,
        "validation": 1,
        "test": 1,
    }
    assert load_splits("vectors")["train"].pool.values.shape == (5, 2)
    assert load_splits("faces")["train"].pool.values.shape == (6, 32, 32)
    assert load_splits("by_id")["train"].pool.values[0] == "The sky is blue."
    assert len(ExemplarSet.load("from_arrays")) == 4
