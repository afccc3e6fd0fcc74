"""The line on which a sentence begins, and the mark of the list item or heading that it begins."""

import pytest

pytest.importorskip("sentencex", reason="needs sentencex, of the extra text")

from hypothesis import given
from hypothesis import strategies as st

from miv.checking import split_sentences


def lines_of(text: str, *, markdown: bool = True) -> list[tuple[str, int]]:
    return [(one.text, one.line) for one in split_sentences(text, markdown=markdown, code=True)]


def marks_of(text: str, *, markdown: bool = True) -> list[tuple[str, str]]:
    return [(one.mark, one.text) for one in split_sentences(text, markdown=markdown, code=True)]


def test_lines_of_a_markdown_document() -> None:
    text = (
        "# Bees\r\n\r\nThe [bee](https://example.org/bee_(a)) flies. It\r\nhums [1] loudly.\r\n\r\n"
        "```\r\nx = a[1]\r\nIt hums loudly.\r\n```\r\n1. It hums loudly.\r\n2. It flies **far\r\n   away**. It rests."
    )
    assert lines_of(text) == [
        ("Bees", 1),
        ("The bee flies.", 3),
        ("It hums loudly.", 3),
        ("x = a[1]", 7),
        ("It hums loudly.", 8),
        ("It hums loudly.", 10),
        ("It flies far away.", 11),
        ("It rests.", 12),
    ]


def test_what_is_not_read_is_not_mistaken_for_a_sentence() -> None:
    text = (
        "---\ntitle: It is old.\n---\n\n<!-- It is old. -->\n\nPress <kbd>A</kbd> now.\n\nIt is old.\n\nPress A now.\n"
    )
    found = [(one.text, one.line) for one in split_sentences(text, front_matter=True)]
    assert found == [("Press A now.", 7), ("It is old.", 9), ("Press A now.", 11)]


def test_the_rows_of_a_table_have_their_own_lines() -> None:
    head = "Capitals:\n\n| Country | Capital |\n| --- | --- |\n"
    text = head + "| France &amp; co | Paris<br>sur Seine |\n| Greece | a; b: c |\n"
    assert [line for _, line in lines_of(text)] == [1, 5, 6]


def test_a_plain_text_has_lines_too() -> None:
    assert lines_of("Bees hum.\n\nThey fly far\naway. They\nrest.\n", markdown=False) == [
        ("Bees hum.", 1),
        ("They fly far away.", 3),
        ("They rest.", 4),
    ]


def test_marks_of_items_and_headings() -> None:
    text = (
        "# Bees\n\nWasps\n-----\n\n- They fly. They hum.\n  1. Really.\n\n4) One bee\n5) Two bees\n\n> - Quoted bee\n"
    )
    assert marks_of(text) == [
        ("# ", "Bees"),
        ("## ", "Wasps"),
        ("- ", "They fly."),
        ("", "They hum."),
        ("  1. ", "Really."),
        ("4) ", "One bee"),
        ("5) ", "Two bees"),
        ("- ", "Quoted bee"),
    ]


def test_code_and_plain_text_keep_what_looks_like_a_mark() -> None:
    assert marks_of("```sh\n# install it\n- old line\n```") == [("", "# install it"), ("", "- old line")]
    assert marks_of("# The tower is tall.", markdown=False) == [("", "# The tower is tall.")]


def test_empty_lines_in_indented_code_count() -> None:
    found = split_sentences(
        "Run it:\n\n    pip install miv\n\n\n    miv demo now\n\nThen look.\n", code=True, indented_code=True
    )
    assert [(one.text, one.line, one.paragraph) for one in found] == [
        ("Run it:", 1, 1),
        ("pip install miv", 3, 2),
        ("miv demo now", 6, 2),
        ("Then look.", 8, 3),
    ]


def test_code_in_a_quote_ends_with_the_quote() -> None:
    found = split_sentences("> ```sh\n> pip install miv\n\nBees hum here all day.\n", code=True)
    assert [(one.text, one.is_claim) for one in found] == [("pip install miv", False), ("Bees hum here all day.", True)]


def test_code_in_a_quote_is_code() -> None:
    [one] = split_sentences("> ```sh\n> pip install miv --user\n> ```\n", code=True)
    assert (one.text, one.is_claim, one.line) == ("pip install miv --user", False, 2)


@pytest.mark.parametrize("markdown", [True, False])
@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("1. One bee.\n3. Two bees.", ["One bee.", "Two bees."]),
        ("1. One bee.\n2. Two bees.\n10. Ten bees.", ["One bee.", "Two bees.", "Ten bees."]),
        ("1. One bee.\n2) Two bees.", ["One bee.", "Two bees."]),
        ("- One bee.\n- \n- Two bees.", ["One bee.", "Two bees."]),
    ],
)
def test_a_list_goes_on_after_an_item(markdown: bool, text: str, items: list[str]) -> None:
    assert [one.text for one in split_sentences(text, markdown=markdown)] == items


@given(
    text=st.lists(
        st.sampled_from(
            ["# ", "- ", "1. ", "> ", "```", "---", "| a | b |", "<!--", "-->", "\t", "\n", "\r", "a bee. "]
        )
    ).map("".join),
    markdown=st.booleans(),
)
def test_lines_never_go_back_and_exist(text: str, markdown: bool) -> None:
    found = [one.line for one in split_sentences(text, markdown=markdown, code=True, indented_code=True)]
    assert found == sorted(found)
    assert all(1 <= line <= len(text.replace("\r\n", "\n").replace("\r", "\n").split("\n")) for line in found)
