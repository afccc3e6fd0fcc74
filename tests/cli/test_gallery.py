"""``miv gallery`` on the command line."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from miv import MIVError, Verifier
from tests.cli.running import run_command


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A verifier of images, and three folders of images."""
    monkeypatch.chdir(tmp_path)
    form = {"kind": "image", "height": 28, "width": 28, "mode": "L"}
    Verifier("baseline", backbone="hog", instances=form).save_pretrained("verifier")
    for folder in range(3):
        (tmp_path / "files" / f"file {folder}").mkdir(parents=True)
        for number in range(4):
            pixels = np.random.default_rng(4 * folder + number).integers(0, 256, (28, 28), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "files" / f"file {folder}" / f"{number}.png")
    return tmp_path


def gallery(*arguments: str) -> str:
    return run_command("gallery", *arguments)


@pytest.mark.usefixtures("files")
def test_the_commands_from_create_to_compact() -> None:
    gallery("create", "archive", "verifier")
    for _ in range(2):  # the same command again changes nothing
        gallery("add", "archive", "--bags", "files")
    found = json.loads(gallery("search", "archive", "--query", "files/file 1/2.png", "--top", "2", "--json"))
    assert found["hits"][0]["name"] == "file 1"
    assert found["hits"][0]["witnesses"][0]["name"].endswith("2.png")
    assert (found["bags"], len(found["hits"]), found["references"]) == (3, 2, 1)
    shown = gallery("search", "archive", "--query", "files/file 1/2.png", "--query", "files/file 1/3.png")
    assert shown.splitlines()[0].split()[:3] == ["1", "file", "1"]
    assert "Not calibrated" in shown
    gallery("search", "archive", "--query", "files/file 1/2.png", "--top", "2", "--html", "hits.html")
    page = Path("hits.html").read_text()
    assert page.count("<img") == 1 + 2 * 4  # the query, and the instances of two bags
    assert page.count("<b>best") == 2
    Image.new("L", (28, 28)).save("blank.png")
    blank = gallery("search", "archive", "--query", "blank.png", "--html", "blank.html")
    for shown in (blank, Path("blank.html").read_text()):
        assert "the query has no content" in shown
        assert not any(word in shown for word in ("probability", "andidate", "<b>best"))
    gallery("replace", "archive", "--name", "file 0", "--bag", "files/file 1/2.png")
    gallery("remove", "archive", "file 1")
    gallery("compact", "archive")
    info = json.loads(gallery("info", "archive", "--json"))
    assert (info["bags"], info["instances"], info["removed_bags"]) == (2, 5, 0)
    assert "removed bags" in gallery("info", "archive")


@pytest.mark.usefixtures("files")
def test_wrong_use_is_said_plainly() -> None:
    gallery("create", "archive", "verifier")
    for arguments, message in [
        (["add", "archive", "--name", "x"], "Give either --name and --bag"),
        (["add", "archive", "--bags", "files/file 1"], "contains no folders"),
        (["remove", "archive", "x"], "no bag 'x'"),
        (["create", "archive", "verifier"], "already exists"),
        (["info", "files"], "made by `miv gallery create`"),
    ]:
        with pytest.raises(MIVError, match=message):
            gallery(*arguments)
