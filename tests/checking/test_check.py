"""Check an answer against sources."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from numpy.typing import NDArray

pytest.importorskip("sentencex", reason="needs sentencex, of the extra text")

import miv
from miv import CheckedAnswer, MIVError, Verifier
from miv.errors import MIVWarning
from tests.checking.words import Words, word_verifier

ANSWER = "# Bees\n\nBees make sweet honey. Wasps hunt for meat. Cats play the piano. Yes."
SOURCES = {
    "bees.md": "Bees live in hives. All bees make sweet honey. Honey.",
    "wasps.txt": "Most wasps hunt for fresh meat. Wasps.",
}


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def checked() -> CheckedAnswer:
    return miv.check(ANSWER, SOURCES, verifier=word_verifier())


def test_outcomes_and_citations(checked: CheckedAnswer) -> None:
    assert [one.outcome for one in checked.sentences] == [
        "not checked",
        "evidence found",
        "evidence found",
        "not in the sources",
        "not checked",
    ]
    assert [(one.number, one.source, one.sentence, one.text) for one in checked.citations] == [
        (1, "bees.md", 2, "All bees make sweet honey."),
        (2, "wasps.txt", 1, "Most wasps hunt for fresh meat."),
        (3, "bees.md", 1, "Bees live in hives."),  # nothing is near the cats
    ]
    assert [one.citations for one in checked.sentences] == [(), (1,), (2,), (3, 1, 2), ()]
    assert checked.sentences[3].probability is not None
    assert checked.sentences[3].probability < 0.5
    assert checked.sentences[0].probability is None
    assert not checked


def test_it_prints_the_answer_with_citations(checked: CheckedAnswer) -> None:
    assert str(checked).split("\n") == [
        "Evidence found means: a source speaks about this sentence. Whether it confirms or contradicts it (a",
        'missing "not", an opposite) is not judged: read the citations. Numbers, dates and names in no cited',
        "source are marked.",
        "",
        "# Bees",
        "",
        "Bees make sweet honey. [1] Wasps hunt for meat. [2] Cats play the piano. [NOT IN THE SOURCES;",
        "nearest (a)[1][2]] Yes.",
        "",
        "Citations:",
        "[1]  bees.md, line 1, sentence 2: All bees make sweet honey.",
        "[2]  wasps.txt, line 1, sentence 1: Most wasps hunt for fresh meat.",
        "",
        "Nearest to the others:",
        "(a)  bees.md, line 1, sentence 1: Bees live in hives.",
        "",
        "2 of 3 sentences: evidence found, 1 not in the sources, 2 not checked (unsaved verifier, nearest,",
        "words in common).",
        "False accepts are sentences without evidence in the sources that are called evidence found; false",
        "rejects are sentences with evidence, confirming or contradicting, that are called not in the",
        "sources. The rates are those of the verifier's calibration data, and not of false and true",
        "sentences.",
    ]


def test_lists_and_headings_of_the_answer_keep_their_marks() -> None:
    answer = "## Bees\n\nBees live in hives.\n\n- Bees make sweet honey.\n  1. Wasps hunt for meat.\n\nYes."
    found = miv.check(answer, SOURCES, verifier=word_verifier())
    assert [one.item for one in found.sentences] == ["## ", "", "- ", "  1. ", ""]
    shown = (
        "## Bees\n\nBees live in hives. [1]\n\n- Bees make sweet honey. [2]\n  1. Wasps hunt for meat. [3]\n\nYes.\n\n"
    )
    assert shown in str(found)


@pytest.mark.parametrize(("columns", "widest"), [("60", 60), ("10", 40), ("300", 100)])
def test_it_is_as_wide_as_the_terminal(
    checked: CheckedAnswer, monkeypatch: pytest.MonkeyPatch, columns: str, widest: int
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    lengths = [len(line) for line in str(checked).splitlines()]
    assert "[NOT IN THE SOURCES;" in str(checked)  # never on two lines, so that it can be searched
    assert widest - 12 < max(lengths) <= widest


def test_the_document_has_everything(checked: CheckedAnswer) -> None:
    document = checked.document()
    assert document["counts"] == {"evidence found": 2, "unsure": 0, "not in the sources": 1, "not checked": 2}
    assert [(one["number"], one["source"]) for one in document["citations"]] == [(1, "bees.md"), (2, "wasps.txt")]
    assert [(one["number"], one["source"], one["sentence"]) for one in document["nearest"]] == [(3, "bees.md", 1)]
    assert [(one["citations"], one["nearest"]) for one in document["sentences"]] == [
        ((), ()),
        ((1,), ()),
        ((2,), ()),
        ((), (3, 1, 2)),
        ((), ()),
    ]
    assert document["sources"] == [{"name": "bees.md", "sentences": 3}, {"name": "wasps.txt", "sentences": 2}]


def test_sources_are_texts_files_or_several(tmp_path: Path) -> None:
    (tmp_path / "bees.md").write_text(SOURCES["bees.md"])
    (tmp_path / "answer.txt").write_text(ANSWER, encoding="utf-8-sig")
    found = miv.check(tmp_path / "answer.txt", [tmp_path / "bees.md", SOURCES["wasps.txt"]], verifier=word_verifier())
    assert [one.source for one in found.citations[:2]] == [str(tmp_path / "bees.md"), "source 2"]


def test_a_source_that_is_given_twice_counts_once(tmp_path: Path) -> None:
    path, copy = tmp_path / "bees.md", tmp_path / "copy.md"
    for one in (path, copy):
        one.write_text(SOURCES["bees.md"])
    with pytest.warns(MIVWarning, match=r"bees\.md has the same text as .*bees\.md; it was left out"):
        found = miv.check(ANSWER, [path, SOURCES["wasps.txt"], path], verifier=word_verifier())
    assert [one.name for one in found.sources] == [str(path), "source 2"]
    assert found.sentences[1].citations == (1,)
    with pytest.warns(MIVWarning, match=r"copy\.md has the same text as .*bees\.md"):
        miv.check(ANSWER, [path, copy], verifier=word_verifier())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\0b", "zero bytes"),
        (b"caf\xe9 au lait.", "not UTF-8"),
        (b"word " * 5_000_000, "longer than"),
    ],
)
def test_bad_files(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "source.txt").write_bytes(content)
    with pytest.raises(MIVError, match=rf"source\.txt.*{message}"):
        miv.check(ANSWER, tmp_path / "source.txt", verifier=word_verifier())


@pytest.mark.parametrize("name", ["README", "LICENSE", "bees.rst", "bees.log", "bees.x1"])
def test_a_file_of_any_name_is_read_if_it_is_text(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("Bees make sweet honey.")
    assert miv.check("Bees make sweet honey.", tmp_path / name, verifier=word_verifier())
    (tmp_path / name).write_bytes(b"PK\x03\x04\0\0")
    with pytest.raises(MIVError, match=f"{name}: not a text file"):
        miv.check("Bees make sweet honey.", tmp_path / name, verifier=word_verifier())
    (tmp_path / name).write_text("<!DOCTYPE html>\n<html><p>Bees make sweet honey.")
    with pytest.raises(MIVError, match=r"begins with '<!doctype'.*convert"):
        miv.check("Bees make sweet honey.", tmp_path / name, verifier=word_verifier())


def test_a_pipe_is_read() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"Bees make sweet honey.")
    os.close(writing)
    assert miv.check("Bees make sweet honey.", Path(f"/dev/fd/{reading}"), verifier=word_verifier())
    os.close(reading)


def test_marks_of_markdown_in_plain_text_are_text(tmp_path: Path) -> None:
    text = "# bees *make* sweet honey\n# all day"
    for name, pieces in (
        ("a.txt", ["# bees *make* sweet honey # all day"]),
        ("a.md", ["bees make sweet honey", "all day"]),
    ):
        (tmp_path / name).write_text(text)
        for source in (tmp_path / name, {name: text}):
            found = miv.check("Bees make sweet honey.", source, verifier=word_verifier())
            assert [one.text for one in found.sources[0].sentences] == pieces
    assert len(miv.check(text, text, verifier=word_verifier()).sentences) == 2
    assert len(miv.check(tmp_path / "a.txt", text, verifier=word_verifier()).sentences) == 1


def test_an_empty_source_among_others_is_left_out() -> None:
    with pytest.warns(MIVWarning, match=r"^source 2 has no sentence; it was left out\.$"):
        found = miv.check(ANSWER, [SOURCES["bees.md"], " "], verifier=word_verifier())
    assert [one.name for one in found.sources] == ["source 1"]


@pytest.mark.filterwarnings("ignore:source 1 has no sentence:miv.errors.MIVWarning")
@pytest.mark.parametrize("sources", [[], "", ["---"], ["One."], {}])
def test_without_any_source_nothing_is_in_the_sources(sources: Any) -> None:
    found = miv.check(ANSWER, sources, verifier=word_verifier())
    assert [one.outcome for one in found.sentences[1:4]] == ["not in the sources"] * 3
    assert (found.citations, bool(found)) == ((), False)
    assert "[NOT IN THE SOURCES; there is no source]" in " ".join(str(found).split())


def test_between_two_thresholds_a_sentence_is_unsure() -> None:
    verifier = word_verifier()
    verifier.operating_point = replace(verifier.operating_point, threshold=0.9, lower_threshold=0.3)
    found = miv.check("Bees make bitter wax. Cats play the piano.", SOURCES, verifier=verifier)
    assert [one.outcome for one in found.sentences] == ["unsure", "not in the sources"]
    printed = str(found)
    assert "Bees make bitter wax. [unsure: between the thresholds; nearest (a)(b)(c)] Cats" in " ".join(printed.split())
    assert "Nearest to the others:\n(a)  bees.md, line 1, sentence 2: All bees" in printed
    assert (found.document()["threshold"], found.document()["lower_threshold"]) == (0.9, 0.3)
    assert not found


@pytest.mark.parametrize(
    ("claim", "source"),
    [
        ("It has 3 eggs.", "The cake:\n\n- 3 eggs\n- no sugar"),
        ("Bees make sweet honey.", "# Bees make sweet honey\n\nWasps are unlike them."),
        ("Type pip install miv now.", "To get it:\n\n```sh\nexport A=1\npip install miv\n```"),
        ("Type pip install miv now.", "To get it:\n\n    export A=1\n    pip install miv\n"),
    ],
)
def test_headings_short_items_and_lines_of_code_are_evidence(claim: str, source: str) -> None:
    found = miv.check(claim, {"a.md": source}, verifier=word_verifier())
    assert [one.outcome for one in found.sentences] == ["evidence found"]
    assert found.citations[0].text in ("3 eggs", "Bees make sweet honey", "pip install miv")


@pytest.mark.parametrize("name", ["docs/company report 2024.txt", "notes.MD", "answer.markdown\n"])
def test_the_name_of_a_file_is_no_text(name: str) -> None:
    for answer, sources in (
        (ANSWER, name),
        (ANSWER, ["A whole source text.", name]),
        (ANSWER, {"a": name}),
        (name, "A."),
    ):
        with pytest.raises(MIVError, match=r"looks like the name of a file.*Path\("):
            miv.check(answer, sources, verifier=word_verifier())
    found = miv.check(ANSWER, f"Bees make sweet honey, says {name.strip()}.", verifier=word_verifier())
    assert found.count("evidence found") == 1


def test_one_threshold_of_your_own_leaves_nothing_unsure() -> None:
    verifier = word_verifier()
    verifier.operating_point = replace(verifier.operating_point, threshold=0.9, lower_threshold=0.3)
    answer = "Bees make bitter wax. Cats play the piano."
    for threshold, outcomes in (
        (0.3, ["evidence found", "not in the sources"]),
        (0.9, ["not in the sources"] * 2),
        (0, ["evidence found"] * 2),
    ):
        found = miv.check(answer, SOURCES, verifier=verifier, threshold=threshold)
        assert [one.outcome for one in found.sentences] == outcomes
        document = found.document()
        assert (document["threshold"], document["lower_threshold"]) == (threshold, threshold)
        assert "custom threshold" in document["goal"]
        assert "do not apply" in " ".join(str(found).split())


def test_a_backbone_without_windows_tells_that_it_truncates() -> None:
    class ShortWords(Words):
        def count_cut(self, values: NDArray[Any]) -> int:
            return sum(len(str(text).split()) > 8 for text in values)

    long = "Bees make sweet honey of the nectar that they find."
    with pytest.warns(MIVWarning, match=r"1 of 3 texts have more than 512 tokens; the rest is ignored"):
        miv.check(f"{long} Wasps hunt for meat.", "Wasps hunt.", verifier=word_verifier(ShortWords()))


def test_only_markdown_files_have_front_matter(tmp_path: Path) -> None:
    answer = "---\nSummary: wasps hunt for fresh meat.\n---\n\nBees make sweet honey."
    found = miv.check(answer, SOURCES, verifier=word_verifier())
    assert [one.text for one in found.sentences] == ["Summary: wasps hunt for fresh meat.", "Bees make sweet honey."]
    (tmp_path / "answer.md").write_text(answer)
    found = miv.check(tmp_path / "answer.md", {"a.md": answer, "b": answer}, verifier=word_verifier())
    assert len(found.sentences) == 1
    assert [len(one.sentences) for one in found.sources] == [1, 2]


def test_citations_have_the_line_of_the_source() -> None:
    text = "# Bees\n\nBees live in\nhives. All *bees*\nmake sweet honey.\n\n- Wasps hunt for fresh meat.\n"
    found = miv.check("Bees make sweet honey. Wasps hunt for meat.", {"a.md": text}, verifier=word_verifier())
    assert [one.line for one in found.citations] == [4, 7]
    assert [one["line"] for one in found.document()["citations"]] == [4, 7]
    assert "[2]  a.md, line 7, sentence 4: Wasps hunt for fresh meat." in str(found)


@pytest.mark.parametrize(
    ("answer", "outcomes"),
    [
        ("Bees make sweet honey.", ["evidence found"]),
        ("Bees make sweet honey. All bees make honey.", ["evidence found"] * 2),
        ("# Bees make honey", ["not checked"]),
        ("Yes.", ["not checked"]),
        (
            "Bees make sweet honey.\n```\nbees.make(honey)\nNo fence ends this.",
            ["evidence found"] + ["not checked"] * 2,
        ),
        ("Do bees make honey?", ["not checked"]),
        ('"Do bees make honey?"', ["not checked"]),
        ('A boy asked "do bees hum?"', ["not in the sources"]),
        ("This is what bees do:\n\n- Bees make sweet honey.", ["not checked", "evidence found"]),
        ("**Bees make sweet honey:** it is so.\n\n蜂は蜜を作る：", ["evidence found", "not checked"]),
    ],
)
def test_what_is_checked(answer: str, outcomes: list[str]) -> None:
    found = miv.check(answer, SOURCES, verifier=word_verifier(), citations=1)
    assert [one.outcome for one in found.sentences] == outcomes
    assert bool(found) == (set(outcomes) - {"not checked"} == {"evidence found"})
    assert len(found.citations) == len(set(outcomes) - {"not checked"})  # a source sentence is cited once


MANY = ["\n\n".join(f"Bee {number} makes honey." for number in range(count)) for count in (3_400, 3_000)]


@pytest.mark.parametrize(
    ("answer", "sources", "options", "message"),
    [
        ("", "Some source text.", {}, "The answer has no sentence"),
        (ANSWER, [Path("paper.html")], {}, r"ends in '\.html'"),
        (ANSWER, "<!DOCTYPE html>\n<p>Bees.", {}, r"Source 1 begins with '<!doctype'.*convert"),
        ("<html><p>Bees make honey.", SOURCES, {}, r"The answer begins with '<html><p>bees'"),
        (ANSWER, SOURCES, {"question": " "}, "The question is empty"),
        (ANSWER, Path("missing.txt"), {}, "Could not read missing"),
        (3, SOURCES, {}, "The answer is 3, of type int"),
        (b"Bees make honey.", SOURCES, {}, r"The answer is b'Bees make honey\.', of type bytes.*Decode bytes first"),
        (ANSWER, None, {}, "The sources are None, of type NoneType"),
        (ANSWER, b"Bees make honey.", {}, "of type bytes.*Decode bytes first"),
        (ANSWER, ["Bees make honey.", b"Bees"], {}, "Source 2 is b'Bees', of type bytes"),
        (ANSWER, {"a": None}, {}, "The source a is None, of type NoneType"),
        (
            ANSWER,
            ["Bees make honey. " * 700_000] * 2,
            {},
            "The sources have 23,800,000 bytes",
        ),
        ("蜂" * 7_000_000, SOURCES, {}, "The answer has 21,000,000 bytes"),
        *[(ANSWER, SOURCES, {name: bad}, f"{name} is ") for name in ("citations",) for bad in ("x", 0, True)],
        *[(ANSWER, SOURCES, {"threshold": bad}, "threshold is ") for bad in (-0.1, 1.5, float("nan"), "0.5", True)],
    ],
    ids=lambda value: str(value)[:20],
)
def test_bad_input(answer: Any, sources: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(MIVError, match=message):
        miv.check(answer, sources, verifier="no/such-verifier", **options)


def test_too_many_pairs_are_refused() -> None:
    with pytest.raises(MIVError, match=r"3,400 sentences.*3,000 source sentences.*10,000,000 pairs"):
        miv.check(*MANY, verifier=word_verifier())


def test_a_verifier_of_vectors_is_refused(tmp_path: Path) -> None:
    Verifier("baseline", channels=2).save_pretrained(tmp_path)
    for verifier in (tmp_path, Verifier("baseline", channels=2)):
        with pytest.raises(MIVError, match="Expected a verifier of texts"):
            miv.check(ANSWER, SOURCES, verifier=verifier)
