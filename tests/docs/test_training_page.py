"""The commands of docs/training.md, as a user runs them."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from miv.training.config import TrainingConfig

PAGE = (Path(__file__).parents[2] / "docs" / "training.md").read_text("utf-8")


def test_the_commands_and_the_example_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)[0]
    miv = f'miv() {{ "{sys.executable}" -m miv "$@"; }}\n'
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    environment.pop("MIV_CACHE_DIR", None)  # a reader has not set it
    done = subprocess.run(
        ["bash", "-e", "-c", miv + commands], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "runs/dba" in done.stdout
    example = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)[0]
    monkeypatch.chdir(tmp_path)
    exec(example, {})
    assert re.match(r"(Yes|No): probability \d\.\d+, threshold 0\.500\.\nBag of \d+, ", capsys.readouterr().out)


def test_the_settings_of_the_page_are_settings() -> None:
    example = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)[0]
    assert TrainingConfig().changed(tomllib.loads(example)).pooling == "cap_vema"
