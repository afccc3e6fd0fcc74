"""The wheel alone, in an environment with nothing else, from outside the repository."""

import json
import os
import venv
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import miv
from tests.cli.packing import ROOT, build_wheel, copy_of_source, run


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts of an environment that holds the wheel and what it requires."""
    folder = tmp_path_factory.mktemp("wheel")
    wheel = build_wheel(copy_of_source(folder), folder)
    assert wheel.name == f"miv-{miv.__version__}-py3-none-any.whl"
    venv.create(folder / "environment", with_pip=True)
    scripts = folder / "environment" / ("Scripts" if os.name == "nt" else "bin")
    constraints = ROOT / "constraints.txt"
    run(scripts / "python", "-m", "pip", "install", "--quiet", "--constraint", constraints, wheel, cwd=folder)
    return scripts


@pytest.mark.slow
def test_the_shipped_verifier_answers(scripts: Path, tmp_path: Path) -> None:
    (tmp_path / "bag").mkdir()
    images = np.zeros((3, 28, 28), np.uint8)
    images[0, 4:24, 13:15] = images[2, 5:24, 13:15] = 255  # two thin strokes, the query and one of the bag
    images[1, 4:24, 10:18] = 255
    for image, name in zip(images, ("query.png", "bag/broad.png", "bag/thin.png"), strict=True):
        Image.fromarray(image).save(tmp_path / name)
    out, _ = run(
        scripts / "miv", "verify", "miv/digits", "--query", "query.png", "--bag", "bag", "--json", cwd=tmp_path
    )
    answer = json.loads(out)
    assert answer["verdict"] is True
    assert [answer["bag"][witness["index"]] for witness in answer["witnesses"]] == ["bag/thin.png"]


@pytest.mark.slow
def test_no_library_of_an_extra_is_there(scripts: Path, tmp_path: Path) -> None:
    _, error = run(scripts / "miv", "train", "digits-twin", "--out", "run", cwd=tmp_path, expected=1)
    assert error == "Error: Reading and writing Parquet files needs pyarrow. Run `pip install 'miv[train]'`.\n"
    for name in ("answer.txt", "source.txt"):
        (tmp_path / name).write_text("Bees make honey from nectar.")
    _, error = run(scripts / "miv", "check", "answer.txt", "source.txt", cwd=tmp_path, expected=1)
    assert error == "Error: Splitting a text into sentences needs sentencex. Run `pip install 'miv[text]'`.\n"
    missing = "import importlib.util as u; print([n for n in ('matplotlib', 'pyarrow') if u.find_spec(n)])"
    assert run(scripts / "python", "-c", missing, cwd=tmp_path)[0].strip() == "[]"


@pytest.mark.slow
def test_the_version_is_that_of_the_package(scripts: Path, tmp_path: Path) -> None:
    assert run(scripts / "miv", "--version", cwd=tmp_path)[0] == f"miv {miv.__version__}\n"
