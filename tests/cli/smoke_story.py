"""A first hour with the package: build, inspect, train, verify and evaluate with a tiny set.

It needs nothing but the package, so that it runs in an environment without the libraries of the tests:
``python smoke_story.py FOLDER`` in an empty or new folder. The last line says which versions it ran with.
"""

import json
import os
import re
import subprocess
import sys
from importlib.metadata import distributions, requires, version
from pathlib import Path

import numpy as np
from PIL import Image

MIV = (sys.executable, "-W", "error::DeprecationWarning:miv", "-m", "miv")
SMALL = ("--writers", "12", "--held-out-writers", "8", "--copies", "2")


def run(folder: Path, *words: str) -> str:
    """Run a command of ``miv`` and return what it prints; a failure ends the story with its message."""
    environment = {**os.environ, "MIV_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run([*MIV, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"miv {' '.join(words)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def tell(folder: Path) -> None:
    """Run the story in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    run(folder, "data", "build", "digits-twin", "--out", "data", *SMALL)
    inspected = json.loads(run(folder, "data", "inspect", "data", "--json"))
    assert inspected, "nothing was inspected"
    run(folder, "train", "data", "--out", "runs/a", "--max-epochs", "1", "--contrast-epochs", "1")
    evaluated = json.loads(run(folder, "evaluate", "runs/a", "data", "--json"))
    assert 0.0 <= evaluated["classification"]["auroc"] <= 1.0
    (folder / "bag").mkdir()
    for place in ("query.png", "bag/a.png", "bag/b.png"):
        Image.fromarray(np.full((28, 28), 7, np.uint8)).save(folder / place)
    verdict = json.loads(run(folder, "verify", "runs/a", "--query", "query.png", "--bag", "bag", "--json"))
    assert isinstance(verdict["verdict"], bool)
    assert json.loads(run(folder, "runs", "list", "--json"))[0]["state"] == "done"


def versions() -> dict[str, str]:
    """The installed versions of the libraries that the package asks for."""
    names = [re.split(r"[^\w-]", line)[0] for line in requires("miv") or []]
    installed = {one.metadata["Name"].lower().replace("_", "-") for one in distributions()}
    return {name: version(name) for name in names if name in installed}


if __name__ == "__main__":
    tell(Path(sys.argv[1]).resolve())
    print(json.dumps({"python": sys.version.split()[0], **versions()}))
