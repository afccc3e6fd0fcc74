"""Split a text or a Markdown document into sentences that can be verified one by one."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from miv.errors import needs_extra

_FENCE = re.compile(r"\s*(`{3,}+(?=[^`]*$)|~{3,}+)")
_UNDERLINE = re.compile(r"\s*(=+|-{2,})\s*$")
_RULE = re.compile(r"\s*([-*_])(\s*\1){2,}\s*$")
_MARKER = re.compile(r"\s*(?:[-*+•–]|\(?\d{1,3}[.)]|\(?[a-zA-Z]\))\s+")  # of a list item
_QUOTED = re.compile(r"\s*(?:>\s?)+")
# Texts come from anywhere, so no expression may look past the next mark of its kind: the time stays linear.
_LINK = re.compile(r"!?\[([^\[\]]*+)\]\([^()\s]*+(?:\([^()\s]*+\)[^()\s]*+)*+(?:\s++\"[^\"]*+\")?\)")
_EMPHASIS = re.compile(
    r"(\*\*|__)(?=\S)((?:(?!\1).)++)(?<=\S)\1|(?<!\w)([*_])(?=\S)([^*_]++)(?<=\S)\3(?!\w)", flags=re.DOTALL
)
_WORD = re.compile(r"[^\W_]+")
_CITATION = re.compile(r" ?\[\d{1,3}\](?=[\s.,;:!?\[]|$)")
_AFTER_A_STOP = "*_\"'”’)] "
_FEWEST_WORDS = 3  # a shorter piece, such as "Yes.", states nothing that a source could contain
_LANGUAGE = "en"  # of the sentence rules: miv/evidence reads English

_Kind = Literal["prose", "heading", "code"]


@dataclass(frozen=True)
class Sentence:
    """A sentence of a text.

    Args:
        text: the sentence in one line, without the marks of Markdown.
        number: its place among the sentences of the text, from 1.
        paragraph: the number of its paragraph, heading or list item, from 1.
        is_claim: whether it states something: false for a heading, for code and for fewer than three words.
    """

    text: str
    number: int
    paragraph: int
    is_claim: bool


def split_sentences(text: str, *, markdown: bool = True, code: bool = False) -> list[Sentence]:
    r"""Split a text into sentences; a heading and a list item without a full stop are sentences of their own.

    Args:
        text: the text; empty lines separate paragraphs, and lines inside a paragraph are joined.
        markdown: whether to remove the marks of Markdown (emphasis, links, quotes) and to read code blocks as code.
        code: whether to keep the lines of code blocks, as sentences that state nothing; otherwise they are left out.

    >>> [one.text for one in split_sentences("# Bees\n\nDr. Bee flies at 5 p.m. daily. It hums.\n- A *short* item")]
    ['Bees', 'Dr. Bee flies at 5 p.m. daily.', 'It hums.', 'A short item']
    """
    with needs_extra("text", "Splitting a text into sentences", "sentencex"):
        from sentencex import segment

    found: list[Sentence] = []
    blocks = ((block, kind) for block, kind in _blocks(text, markdown) if code or kind != "code")
    for paragraph, (block, kind) in enumerate(blocks, start=1):
        if kind == "code":
            pieces = block.splitlines()
        else:
            plain = _plain(block) if markdown else block
            pieces = [plain] if kind == "heading" else list(segment(_LANGUAGE, plain))
        for piece in pieces:
            words = " ".join(piece.split())
            if _WORD.search(words):
                is_claim = kind == "prose" and len(_WORD.findall(words)) >= _FEWEST_WORDS
                found.append(Sentence(words, len(found) + 1, paragraph, is_claim))
    return found


def _blocks(text: str, markdown: bool) -> Iterator[tuple[str, _Kind]]:
    """Paragraphs, list items and headings, each in one line, and code blocks."""
    lines: list[str] = []
    code: list[str] = []
    fence = ""  # of the code block that the line is in
    may_be_heading = True
    for line in [*text.splitlines(), ""]:
        if fence:
            if _ends(fence, line):
                yield "\n".join(code), "code"
                fence, code = "", []
            else:
                code.append(line)
            continue
        opening = _FENCE.match(line) if markdown else None
        if opening:
            fence, line = opening[1], ""
        quoted = _QUOTED.match(line) if markdown else None
        line = line[quoted.end() if quoted else 0 :]
        heading = _heading(line) if markdown else None
        if markdown and len(lines) == 1 and _UNDERLINE.match(line):
            yield lines[0], "heading" if may_be_heading and not _is_sentence(lines[0]) else "prose"
            lines = []
            continue
        is_rule = markdown and _RULE.match(line)
        marker = _MARKER.match(line)
        if lines and (not line.strip() or heading is not None or marker or is_rule):
            yield " ".join(lines), "prose"
            lines = []
        if heading is not None:
            yield heading, "heading"
        elif line.strip() and not is_rule:
            may_be_heading = not (marker or quoted)
            lines.append(line[marker.end() if marker else 0 :].strip())
    if code:
        yield "\n".join(code), "code"


def _ends(fence: str, line: str) -> bool:
    """Whether a line ends a code block: as many of the same marks as it began with, or more, and nothing else."""
    line = line.strip()
    return line.startswith(fence) and not line.strip(fence[0])


def _is_sentence(line: str) -> bool:
    """Whether a line ends as sentences do, and headings do not."""
    return line.rstrip(_AFTER_A_STOP).endswith((".", "!", "?", "…"))


def _heading(line: str) -> str | None:
    """The text of a heading that starts with one to six #; ``None`` for another line."""
    line = line.strip()
    title = line.lstrip("#")
    is_heading = 1 <= len(line) - len(title) <= 6 and (not title or title[0].isspace())
    return title.rstrip("#").strip() if is_heading else None


def _plain(block: str) -> str:
    """A block without links, emphasis and numbered citations, with single spaces."""
    block = _LINK.sub(r"\1", " ".join(block.split()))
    block = _EMPHASIS.sub(lambda found: found[2] or found[4], block).replace("`", "")
    return _CITATION.sub("", block)
