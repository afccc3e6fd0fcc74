"""The package works with the lowest and with the newest versions that ``pyproject.toml`` allows, and without pandas."""

import json
import os
import tomllib
import venv
from pathlib import Path

import pytest

from tests.cli.packing import ROOT, build_wheel, copy_of_source, run

STORY = Path(__file__).with_name("smoke_story.py")
# An open range of torch takes gigabytes of CUDA, and builds without CUDA are not in every index: both environments take
# the tested version unless this says otherwise ("2.6.0", or "" for any).
TORCH = os.environ.get("MIV_VERSIONS_TORCH", "2.13.0")


def lower_bounds() -> dict[str, str]:
    """The lowest allowed version of each library of ``miv[train]``."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["train"]]
    found = {name: bound for one in asked for name, bound in [one.split(">=")]}
    assert found.keys() >= {"numpy", "pyarrow", "torch"}
    return found


@pytest.mark.slow
@pytest.mark.parametrize("which", ["lowest", "newest"])
def test_a_set_is_built_trained_on_and_verified(which: str, tmp_path: Path) -> None:
    pins = {name: f"=={bound}" for name, bound in lower_bounds().items()} if which == "lowest" else {}
    if TORCH:
        pins["torch"] = f"=={TORCH}"
    (tmp_path / "pins.txt").write_text("".join(f"{name}{pin}\n" for name, pin in pins.items()))
    venv.create(tmp_path / "environment", with_pip=True)
    python = tmp_path / "environment" / ("Scripts" if os.name == "nt" else "bin") / "python"
    wheel = build_wheel(copy_of_source(tmp_path), tmp_path)
    run(python, "-m", "pip", "install", "--quiet", "--constraint", "pins.txt", f"{wheel}[train]", cwd=tmp_path)
    told = json.loads(run(python, STORY, tmp_path / "story", cwd=tmp_path)[0].splitlines()[-1])
    print(json.dumps(told))
    assert "pandas" not in told  # nothing may need it without saying so
    for name, pin in pins.items():
        assert told[name].split("+")[0].startswith(pin.removeprefix("==")), f"{name} {told[name]}, not {pin}"
