"""Split a text or a Markdown document into sentences that can be verified one by one."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from miv.errors import needs_extra

_FENCE = re.compile(r"\s*(```|~~~)")
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
_FEWEST_WORDS = 3  # a shorter piece, such as "Yes.", states nothing that a source could contain
_LANGUAGE = "en"  # of the sentence rules: miv/evidence reads English


@dataclass(frozen=True)
class Sentence:
    """A sentence of a text.

    Args:
        text: the sentence in one line, without the marks of Markdown.
        number: its place among the sentences of the text, from 1.
        paragraph: the number of its paragraph, heading or list item, from 1.
        is_claim: whether it states something: false for a heading and for fewer than three words.
    """

    text: str
    number: int
    paragraph: int
    is_claim: bool


def split_sentences(text: str, *, markdown: bool = True) -> list[Sentence]:
    r"""Split a text into sentences; a heading and a list item without a full stop are sentences of their own.

    Args:
        text: the text; empty lines separate paragraphs, and lines inside a paragraph are joined.
        markdown: whether to remove the marks of Markdown (emphasis, links, quotes) and to leave out code blocks.

    >>> [one.text for one in split_sentences("# Bees\n\nDr. Bee flies at 5 p.m. daily. It hums.\n- A *short* item")]
    ['Bees', 'Dr. Bee flies at 5 p.m. daily.', 'It hums.', 'A short item']
    """
    with needs_extra("text", "Splitting a text into sentences", "sentencex"):
        from sentencex import segment

    found: list[Sentence] = []
    for paragraph, (block, is_heading) in enumerate(_blocks(text, markdown), start=1):
        plain = _plain(block) if markdown else block
        for piece in [plain] if is_heading else segment(_LANGUAGE, plain):
            words = " ".join(piece.split())
            if _WORD.search(words):
                is_claim = not is_heading and len(_WORD.findall(words)) >= _FEWEST_WORDS
                found.append(Sentence(words, len(found) + 1, paragraph, is_claim))
    return found


def _blocks(text: str, markdown: bool) -> Iterator[tuple[str, bool]]:
    """Paragraphs, list items and headings, each in one line, and whether it is a heading."""
    lines: list[str] = []
    in_code = False
    for line in [*text.splitlines(), ""]:
        if markdown and _FENCE.match(line):
            in_code, line = not in_code, ""
        elif in_code:
            continue
        quoted = _QUOTED.match(line) if markdown else None
        line = line[quoted.end() if quoted else 0 :]
        heading = _heading(line) if markdown else None
        if markdown and len(lines) == 1 and _UNDERLINE.match(line):
            yield lines.pop(), True
            continue
        starts_new = not line.strip() or heading is not None or _MARKER.match(line) or (markdown and _RULE.match(line))
        if starts_new and lines:
            yield " ".join(lines), False
            lines = []
        if heading is not None:
            yield heading, True
        elif line.strip() and not (markdown and _RULE.match(line)):
            marker = _MARKER.match(line)
            lines.append(line[marker.end() if marker else 0 :].strip())


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
