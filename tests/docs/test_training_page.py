"""The commands of docs/training.md, as a user runs them."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from miv.training.config import TrainingConfig

PAGE = (Path(__file__).parents[2] / "docs" / "training.md").read_text("utf-8")


def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    commands = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)[0]
    miv = f'miv() {{ "{sys.executable}" -m miv "$@"; }}\n'
    environment = {**os.environ, "MIV_CACHE_DIR": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        ["bash", "-e", "-c", miv + commands], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "runs/dba" in done.stdout


def test_the_settings_of_the_page_are_settings() -> None:
    example = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)[0]
    assert TrainingConfig().changed(tomllib.loads(example)).pooling == "cap_vema"
