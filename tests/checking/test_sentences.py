"""From a text to sentences that can be verified."""

import pytest

pytest.importorskip("sentencex", reason="needs sentencex, of the extra text")

from hypothesis import given as drawn, strategies as st

from miv.checking import split_sentences


def texts(text: str, **options: bool) -> list[str]:
    return [one.text for one in split_sentences(text, **options)]


def test_marks_of_markdown_are_removed() -> None:
    given = (
        "# Bees\n\n> A [bee](https://a.b/c.d) is **not** a `wasp` [12].\n\n"
        "- one *short* item\n2) second item\n\n***\nUnderlined\n===\nsnake_case_name stays."
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
        "` " * 100_000 + "x",
        "` `` ``` " * 30_000 + "x",
        "x" * 200_000 + "[1]" * 50_000,
        "<!-- " * 40_000,
        "<b " * 70_000,
        "<a@" * 70_000,
        "(" * 200_000,
        "|" * 100_000 + "\n" + "|-" * 100_000,
        "|-" * 100_000 + "\n" + "-|" * 100_000 + " x",
        "'" * 400_000 + "a",
        "“a " * 200_000,
        "a|b\n" + " " * 200_000 + "x|",
        "[a]: b" + " " * 200_000 + "x",
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
        ("A **very *busy* bee** flies __home now__.", "A very busy bee flies home now."),
        ("Bees fly  [1] [23].", "Bees fly."),
        ("The least of a heap is a[0].", "The least of a heap is a[0]."),
        ("Born in Warsaw[1] in 1867[2], she (Marie)[3] left.[4][5]", "Born in Warsaw in 1867, she (Marie) left."),
        ("Use `heap[1]` or ``a ` *b*`` or `**kwargs`, **or `c`** [3].", "Use heap[1] or a *b* or **kwargs, or c."),
        ("A lone ` tick goes.", "A lone tick goes."),
        (
            "Call __init__ and x.__foo__ and __foo__.py and __foo__().",
            "Call __init__ and x.__foo__ and __foo__.py and __foo__().",
        ),
        ("It is so,[^1] and it was[^note].", "It is so, and it was."),
        (r"It is \*not em\* here.", "It is *not em* here."),
        (r"It costs \$5 and \_not\_ \[1\], see my\_list.", "It costs $5 and _not_ [1], see my_list."),
        (r"Item 1\., bees are \\ and `\*` and `C:\` \&amp; \<b\>.", r"Item 1., bees are \ and \* and C:\ &amp; <b>."),
        (r"\# A \`lone\` tick *goes*.", "# A lone tick goes."),
        ("[^1]: The note is here.", "The note is here."),
        ("- [ ] To do is this", "To do is this"),
        ("- [x] Done is this", "Done is this"),
        (
            "A <b>bold</b> <span class='x'>word</span><br/>here &amp; there <!-- no --> now.",
            "A bold word here & there now.",
        ),
        ("<div>A block is here.</div>", "A block is here."),
        ("See <https://a.b/c> and a < b > c and <commandname>.", "See https://a.b/c and a < b > c and <commandname>."),
        ("[![A badge](a.png)](b.c) is here.", "A badge is here."),
        ("Read [INSTALL][] first.\n\n[INSTALL]: docs/INSTALL", "Read INSTALL first."),
        ("<!-- A comment. It\n\nends here. -->\nThe text is here.", "The text is here."),
    ],
)
def test_marks_at_their_borders(text: str, plain: str) -> None:
    assert texts(text) == [plain]


def test_lines_of_code_are_no_claims() -> None:
    found = split_sentences("Bees fly all day.\n```python\nbees = *fly*()\n}\n\nThe moon is made of cheese.")
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


@pytest.mark.parametrize(
    "code",
    [
        "    bees = fly()\n    hum(bees)",
        "\tbees = fly()\n\n\thum(bees)",
        "    # Bees fly\n    - x\n    > y\n        ```",
    ],
)
def test_indented_code_of_a_markdown_file_claims_nothing(code: str) -> None:
    kept = split_sentences(f"# Bees\n{code}\n\nBees fly\n    all day.\n\n{code}\nAfter the code.", in_file=True)
    assert [one.text for one in kept if one.is_claim] == ["Bees fly all day.", "After the code."]
    assert len(kept) > 3


def test_paragraphs_of_list_items_are_not_code() -> None:
    given = (
        "1. The first item.\n\n    Its second paragraph.\n\n        its = code\n\n   - A nested item.\n\n"
        "     Its own paragraph.\n\nAfter the list.\n\n    code = here"
    )
    assert texts(given, in_file=True) == [
        "The first item.",
        "Its second paragraph.",
        "its = code",
        "A nested item.",
        "Its own paragraph.",
        "After the list.",
        "code = here",
    ]


@pytest.mark.parametrize("markdown", [True, False])
@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("She died at the age of\n73. She moved to Leith.", ["She died at the age of 73.", "She moved to Leith."]),
        ("- She died aged\n  73. She moved.", ["She died aged 73.", "She moved."]),
        ("The bridge\n– built in 1900 – is long.", ["The bridge – built in 1900 – is long."]),
        ("The bridge\n— built in 1900 — is long.", ["The bridge — built in 1900 — is long."]),
        ("It is in class\nB) of the list.", ["It is in class B) of the list."]),
        ("Two steps:\n1. Mix it well.\n2. Bake it.", ["Two steps:", "Mix it well.", "Bake it."]),
        ("5) one\n6) two\n\n73. three", ["one", "two", "three"]),
        ("1. one\n   - inner\n2. two\n\nText from\n3. May on.", ["one", "inner", "two", "Text from 3.", "May on."]),
        ("Two things:\n- one thing\n* another\n• third", ["Two things:", "one thing", "another", "third"]),
        ("1. One bee.\n3. Two bees.", ["One bee.", "Two bees."]),
        ("1. One bee.\n2. Two bees.\n10. Ten bees.", ["One bee.", "Two bees.", "Ten bees."]),
        ("1. One bee.\n2) Two bees.", ["One bee.", "Two bees."]),
        ("- One bee.\n- \n- Two bees.", ["One bee.", "Two bees."]),
    ],
)
def test_list_items_and_numbers_at_the_start_of_a_wrapped_line(text: str, pieces: list[str], markdown: bool) -> None:
    assert texts(text, markdown=markdown) == pieces


def test_each_row_of_a_table_is_a_sentence() -> None:
    given = (
        "Two countries:\n| Country | **Capital** |\n|:---|---:|\n| France | Paris.<br>It is old. |\n"
        "| Peru | `a\\|b` |\n| | Oslo |\n\nAfter the table."
    )
    found = split_sentences(given, in_file=True)
    assert [one.text for one in found] == [
        "Two countries:",
        "Country: France; Capital: Paris. It is old.",
        "Country: Peru; Capital: a|b",
        "Capital: Oslo",
        "After the table.",
    ]
    assert [one.is_claim for one in found] == [False, True, True, False, True]
    assert [(one.paragraph, one.line) for one in found] == [(1, 1), (2, 4), (3, 5), (4, 6), (5, 8)]


@pytest.mark.parametrize("head", ["h" * 3_000, "h" * 200])
def test_heads_that_are_far_longer_than_the_rows_are_not_copied_into_all_of_them(head: str) -> None:
    given = f"{head}|h\n-|-\n" + "a|\n" * 2_000
    found = split_sentences(given)
    assert sum(len(one.text) for one in found) < 25 * len(given)
    assert [one.text for one in found[-2:]] == ["a", "a"]


ABBREVIATED = [
    "It weighs approx. 5 kg, incl. tax, at max. 30 and min. 4 degrees.",
    "See vol. 3, ch. 4, sec. 5, ed. 2 and vol. IV of it.",
    "Est. 1900 by them, it has temp. 30, dep. variables and no. of rows.",
    "The eds. of it, resp. she, cf. Jones, viz. Paris, paid excl. VAT, resp. etc. and so on.",
    "It lasts approx. (at most) an hour.",
]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("They ate eggs etc. The milk was cold.", ["They ate eggs etc.", "The milk was cold."]),
        ("The limit is the max. Go on.", ["The limit is the max.", "Go on."]),
        ("(Acme Inc. is large) and old.", ["(Acme Inc. is large) and old."]),
        ("", []),
        ("…\n---\n***", []),
        ("```\nonly code\n```", ["only code"]),
        ("A line that\nis wrapped here.\n\nAnother paragraph", ["A line that is wrapped here.", "Another paragraph"]),
        ("He met Dr. Smith et al. twice. It cost $3.5.", ["He met Dr. Smith et al. twice.", "It cost $3.5."]),
        ("To whom it concerns:\n\n    Bees fly all\n    day.", ["To whom it concerns:", "Bees fly all day."]),
        ("a | b\n--- | ---\n\nThe set {x | x > 0}\nis big.", ["a; b", "The set {x | x > 0} is big."]),
        ("A title\n---\nx | y", ["A title", "x | y"]),
        ("A.&#12288;B is here.", ["A. B is here."]),
        ("Before.\n\n````\n~~~\n```\nstill code\n`````\nAfter the code.", ["Before.", "still code", "After the code."]),
        ("```inline``` code has no fence.", ["inline code has no fence."]),
        *[(text, [text]) for text in ABBREVIATED],
    ],
)
def test_where_sentences_begin_and_end(text: str, pieces: list[str]) -> None:
    assert texts(text) == pieces


def test_a_long_paragraph_is_split_as_a_short_one() -> None:
    sentences = [f"Bee {number} flies {'very ' * (number % 40)}far, says Dr. Hive." for number in range(500)]
    sentences[3] = "It flies " + "and flies " * 2_000 + "on."
    assert texts(" ".join(sentences)) == sentences


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("---\ntitle: The moon. A text.\n# why\ntags:\n- a\n  - b\n---\nIt shines.", ["It shines."]),
        ("---\n---\nIt shines.", ["It shines."]),
        ("---\nThe moon is round.\n---\nIt shines.", ["The moon is round.", "It shines."]),
        ("---\nNote: it is round.\nIt is far.\n---\nIt shines.", ["Note: it is round.", "It is far.", "It shines."]),
        ("---\nNote: it is round.\n\n---\nIt shines.", ["Note: it is round.", "It shines."]),
        ("---\ntitle: The moon", ["title: The moon"]),
    ],
)
def test_only_yaml_between_rules_is_front_matter(text: str, pieces: list[str]) -> None:
    assert texts(text, in_file=True) == pieces


def test_plain_text_keeps_everything_but_citations() -> None:
    given = "# run: all of it\n<b> *x* `y` __init__ [ ] a[0] [2].\n\n- [x] one\n- two"
    assert texts(given, markdown=False) == ["# run: all of it <b> *x* `y` __init__ [ ] a[0].", "[x] one", "two"]


def test_in_scripts_without_spaces_characters_count() -> None:
    found = split_sentences(
        "玛丽·居里出生于华沙。是的。她于1911年获得诺贝尔化学奖！这是真的吗？マリはワルシャワで生まれた。"
    )
    assert [one.text for one in found] == [
        "玛丽·居里出生于华沙。",
        "是的。",
        "她于1911年获得诺贝尔化学奖！",
        "这是真的吗？",
        "マリはワルシャワで生まれた。",
    ]
    assert [one.is_claim for one in found] == [True, False, True, True, True]


# The line on which a sentence begins, and the mark of the list item or heading that it begins.


def lines_of(text: str, *, markdown: bool = True) -> list[tuple[str, int]]:
    return [(one.text, one.line) for one in split_sentences(text, markdown=markdown)]


def marks_of(text: str) -> list[tuple[str, str]]:
    return [(one.mark, one.text) for one in split_sentences(text)]


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


@pytest.mark.parametrize(
    ("text", "lines", "markdown"),
    [
        ("Bees hum.\n\nThey fly far\naway. They\nrest.\n", [1, 3, 4], False),
        ("# The tower is tall.\n\n- Yes.", [1, 3], False),
        ("Capitals:\n\n| a | b |\n| --- | --- |\n| c &amp; d | e<br>f |\n| g | a; b: c |\n", [1, 5, 6], True),
        ("> ```sh\n> pip install miv\n\nBees hum here all day.\n", [2, 4], True),
        ("```sh\n# install it\n- old line\n```", [2, 3], True),
    ],
)
def test_lines_of_code_and_plain_text(text: str, lines: list[int], markdown: bool) -> None:
    assert [line for _, line in lines_of(text, markdown=markdown)] == lines


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


@drawn(
    text=st.lists(
        st.sampled_from(
            ["# ", "- ", "1. ", "> ", "```", "---", "| a | b |", "<!--", "-->", "\t", "\n", "\r", "a bee. "]
        )
    ).map("".join),
    markdown=st.booleans(),
)
def test_lines_never_go_back_and_exist(text: str, markdown: bool) -> None:
    found = [one.line for one in split_sentences(text, markdown=markdown, in_file=True)]
    assert found == sorted(found)
    assert all(1 <= line <= len(text.replace("\r\n", "\n").replace("\r", "\n").split("\n")) for line in found)
