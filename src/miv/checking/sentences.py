"""Split a text or a Markdown document into sentences that can be verified one by one."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from miv.checking.markdown_marks import without_citations, without_marks
from miv.checking.sentence_ends import split_prose
from miv.checking.text_blocks import Block, markdown_blocks, plain_blocks

_UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")  # in scripts without spaces, such as Chinese, a character
_OPENING, _CLOSING = ('"', "'", "“", "‘", "«", "("), "\"'”’»)"
_NO_LETTER = re.compile(r"[\W_]+")
_LINE_END = re.compile(r"\r\n|\r|\n")  # as editors count lines
_FEWEST_WORDS = 3  # of a claim; a shorter piece, such as "Yes.", states nothing that a source could contain
_FEWEST_WORDS_OF_EVIDENCE = 2  # one word, such as the title "Bees", shows nothing


@dataclass(frozen=True)
class Sentence:
    """A sentence of a text.

    Args:
        text: the sentence in one line, without the marks of Markdown.
        number: its place among the sentences of the text, from 1.
        paragraph: the number of its paragraph, heading, list item or row, from 1.
        is_claim: whether an answer states something with it: false for a heading, for code, for a question and for
            fewer than three words.
        is_evidence: whether a source may show something with it: any piece of at least two words, also a heading, a
            list item such as "3 eggs" or a line of code.
        line: the line of the text on which it begins, from 1.
        mark: of the list item or heading that it begins, such as ``"- "`` or ``"## "``; else ``""``.
    """

    text: str
    number: int
    paragraph: int
    is_claim: bool
    is_evidence: bool
    line: int
    mark: str


def split_sentences(
    text: str,
    *,
    markdown: bool = True,
    code: bool = False,
    indented_code: bool = False,
    front_matter: bool = False,
) -> list[Sentence]:
    r"""Split a text into sentences; headings, list items and rows of tables are sentences of their own.

    Args:
        text: the text; empty lines separate paragraphs, and lines inside a paragraph are joined.
        markdown: whether to remove the marks of Markdown (emphasis, links, quotes) and to read code blocks as code.
        code: whether to keep the lines of code blocks, as sentences that claim nothing; otherwise they are left out.
        indented_code: whether four spaces before the lines of a paragraph make it a code block, as in a Markdown file;
            in other texts they are often only layout.
        front_matter: whether to leave out YAML at the top, as in a Markdown file; in other texts it may be a claim.

    >>> [one.text for one in split_sentences("# Bees\n\nDr. Bee flies at 5 p.m. daily. It hums.\n- A *short* item")]
    ['Bees', 'Dr. Bee flies at 5 p.m. daily.', 'It hums.', 'A short item']
    """
    found: list[Sentence] = []
    lines = _LINE_END.split(text)
    blocks = (
        markdown_blocks(lines, front_matter=front_matter, indented_code=indented_code)
        if markdown
        else plain_blocks(lines)
    )
    kept = (block for block in blocks if code or block.kind != "code")
    for paragraph, block in enumerate(kept, start=1):
        mark = block.mark
        for piece, line in _pieces(block, markdown):
            words = " ".join(piece.split())
            length = word_count(words)
            if length:
                states = block.kind in ("prose", "row") and not _is_question(words)
                is_claim = states and length >= _FEWEST_WORDS
                is_evidence = length >= _FEWEST_WORDS_OF_EVIDENCE
                found.append(Sentence(words, len(found) + 1, paragraph, is_claim, is_evidence, line, mark))
                mark = ""
    return found


def word_count(text: str) -> int:
    """Number of words; in scripts without spaces, such as Chinese, of characters."""
    return len(_WORD.findall(text))


def _pieces(block: Block, markdown: bool) -> Iterator[tuple[str, int]]:
    """The sentences of a block, and the line on which each begins."""
    if block.kind == "code":
        yield from zip(block.lines, range(block.line, block.line + len(block.lines)), strict=True)
        return
    cleaned = without_marks if markdown else without_citations
    plain = cleaned(" ".join(line.strip() for line in block.lines))
    # Where a sentence begins follows from the letters before it: it has neither the line breaks nor the marks.
    ends = list(accumulate(_letters(cleaned(line)) for line in block.lines))
    before = 0
    for piece in split_prose(plain) if block.kind == "prose" else [plain]:
        yield piece, block.line + min(bisect_right(ends, before), len(ends) - 1)
        before += _letters(piece)


def _is_question(text: str) -> bool:
    """Whether a sentence asks, so that it states nothing; *He asked "why?"* states something."""
    return text.endswith("?") or (text.startswith(_OPENING) and text.rstrip(_CLOSING).endswith("?"))


def _letters(text: str) -> int:
    return len(_NO_LETTER.sub("", text))
