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


@pytest.mark.parametrize(
    "text",
    [
        "# " + " " * 100_000 + "x" + " " * 100_000 + "y",
        "# " + "#" * 100_000 + " " * 100_000 + "y",
        "**a " * 50_000,
        "__" * 50_000 + "a " * 50_000,
        "*a " * 70_000,
        "[" * 200_000,
        "[a](b " * 40_000,
        "[a](" + "(" * 200_000,
        '[a](b "' * 30_000,
        "a" + " " * 200_000 + "b",
        "- " * 100_000 + "x",
    ],
    ids=lambda text: text[:8].strip() or "spaces",
)
def test_the_marks_of_a_hostile_text_are_read_in_one_pass(text: str) -> None:
    """An expression that tries again from every place would take minutes to hours."""
    assert len(split_sentences(text)) <= 1


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("## Bees ##", "Bees"),
        ("####### seven are none", "####### seven are none"),
        ("#hashtag is no heading", "#hashtag is no heading"),
        ("A [bee](https://a.b/c_(d)) flies.", "A bee flies."),
        ('A [bee](a.b "The title") flies.', "A bee flies."),
        ("A **very *busy* bee** flies __home__.", "A very *busy* bee flies home."),
        ("Bees fly  [1] [23].", "Bees fly."),
    ],
)
def test_marks_at_their_borders(text: str, plain: str) -> None:
    assert texts(text) == [plain]


def test_only_a_fence_of_the_same_kind_ends_code() -> None:
    given = "Before the code.\n\n````\n~~~\n```\nstill code\n`````\nAfter the code."
    assert texts(given) == ["Before the code.", "After the code."]
    assert texts("```inline``` code has no fence.") == ["inline code has no fence."]


def test_code_can_be_kept_as_sentences_that_are_no_claims() -> None:
    found = split_sentences("Bees fly all day.\n```python\nbees = *fly*()\n}\n\nThe moon is made of cheese.", code=True)
    assert [one.text for one in found] == ["Bees fly all day.", "bees = *fly*()", "The moon is made of cheese."]
    assert [one.is_claim for one in found] == [True, False, False]
    assert [one.paragraph for one in found] == [1, 2, 2]


@pytest.mark.parametrize(
    ("text", "is_claim"),
    [
        ("The moon is made of green cheese.\n---", True),
        ("**The moon is made of green cheese!**\n---", True),
        ("- The moon is made of green cheese\n---", True),
        ("> The moon is made of green cheese\n---", True),
        ("The moon is made of green cheese\n---", False),
        ("All about green cheese\n===", False),
    ],
)
def test_a_line_under_a_whole_sentence_does_not_make_it_a_heading(text: str, is_claim: bool) -> None:
    first, second = split_sentences(f"{text}\nNext comes this.")
    assert (first.is_claim, second.is_claim) == (is_claim, True)
    assert second.text == "Next comes this."
