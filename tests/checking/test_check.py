"""Check an answer against sources."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sentencex", reason="needs sentencex, of the extra text")

import miv
from miv import CheckedAnswer, MIVError, Verifier
from miv.errors import MIVWarning
from tests.checking.words import word_verifier

ANSWER = "# Bees\n\nBees make sweet honey. Wasps hunt for meat. Cats play the piano. Yes."
SOURCES = {
    "bees.md": "Bees live in hives. All bees make sweet honey. Honey keeps.",
    "wasps.txt": "Most wasps hunt for fresh meat. Wasps sting.",
}


@pytest.fixture
def checked() -> CheckedAnswer:
    return miv.check(ANSWER, SOURCES, verifier=word_verifier())


def test_outcomes_and_citations(checked: CheckedAnswer) -> None:
    assert [one.outcome for one in checked.sentences] == [
        "not checked",
        "supported",
        "supported",
        "unsupported",
        "not checked",
    ]
    assert [(one.number, one.source, one.sentence, one.text) for one in checked.citations] == [
        (1, "bees.md", 2, "All bees make sweet honey."),
        (2, "wasps.txt", 1, "Most wasps hunt for fresh meat."),
        (3, "bees.md", 1, "Bees live in hives."),  # nothing is near the cats
    ]
    assert [one.citations for one in checked.sentences] == [(), (1,), (2,), (3,), ()]
    assert checked.sentences[3].probability is not None
    assert checked.sentences[3].probability < 0.5
    assert checked.sentences[0].probability is None
    assert not checked


def test_it_prints_the_answer_with_citations(checked: CheckedAnswer) -> None:
    assert str(checked).split("\n") == [
        "Bees",
        "",
        "Bees make sweet honey. [1] Wasps hunt for meat. [2] Cats play the piano. [NOT SUPPORTED] Yes.",
        "",
        "[1]  bees.md, sentence 2: All bees make sweet honey.",
        "[2]  wasps.txt, sentence 1: Most wasps hunt for fresh meat.",
        "[3]  bees.md, sentence 1: Bees live in hives.",
        "",
        "Nearest to what is not supported (look there first):",
        " -   Cats play the piano. [3]",
        "",
        "2 of 3 sentences supported, 1 unsupported, 2 not checked (Verifier, words in common). "
        "Supported: evidence on the sentence was found. Whether it agrees was not judged.",
    ]


def test_the_document_has_everything(checked: CheckedAnswer) -> None:
    document = checked.document()
    assert document["counts"] == {"supported": 2, "unsure": 0, "unsupported": 1, "not checked": 2}
    assert document["sentences"][1]["citations"] == (1,)
    assert document["citations"][0]["source"] == "bees.md"
    assert [one["number"] for one in document["citations"]] == [1, 2]
    assert [(one["number"], one["source"], one["sentence"]) for one in document["nearest"]] == [(3, "bees.md", 1)]
    assert [(one["citations"], one["nearest"]) for one in document["sentences"]] == [
        ((), ()),
        ((1,), ()),
        ((2,), ()),
        ((), (3,)),
        ((), ()),
    ]
    assert document["sources"] == [{"name": "bees.md", "sentences": 3}, {"name": "wasps.txt", "sentences": 2}]


def test_an_answer_whose_sentences_are_all_supported_is_truthy() -> None:
    assert miv.check("Bees make sweet honey.", SOURCES["bees.md"], verifier=word_verifier())


def test_sources_are_texts_files_or_several(tmp_path: Path) -> None:
    (tmp_path / "bees.md").write_text(SOURCES["bees.md"])
    (tmp_path / "answer.txt").write_text(ANSWER, encoding="utf-8-sig")
    found = miv.check(tmp_path / "answer.txt", [tmp_path / "bees.md", SOURCES["wasps.txt"]], verifier=word_verifier())
    assert [one.source for one in found.citations[:2]] == [str(tmp_path / "bees.md"), "source 2"]


def test_a_source_that_is_given_twice_counts_once(tmp_path: Path) -> None:
    path, copy = tmp_path / "bees.md", tmp_path / "copy.md"
    for one in (path, copy):
        one.write_text(SOURCES["bees.md"])
    with pytest.warns(MIVWarning, match=r"bees\.md was given twice; it is counted once"):
        found = miv.check(ANSWER, [path, SOURCES["wasps.txt"], path], verifier=word_verifier())
    assert [one.name for one in found.sources] == [str(path), "source 2"]
    assert found.sentences[1].citations == (1,)
    with pytest.warns(MIVWarning, match=r"copy\.md has the same text as .*bees\.md"):
        miv.check(ANSWER, [path, copy], verifier=word_verifier())


def test_a_sentence_that_two_sentences_of_the_answer_need_is_cited_once() -> None:
    found = miv.check("Bees make sweet honey. All bees make honey.", SOURCES, verifier=word_verifier(), citations=1)
    assert [one.citations for one in found.sentences] == [(1,), (1,)]
    assert len(found.citations) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has no sentence"),
        (b"a\0b", "zero bytes"),
        (b"caf\xe9 au lait.", "not UTF-8"),
        (b"word " * 5_000_000, "longer than"),
    ],
)
def test_bad_files(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "source.txt").write_bytes(content)
    with pytest.raises(MIVError, match=rf"source\.txt.*{message}"):
        miv.check(ANSWER, tmp_path / "source.txt", verifier=word_verifier())


@pytest.mark.parametrize(
    ("answer", "sources", "message"),
    [
        ("", "Some source text.", "The answer has no sentence"),
        (ANSWER, [], "no sources"),
        (ANSWER, "One.", "no full sentence"),
        (ANSWER, [Path("paper.pdf")], r"ends in '\.pdf'"),
        (ANSWER, {"a": 3}, "Expected a text"),
        (ANSWER, Path("missing.txt"), "Could not read missing"),
    ],
)
def test_bad_input(answer: str, sources: Any, message: str) -> None:
    with pytest.raises(MIVError, match=message):
        miv.check(answer, sources, verifier=word_verifier())


def test_a_verifier_of_vectors_is_refused() -> None:
    with pytest.raises(MIVError, match="Expected a verifier of texts"):
        miv.check(ANSWER, SOURCES, verifier=Verifier("baseline", channels=2))
    with pytest.raises(MIVError, match="citations is 0"):
        miv.check(ANSWER, SOURCES, verifier=word_verifier(), citations=0)


def test_between_two_thresholds_a_sentence_is_unsure() -> None:
    verifier = word_verifier()
    verifier.operating_point = replace(verifier.operating_point, threshold=0.9, lower_threshold=0.3)
    found = miv.check("Bees make bitter wax. Cats play the piano.", SOURCES, verifier=verifier)
    assert [one.outcome for one in found.sentences] == ["unsure", "unsupported"]
    assert "Bees make bitter wax. [unsure] Cats" in str(found)
    assert not found


def test_code_of_an_answer_is_counted_as_not_checked() -> None:
    found = miv.check(
        "Bees make sweet honey.\n```\nbees.make(honey)\nNo fence ends this.", SOURCES, verifier=word_verifier()
    )
    assert [one.outcome for one in found.sentences] == ["supported", "not checked", "not checked"]


@pytest.mark.parametrize("answer", ["# Bees make honey", "Yes.", "```\nbees.make(honey)\n```"])
def test_an_answer_without_a_checked_sentence_is_not_truthy(answer: str) -> None:
    assert not miv.check(answer, SOURCES, verifier=word_verifier())


def test_too_many_pairs_of_sentences_are_refused_at_once() -> None:
    answer, source = ("\n\n".join(f"Bee {number} makes honey." for number in range(count)) for count in (3_400, 3_000))
    with pytest.raises(MIVError, match=r"3,400 sentences.*3,000 source sentences.*at most 10,000,000 pairs"):
        miv.check(answer, source, verifier="no/such-verifier")


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
    assert found.count("supported") == 1


def test_the_folder_of_a_verifier_may_be_a_path(tmp_path: Path) -> None:
    Verifier("baseline", channels=2).save_pretrained(tmp_path)
    with pytest.raises(MIVError, match=rf"The verifier {tmp_path} reads features.* Expected a verifier of texts"):
        miv.check(ANSWER, SOURCES, verifier=tmp_path)
