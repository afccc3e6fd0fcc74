"""Without the libraries of `miv[train]` a verifier works, and every other command says what to install."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

GOLDEN = Path(__file__).parents[1] / "golden" / "run_0_1"
RUN, DATA = str(GOLDEN / "run"), str(GOLDEN / "exemplars")
RESULTS = str(Path(__file__).parents[2] / "docs" / "results")
PARQUET = "Reading and writing Parquet files needs pyarrow. Run `pip install 'miv[train]'`."

WORKS = {
    "verify": ["verify", "miv/digits", "--query", "query.png", "--bag", "bag", "--json"],
    "verify-table": ["verify", "miv/digits", "--bags", "table.csv", "--out", "verdicts.csv"],
    "reproduce": ["reproduce", "signature", "classification", "--report-only"],
    "runs": ["runs", "list", str(GOLDEN)],
    "gallery": ["gallery", "create", "archive", "miv/digits"],
    "reproduce-list": ["reproduce", "--list", "--results", RESULTS],
}
REFUSED = {
    "verify-parquet": (["verify", "miv/digits", "--bags", "table.csv", "--out", "verdicts.parquet"], PARQUET),
    "verify-parquet-in": (["verify", "miv/digits", "--bags", "table.parquet", "--out", "other.csv"], PARQUET),
    "train": (["train", DATA, "--out", "run"], PARQUET),
    "demo": (["demo", "--out", "demo"], PARQUET),
    "build": (["data", "build", "digits-twin", "--out", "twin"], PARQUET),
    "from-table": (["data", "from-table", "table.csv", "--kind", "image", "--out", "mine"], PARQUET),
    "inspect": (["data", "inspect", DATA], PARQUET),
    "report": (["report", RUN, "--data", DATA], PARQUET),
    "evaluate": (["evaluate", RUN, DATA], PARQUET),
    "baselines": (["baselines", DATA], PARQUET),
    "reproduce-train": (["reproduce", "qmnist", "headed", "--raw", "."], PARQUET),
    "serve": (["serve", "miv/digits"], "miv serve needs FastAPI and uvicorn. Run `pip install 'miv[serve]'`."),
}
SCRIPT = """
import contextlib, io, json, sys
sys.modules.update(dict.fromkeys(["fastapi", "matplotlib", "pyarrow"]))
from miv import *  # every public name is there
from miv.cli import main
said = {}
for name, arguments in json.loads(sys.argv[1]).items():
    sys.argv = ["miv", *arguments]
    out, error, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            main()
        except SystemExit as done:
            code = done.code or 0
    said[name] = [code, out.getvalue(), error.getvalue()]
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A query, a bag and a table of them."""
    folder = tmp_path_factory.mktemp("light")
    (folder / "bag").mkdir()
    images = np.zeros((3, 28, 28), np.uint8)
    images[0, 4:24, 13:15] = images[2, 5:24, 13:15] = 255  # two thin strokes, the query and one of the bag
    images[1, 4:24, 10:18] = 255
    for image, name in zip(images, ("query.png", "bag/broad.png", "bag/thin.png"), strict=True):
        Image.fromarray(image).save(folder / name)
    (folder / "table.csv").write_text("query,bag\nquery.png,bag/broad.png|bag/thin.png\n")
    (folder / "table.parquet").touch()
    return folder


@pytest.fixture(scope="module")
def said(folder: Path) -> dict[str, tuple[int, str, str]]:
    """What each command said: exit code, standard output, standard error."""
    commands = WORKS | {name: arguments for name, (arguments, _) in REFUSED.items()}
    process = [sys.executable, "-c", SCRIPT, json.dumps(commands)]
    run = subprocess.run(process, cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return {name: tuple(told) for name, told in json.loads(run.stdout).items()}


def test_a_verifier_works(said: dict[str, tuple[int, str, str]], folder: Path) -> None:
    assert {name: said[name][2] for name in WORKS if said[name][0]} == {}
    assert json.loads(said["verify"][1])["witnesses"][0]["index"] == 1
    [row] = csv.DictReader((folder / "verdicts.csv").open(encoding="utf-8"))
    assert (row["verdict"], row["bag_size"], row["witnesses"]) == ("True", "2", "1")


@pytest.mark.parametrize("name", REFUSED)
def test_a_command_says_what_to_install(name: str, said: dict[str, tuple[int, str, str]], folder: Path) -> None:
    code, _, error = said[name]
    assert code == 1
    assert REFUSED[name][1] in error.splitlines()[-1]
    assert len(error.splitlines()) <= 2  # an empty progress bar at most: it is said before the work
    written = {"run", "demo", "twin", "mine", "other.csv", "verdicts.parquet"}
    assert not written & {path.name for path in folder.iterdir()}
