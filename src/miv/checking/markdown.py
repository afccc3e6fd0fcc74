"""Split a text or a Markdown document into blocks, and remove the marks of Markdown inside a block."""

import html
import re
import string
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Literal

_BULLET = re.compile(r"\s*[-*+•](?:\s+(?=\S)|\s*$)")
_ORDINAL = re.compile(r"\s*(\(?)(?:(\d{1,3})([.)])|([a-zA-Z])\))\s+")
_MOST_LEFT_OUT = 10  # numbers of a list: a larger one at the start of a line is rather the end of a sentence


class ListMarkers:
    """Finds the marks of list items, in the order of a document.

    As in CommonMark, a line inside a paragraph starts a list only with a bullet before some text, or with the first
    number or letter. In a list, later numbers follow each other, or leave out a few. Dashes (– and —) are no marks.
    """

    def __init__(self) -> None:
        self._last: dict[str, int] = {}  # place of the last item, by the look of its mark
        self._bullets = 0  # a number may go on a list of bullets

    def length(self, line: str, *, in_paragraph: bool) -> int:
        """Number of characters before the text of a list item; 0 if the line starts no item."""
        bullet = _BULLET.match(line)
        if bullet and (not in_paragraph or self._bullets or bullet.end() < len(line)):
            self._bullets += 1
            return bullet.end()
        ordinal = _ORDINAL.match(line)
        if not ordinal:
            if not in_paragraph and line.strip() and not line[0].isspace():
                self._last, self._bullets = {}, 0  # text after a list
            return 0
        opening, digits, closing, letter = ordinal.groups()
        look = opening + (closing if digits else "a" if letter.islower() else "A")
        place = int(digits) if digits else ord(letter.lower()) - ord("a") + 1
        last = self._last.get(look)
        goes_on = last is not None and last < place <= last + _MOST_LEFT_OUT and not line[0].isspace()
        is_next = place - 1 == self._bullets or place - 1 in self._last.values() or last == place + 1 or goes_on
        if in_paragraph and not is_next and place != 1:
            return 0
        self._last[look] = place
        return ordinal.end()


# The line under the heads of the columns. Nothing is tried twice, so that the time stays linear.
_RULER = re.compile(r"\s*+\|?+\s*+:?-++:?+\s*+(?:\|\s*+:?-++:?+\s*+)*+\|?+\s*+$")
_BAR = re.compile(r"(?<!\\)\|")
# Heads are copied into every row. A table whose heads are far longer than its rows must not fill the memory.
_MOST_GROWTH = 20  # characters of heads per character of the rows so far
_ALWAYS = 2_000  # characters of heads that any table may add


class PipeTable:
    """A table that begins with the heads of its columns.

    Args:
        heads: one per column.
    """

    def __init__(self, heads: list[str]) -> None:
        self._heads = [head.rstrip(": ") for head in heads]
        self.is_empty = True
        self._room = _ALWAYS

    @classmethod
    def begun_by(cls, heads: str, ruler: str) -> "PipeTable | None":
        """A table if the second of two lines rules off as many columns as the first has; ``None`` otherwise."""
        if "|" not in ruler or "|" not in heads or not _RULER.match(ruler):
            return None
        found = _cells(heads)
        return cls(found) if len(found) == len(_cells(ruler)) else None

    def heads(self) -> str:
        """The heads as one text."""
        return "; ".join(filter(None, self._heads))

    def row(self, line: str) -> str | None:
        """A row as a text, such as ``Country: France; Capital: Paris``; ``None`` for a line that is no row.

        From the first row for whose heads there is no room, rows are their cells alone.
        """
        if not _BAR.search(line):
            return None
        self.is_empty = False
        pairs = [(head, cell) for cell, head in zip(_cells(line), chain(self._heads, repeat("")), strict=False) if cell]
        self._room += _MOST_GROWTH * len(line)
        self._room -= sum(len(head) for head, _ in pairs)
        if self._room < 0:
            self._heads = []
            return "; ".join(cell for _, cell in pairs)
        return "; ".join(f"{head}: {cell}" if head else cell for head, cell in pairs)


def _cells(line: str) -> list[str]:
    line = line.strip().removeprefix("|")
    line = line[:-1] if line.endswith("|") and not line.endswith("\\|") else line
    return [cell.strip().replace("\\|", "|") for cell in _BAR.split(line)]


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


# Texts come from anywhere, so no expression may look past the next mark of its kind: the time stays linear.
_LINK = re.compile(r"!?\[([^\[\]]*+)\]\([^()\s]*+(?:\([^()\s]*+\)[^()\s]*+)*+(?:\s++\"[^\"]*+\")?\)")
_LINK_BY_NAME = re.compile(r"\[([^\[\]]++)\]\[\]")
_EMPHASIS = re.compile(
    r"(\*\*|__)(?=\S)((?:(?!\1).)++)(?<=\S)\1|(?<!\w)([*_])(?=\S)([^*_]++)(?<=\S)\3(?!\w)", flags=re.DOTALL
)
_TICKS = re.compile(r"(`++)")
_KEPT = re.compile("\ue000(\\d+)\ue001")  # stands for a code span; its characters mean nothing in texts
_ESCAPE = re.compile(rf"\\([{re.escape(string.punctuation)}])")
_ESCAPED = {ord(mark): 0xE100 + ord(mark) for mark in string.punctuation}  # stands for the mark, and marks nothing
_UNESCAPED = {escaped: mark for mark, escaped in _ESCAPED.items()}
_NO_TEXT = dict.fromkeys([0xE000, 0xE001, *_UNESCAPED])
_CITATION = re.compile(r" ?\[(?:[1-9]\d{0,2}|\^[^\[\]\s]++)\](?=[\s.,;:!?\[]|$)")  # they count from 1: `a[0]` is code
_NUMBERED = re.compile(r"(?:\[\d{1,3}\])+$")
_IDENTIFIER = re.compile(
    r"^\W*[^\W\d]$|_|\w\(|\w\.\w"
)  # before [1] it is an index: a[1], my_list[1], f(x)[1], sys.argv[1]
_LONGEST_IDENTIFIER = 80
_NAMES = frozenset(
    {"__main__", "__all__", "__file__", "__version__", "__path__", "__slots__", "__future__", "__call__"}
).union(*map(dir, (type, dict, float, memoryview, sys)))  # of Python, which are written between the marks of emphasis
_NAME_GOES_ON, _NAME_BEFORE = re.compile(r"\.\w|\("), re.compile(r"\w\.$")
_COMMENT = re.compile(r"<!--(?:[^-<]|-(?!->))*+-->")
_BREAK = re.compile(
    r"</?(?:br|hr|p|div|li|ul|ol|td|th|tr|table|h[1-6]|summary|details|dt|dd)(?:\s[^<>]*+)?/?>", re.IGNORECASE
)
_TAG = re.compile(
    r"</?(?:a|abbr|b|big|blockquote|caption|center|cite|code|dl|del|em|figcaption|figure|font|i|img|ins|kbd|mark|picture|pre|q|s"
    r"|samp|section|small|source|span|strike|strong|sub|sup|tbody|tfoot|thead|tt|u|var|wbr)(?:\s[^<>]*+)?/?>",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"<((?:https?://|mailto:)[^<>\s]++|[\w.+-]++@[\w.-]++)>")
_ENTITY = re.compile(r"&(?:\w{1,31}|#\d{1,7}|#[xX][\da-fA-F]{1,6});")


def without_marks(block: str) -> str:
    """A block without marks of Markdown and numbered citations, with single spaces; code spans stay as they are."""
    spans: list[str] = []
    block = _without_code_spans(" ".join(block.split()).translate(_NO_TEXT), spans)
    block = _ESCAPE.sub(lambda found: found[1].translate(_ESCAPED), block)
    block = _ADDRESS.sub(r"\1", _COMMENT.sub("", block))
    block = _ENTITY.sub(lambda found: html.unescape(found[0]), _TAG.sub("", _BREAK.sub(" ", block)))
    block = _LINK.sub(r"\1", _LINK.sub(r"\1", block))  # twice: an image may be a link
    block = _EMPHASIS.sub(_without_emphasis, _LINK_BY_NAME.sub(r"\1", block))
    block = without_citations(block).translate(_UNESCAPED)
    return _KEPT.sub(lambda found: spans[int(found[1])], block)


def without_citations(text: str) -> str:
    """A text without numbers in square brackets after a word; the index of an identifier stays."""
    return _CITATION.sub(lambda found: found[0] if _is_index(text, found.start()) else "", text)


def _is_index(text: str, start: int) -> bool:
    word = text[max(0, start - _LONGEST_IDENTIFIER) : start].translate(_UNESCAPED)
    if text[start] == " " or not word or word[-1].isspace():
        return False
    return _IDENTIFIER.search(_NUMBERED.sub("", word.rsplit(None, 1)[-1])) is not None


def _without_code_spans(block: str, spans: list[str]) -> str:
    """Replace each code span by its number and append its text to ``spans``; ticks that enclose nothing go.

    A backslash before ticks means that they begin no span; inside a span it is an ordinary character.
    """
    parts = _TICKS.split(block)  # texts at even places, ticks between them
    last = {ticks: place for place, ticks in enumerate(parts) if place % 2}
    found, place = [parts[0]], 1
    while place < len(parts):
        ticks = parts[place]
        end = place
        before = parts[place - 1]
        if (len(before) - len(before.rstrip("\\"))) % 2:
            found[-1] = found[-1][:-1]
        elif last[ticks] > place:
            end = parts.index(ticks, place + 1)
            found.append(f"\ue000{len(spans)}\ue001")
            inside = "".join(parts[place + 1 : end : 2])  # without ticks, which sentencex takes for quotes
            spans.append(" ".join(inside.split()))
        found.append(parts[end + 1])
        place = end + 2
    return "".join(found)


def _without_emphasis(found: re.Match[str]) -> str:
    if found[0] in _NAMES or (found[1] == "__" and _is_name(found)):
        return found[0]
    return found[2] or found[4]


def _is_name(found: re.Match[str]) -> bool:
    """Whether a word between double underscores is part of a longer name, as in ``__init__.py``."""
    text, end = found.string, found.end()
    before = text[max(0, found.start() - 2) : found.start()]
    return found[2].isidentifier() and bool(_NAME_GOES_ON.match(text, end) or _NAME_BEFORE.search(before))
