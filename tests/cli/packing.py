"""Build the package from a copy of its source, and run commands that see nothing of this checkout."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
_LEFT_OUT = ("__pycache__", "*.egg-info", ".*", "build", "dist", "runs", "demo", "_build", "api")


def run(*command: str | Path, cwd: Path, expected: int = 0) -> tuple[str, str]:
    """Run a command that sees nothing of this checkout."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == expected, done.stdout + done.stderr
    return done.stdout, done.stderr


def copy_of_source(folder: Path) -> Path:
    """Copy the source, because a build leaves files that the next one would pack again."""
    source = folder / "source"
    shutil.copytree(ROOT, source, ignore=lambda at, names: _left_out(Path(at), names))
    return source


def _left_out(folder: Path, names: list[str]) -> set[str]:
    """Leave out what no build needs; a package of the source may have any name."""
    inside = folder != ROOT and folder.name != "docs"
    return shutil.ignore_patterns(*(_LEFT_OUT[:3] if inside else _LEFT_OUT))(str(folder), names)


def build_wheel(source: Path, folder: Path) -> Path:
    """Build the wheel of a source folder in ``folder / "dist"``."""
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", "dist", source, cwd=folder)
    [wheel] = (folder / "dist").glob("*.whl")
    return wheel
