"""Verifiers of texts: ``verify``, ``verify_many``, ``miv verify``, terminals and notebooks, with hostile texts too."""

import csv
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner

from miv import Bags, MIVError, Verifier
from miv.cli.app import app
from miv.verifier.decisions import OperatingPoint
from tests.cli.running import run_command

transformers = pytest.importorskip("transformers", reason="needs transformers (pip install 'miv[hf]')")
tokenizers = pytest.importorskip("tokenizers", reason="needs transformers (pip install 'miv[hf]')")

CLAIM = "a cat sat on the mat"
BAG = ["the mat is red", "a dog ran", "on the mat sat a cat"]
MARKUP = '<script>alert("x")</script>"><img src=x onerror=alert(1)>&amp;'
ESCAPES = "\x1b[2J\x1b]0;owned\x07 a cat\x9b1m \u202esat"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A verifier whose encoder is tiny and random, and knows a dozen words."""
    home = tmp_path_factory.mktemp("texts")
    words = ["[PAD]", "[UNK]", *sorted({word for text in (CLAIM, *BAG) for word in text.split()})]
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]")
    fast.save_pretrained(home / "encoder")
    torch.manual_seed(0)
    size = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    config = transformers.BertConfig(vocab_size=len(words), pad_token_id=0, **size)
    transformers.BertModel(config).save_pretrained(home / "encoder")
    verifier = Verifier("cap_dba_l2", f"hf:{home / 'encoder'}", backbone_options={"max_tokens": 16})
    verifier.operating_point = OperatingPoint(threshold=0.01)  # not trained; say yes, so that there are witnesses
    verifier.save_pretrained(home / "verifier")
    return home


@pytest.fixture
def verifier(folder: Path) -> Verifier:
    return Verifier.from_pretrained(folder / "verifier")


def run(folder: Path, *arguments: str) -> str:
    return run_command("verify", str(folder / "verifier"), *arguments)


def test_the_verdict_is_that_of_the_forward_pass(verifier: Verifier) -> None:
    verdict = verifier.verify(CLAIM, BAG)
    prepare = verifier.backbone.prepare
    with torch.no_grad():
        answer = verifier(prepare(np.array([CLAIM], object)), Bags.from_list([prepare(np.array(BAG, object))]))
    assert verdict.probability == pytest.approx(float(answer.probability[0]), abs=1e-5)
    assert verdict.attention == pytest.approx(answer.attention_of(0).numpy(), abs=1e-5)
    rows = str(verdict).splitlines()[3:]
    assert [row.split("  ")[-1].strip() for row in rows] == BAG


@pytest.mark.parametrize(
    ("query", "bag", "message"),
    [
        (3, BAG, "The query is a int. Expected a text"),
        (CLAIM, "a cat", "The bag is one text .*or the path of an existing folder"),
    ],
)
def test_what_is_no_text_is_refused(verifier: Verifier, query: Any, bag: Any, message: str) -> None:
    with pytest.raises(MIVError, match=message):
        verifier.verify(query, bag)


def test_a_file_with_a_text_per_line_is_a_bag(verifier: Verifier, tmp_path: Path) -> None:
    lines = tmp_path / "sentences.txt"
    lines.write_bytes(("\ufeff" + "\r\n\n  ".join(BAG) + "\n \n").encode())
    expected = verifier.verify(CLAIM, BAG)
    for given in (lines, str(lines)):
        found = verifier.verify(CLAIM, given)
        assert (found.size, found.probability) == (3, expected.probability)
    assert verifier.verify_many([CLAIM] * 2, [lines, BAG[:1]]).ptr.tolist() == [0, 3, 4]
    lines.write_text("a cat")
    assert verifier.verify(CLAIM, lines).size == 1
    lines.write_text(" \n\n")
    with pytest.raises(MIVError, match=r"sentences.txt: the file is empty"):
        verifier.verify(CLAIM, lines)
    with pytest.raises(MIVError, match=r"The bag is one text .*list, or the path of an existing folder or .txt file"):
        verifier.verify(CLAIM, str(tmp_path / "nope.txt"))


def test_lines_of_one_file_on_the_command_line(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sentences.txt").write_text("\n\n".join(BAG) + "\n")
    Path("one.txt").write_text("a cat\n")
    asked = ["verify", str(folder / "verifier"), "--query", CLAIM, "--json", "--bag"]
    done = CliRunner().invoke(app, [*asked, "sentences.txt"])
    assert "sentences.txt as a bag of 3 texts" in done.stderr
    assert json.loads(done.stdout)["bag"] == BAG
    # Of several files, and in a folder, each is one text.
    done = CliRunner().invoke(app, [*asked, "sentences.txt", "--bag", "one.txt"])
    assert json.loads(done.stdout)["bag"] == ["sentences.txt", "one.txt"]
    assert "as a bag of" not in done.stderr
    done = CliRunner().invoke(app, [*asked, "."])
    assert json.loads(done.stdout)["bag"] == ["one.txt", "sentences.txt"]
    assert "as a bag of" not in done.stderr
    done = CliRunner().invoke(app, [*asked, "one.txt"])
    assert json.loads(done.stdout)["bag"] == ["one.txt"]
    assert "as a bag of" not in done.stderr


class Tags(HTMLParser):
    """Collects what a browser would make of a page: elements, attributes and text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: set[str] = set()
        self.words: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.words.append(data.strip())


def test_a_notebook_shows_hostile_texts_and_runs_none(verifier: Verifier) -> None:
    verdict = verifier.verify(MARKUP + " cat", [MARKUP, "a cat", "' onmouseover='alert(1)"])
    page = Tags(verdict._repr_html_())
    assert set(page.names) <= {"div", "p", "b", "span", "small"}
    assert page.attributes <= {"style", "title"}
    assert page.words.count(MARKUP) == 1  # shown as it is, letter for letter
    assert MARKUP + " cat" in page.words


def test_a_terminal_shows_control_characters_and_obeys_none(verifier: Verifier, folder: Path) -> None:
    verdict = verifier.verify(CLAIM, [ESCAPES, "a cat"])
    for text in (str(verdict), run(folder, "--query", CLAIM, "--bag", ESCAPES, "--bag", "a cat")):
        assert not set(text) & set("\x1b\x07\x9b\u202e")
        assert "�[2J�]0;owned� a cat�1m �sat" in text


def test_texts_files_folders_and_tables_on_the_command_line(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("texts").mkdir()
    for number, text in enumerate(BAG):
        Path(f"texts/{number}.txt").write_text(text)
    Path("claim.txt").write_text(CLAIM)
    Path("bag.csv").write_text("text\n" + "\n".join(BAG) + "\n")
    ways = [["--query", CLAIM, *(word for text in BAG for word in ("--bag", text))]]
    ways += [["--query", "claim.txt", "--bag", "texts"], ["--query", CLAIM, "--bag", "bag.csv"]]
    found = [json.loads(run(folder, *way, "--json")) for way in ways]
    assert len({one["probability"] for one in found}) == 1
    assert found[0]["witnesses"] == found[1]["witnesses"] == found[2]["witnesses"]
    assert found[0]["bag"] == found[2]["bag"] == BAG
    assert found[1]["bag"] == ["texts/0.txt", "texts/1.txt", "texts/2.txt"]


@pytest.mark.parametrize(
    ("query", "bag", "message"),
    [
        ("texts/nope.txt", "a cat", r"--query texts/nope\.txt: there is no such file or folder.*in a table"),
        ("nope.txt", "a cat", "no such file"),
        (CLAIM, "nope/", "--bag nope/: there is no such file or folder"),
        (CLAIM, "some/where.dat", "no such file"),
        (CLAIM, "nope.csv", "no such file"),
        ("cat.png", "a cat", "--query cat.png: this verifier reads texts. Expected a .txt file"),
        (CLAIM, "mat.PNG", "no such file"),
        (CLAIM, "notes", "--bag notes: this verifier reads texts"),
        ("folder", "a cat", "--query folder: this verifier reads texts"),
        (CLAIM, "", "--bag is empty"),
        (CLAIM, " ", "--bag is empty"),
    ],
)
def test_a_lost_file_is_not_judged_as_a_text(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str, bag: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cat.png").write_bytes(b"")
    Path("notes").write_text("a cat")
    Path("folder").mkdir()
    Path("here.txt").write_text("a cat")
    with pytest.raises(MIVError, match=message):
        run(folder, "--query", query, "--bag", bag)


def test_a_word_is_a_text_and_told_to_be_one(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["verify", str(folder / "verifier"), "--query", CLAIM, "--bag", "nopefolder"])
    assert done.exit_code == 0
    assert "no such file or folder: nopefolder" in done.stderr
    Path("bag.csv").write_text("text\nhere.txt\nand/or.else\n")
    Path("here.txt").write_text("a cat")
    assert json.loads(run(folder, "--query", CLAIM, "--bag", "bag.csv", "--json"))["bag"] == ["here.txt", "and/or.else"]
    Path("pairs.csv").write_text("query,bag\na cat in here.txt,a cat|here.txt\na cat,a dog|nope.txt\n")
    with pytest.raises(MIVError, match=r"pairs\.csv, line 3: there is no file nope\.txt"):
        run(folder, "--bags", "pairs.csv", "--out", "out.csv")
    with pytest.raises(MIVError, match="reads texts, not images"):
        run(folder, "--query", CLAIM, "--bag", "a cat", "--resize", "pad")


@pytest.mark.parametrize("text", ["a cat " * 100 + "notes.txt", "the mat is in results.csv", "x" * 5000 + ".parquet"])
def test_a_text_that_ends_like_a_file_is_a_text(folder: Path, verifier: Verifier, text: str) -> None:
    found = json.loads(run(folder, "--query", text, "--bag", text, "--bag", "a cat", "--json"))
    assert found["probability"] == pytest.approx(verifier.verify(text, [text, "a cat"]).probability, abs=1e-5)


def test_a_folder_without_texts_says_what_to_do(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cat").mkdir()
    with pytest.raises(MIVError, match=r"folder cat contains no instances.*put it in a table"):
        run(folder, "--query", CLAIM, "--bag", "cat")


def test_a_table_of_formulas_is_harmless_in_csv_and_exact_in_parquet(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [
        {"query": '=HYPERLINK("http://x")', "bag": ["@cat", "a cat"], "group": "=1+1", "label": "-2+3"},
        {"query": CLAIM, "bag": ["-2+3", "-2.5"], "group": "\tmat", "label": "-2.5"},
        {"query": "\n=1+1", "bag": ["＝1+1", "＠cat"], "group": " ＋cat", "label": "＠cat"},
    ]
    Path("pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run(folder, "--bags", "pairs.jsonl", "--out", "out.csv")
    with Path("out.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    assert [row["query"] for row in written] == ['\'=HYPERLINK("http://x")', CLAIM, "'\n=1+1"]
    assert [row["group"] for row in written] == ["'=1+1", "'\tmat", "' ＋cat"]
    assert [row["label"] for row in written] == ["'-2+3", "-2.5", "'＠cat"]  # -2.5 is a number
    run(folder, "--bags", "pairs.jsonl", "--out", "out.parquet")
    exact = pq.read_table("out.parquet").to_pylist()
    assert [(row["query"], row["group"]) for row in exact] == [(row["query"], row["group"]) for row in rows]
