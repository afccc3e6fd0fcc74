"""From a text to sentences that can be verified."""

import pytest

pytest.importorskip("sentencex", reason="needs sentencex, of the extra text")

from miv.checking import split_sentences


def texts(text: str, **options: bool) -> list[str]:
    return [one.text for one in split_sentences(text, **options)]


def test_abbreviations_do_not_end_a_sentence() -> None:
    given = "Marie Curie (born 7 Nov. 1867 in Warsaw) met Dr. Smith et al. twice. It cost $3.5 million, i.e. a lot."
    assert texts(given) == [
        "Marie Curie (born 7 Nov. 1867 in Warsaw) met Dr. Smith et al. twice.",
        "It cost $3.5 million, i.e. a lot.",
    ]


def test_lines_of_a_paragraph_are_joined_and_paragraphs_are_not() -> None:
    assert texts("A line that\nis wrapped here.\n\nAnother paragraph") == [
        "A line that is wrapped here.",
        "Another paragraph",
    ]


def test_marks_of_markdown_are_removed() -> None:
    given = (
        "# Bees\n\n> A [bee](https://a.b/c.d) is **not** a `wasp` [12].\n\n"
        "- one *short* item\n2) second item\n\n***\n```\ncode is left out\n```\nUnderlined\n===\nsnake_case_name stays."
    )
    found = split_sentences(given)
    assert [one.text for one in found] == [
        "Bees",
        "A bee is not a wasp.",
        "one short item",
        "second item",
        "Underlined",
        "snake_case_name stays.",
    ]
    assert [one.is_claim for one in found] == [False, True, True, False, False, True]
    assert [one.number for one in found] == [1, 2, 3, 4, 5, 6]
    assert len({one.paragraph for one in found}) == 6


def test_without_markdown_the_marks_stay() -> None:
    assert texts("# A *b* c.", markdown=False) == ["# A *b* c."]


@pytest.mark.parametrize(("text", "is_claim"), [("Yes.", False), ("It rained.", False), ("It rained all day.", True)])
def test_a_fragment_is_no_claim(text: str, is_claim: bool) -> None:
    [one] = split_sentences(text)
    assert one.is_claim is is_claim


@pytest.mark.parametrize("text", ["", " \n\n ", "…\n---\n***", "```\nonly code\n```"])
def test_nothing_to_verify(text: str) -> None:
    assert split_sentences(text) == []
