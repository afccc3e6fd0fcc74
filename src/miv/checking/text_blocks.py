"""Split a text or a Markdown document into blocks: paragraphs, list items, headings, rows of tables and code."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from miv.checking.list_markers import ListMarkers
from miv.checking.pipe_tables import PipeTable

Kind = Literal["prose", "heading", "row", "code"]


@dataclass(frozen=True)
class Block:
    """A piece of a text.

    Args:
        lines: its text, line by line.
        kind: what it is.
        line: number of its first line in the text, from 1.
        mark: of the list item or heading that it is, such as ``"- "`` or ``"## "``; else ``""``.
    """

    lines: tuple[str, ...]
    kind: Kind
    line: int
    mark: str = ""


_FENCE = re.compile(r"\s*(`{3,}+(?=[^`]*$)|~{3,}+)")
_UNDERLINE = re.compile(r"\s*(=+|-{2,})\s*$")
_RULE = re.compile(r"\s*([-*_])(\s*\1){2,}\s*$")
_QUOTED = re.compile(r"\s*(?:>\s?)+")
_TASK = re.compile(r"\[[ xX]\]\s+")
_FOOTNOTE = re.compile(r" {0,3}\[\^[^\[\]\s]++\]:\s*")
_LINK_DEFINITION = re.compile(r" {0,3}\[[^\[\]^][^\[\]]*+\]:\s*+\S++\s*+(?:\"[^\"]*+\"|'[^']*+'|\([^()]*+\))?+\s*+$")
_YAML = re.compile(r"\s+\S|#|-(?:\s|$)|[\w\"'][^:]*+:(?:\s|$)")  # a line of front matter
_AFTER_A_STOP = "*_\"'”’)] "
_CODE_INDENT = 4


def plain_blocks(lines: Iterable[str]) -> Iterator[Block]:
    """Paragraphs and list items of a plain text."""
    paragraph = _Paragraph()
    markers = ListMarkers()
    for number, line in enumerate([*lines, ""], start=1):
        marker = markers.length(line, in_paragraph=bool(paragraph.lines))
        if paragraph.lines and (marker or not line.strip()):
            yield paragraph.block()
        if line.strip():
            paragraph.add(line[marker:], number, line[:marker].expandtabs(_CODE_INDENT))


def markdown_blocks(lines: list[str], *, front_matter: bool, indented_code: bool) -> Iterator[Block]:
    """Paragraphs, list items, headings, rows of tables and code blocks of a Markdown document."""
    paragraph, code = _Paragraph(), _Paragraph()
    fence = ""  # of the code block that the line is in
    fence_is_quoted = False
    table: PipeTable | None = None
    may_be_heading = True
    markers, indent = ListMarkers(), _CodeIndent()
    in_comment = False
    before = _front_matter(lines) if front_matter else 0
    for number, given in enumerate([*lines[before:], ""], start=before + 1):
        line = given.expandtabs(_CODE_INDENT)
        if fence_is_quoted and not _QUOTED.match(line):
            fence = ""  # the code ends with its quote
        if fence:
            line = _QUOTED.sub("", line, count=1) if fence_is_quoted else line
            if not _ends(fence, line):
                code.add(line, number)
                continue
            fence = ""
            if code.lines:
                yield code.block("code")
            continue
        if in_comment or line.lstrip().startswith("<!--"):
            in_comment = "-->" not in line
            line = line.partition("-->")[2]
        if indented_code and not paragraph.lines and table is None and indent.is_code(line):
            code.add(line, number)
            continue
        if code.lines and line.strip():
            yield code.block("code")
        elif code.lines:
            code.add(line, number)
        quoted = _QUOTED.match(line)
        line = line[quoted.end() if quoted else 0 :]
        if opening := _FENCE.match(line):
            fence, fence_is_quoted, line = opening[1], bool(quoted), ""
        if table is not None:
            row = table.row(line)
            if row is not None:
                yield Block((row,), "row", number)
                continue
            if table.is_empty:
                yield Block((table.heads(),), "heading", number - 2)
            table = None
        elif paragraph.lines and (table := PipeTable.begun_by(paragraph.lines[-1], line)):
            paragraph.lines.pop()
            if paragraph.lines:
                yield paragraph.block()
            continue
        heading = _heading(line)
        if len(paragraph.lines) == 1 and (underline := _UNDERLINE.match(line)):
            is_heading = may_be_heading and not _is_sentence(paragraph.lines[0])
            paragraph.mark = ("# " if underline[1][0] == "=" else "## ") if is_heading else paragraph.mark
            yield paragraph.block("heading" if is_heading else "prose")
            continue
        is_rule = _RULE.match(line)
        marker = 0 if is_rule else markers.length(line, in_paragraph=bool(paragraph.lines))
        mark = line[:marker]
        indent.follow(line, 0 if quoted else marker)
        if not paragraph.lines and _LINK_DEFINITION.match(line):
            continue
        if note := _FOOTNOTE.match(line):
            marker = note.end()
        elif marker and (task := _TASK.match(line, marker)):
            marker = task.end()
        if paragraph.lines and (not line.strip() or heading is not None or marker or is_rule):
            yield paragraph.block()
        if heading is not None:
            level = len(line.strip()) - len(line.strip().lstrip("#"))
            yield Block((heading,), "heading", number, "#" * level + " ")
        elif line[marker:].strip() and not is_rule:
            may_be_heading = not (marker or quoted)
            paragraph.add(line[marker:], number, mark)
    if code.lines:
        yield code.block("code")


class _Paragraph:
    """Gathers the lines of a block, which follow each other in the text."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.mark = ""
        self._first = 0

    def add(self, line: str, number: int, mark: str = "") -> None:
        if not self.lines:
            self._first, self.mark = number, mark
        self.lines.append(line)

    def block(self, kind: Kind = "prose") -> Block:
        """The lines as a block; the next line begins another one."""
        lines, self.lines = self.lines, []
        return Block(tuple(lines), kind, self._first, self.mark)


def _front_matter(lines: list[str]) -> int:
    """Number of lines of the YAML between two rules at the top of a document, with the rules; 0 if there is none."""
    if not lines or lines[0].rstrip() != "---":
        return 0
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() in ("---", "..."):
            return number + 1
        if not _YAML.match(line):
            break
    return 0


class _CodeIndent:
    """Tells lines of indented code, in the order of a document: four spaces more than the text around them."""

    def __init__(self) -> None:
        self._text = 0  # spaces before the text of the list item that the line is in; 0 outside lists
        self._after_blank = True

    def is_code(self, line: str) -> bool:
        """Whether a line outside a paragraph is code; a paragraph goes on however its lines are indented."""
        return bool(line.strip()) and _indent(line) >= self._text + _CODE_INDENT

    def follow(self, line: str, marker: int) -> None:
        """Take note of a line that is no code, and of the length of the mark of a list item before its text."""
        if not line.strip():
            self._after_blank = True
            return
        if marker:
            self._text = marker
        elif self._after_blank and _indent(line) == 0:
            self._text = 0
        self._after_blank = False


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


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
