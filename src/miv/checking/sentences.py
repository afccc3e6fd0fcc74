"""Split a text or a Markdown document into sentences that can be verified one by one."""

import html
import re
import string
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain, repeat
from typing import Literal

from miv.errors import needs_extra

_UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")  # in scripts without spaces, such as Chinese, a character
_OPENING, _CLOSING = ('"', "'", "“", "‘", "«", "("), "\"'”’»)"
_STOPS = (".", "!", "?", "…")
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
        is_claim: whether an answer states something with it: false for a heading, for code, for a line that ends in
            a colon, for a question and for fewer than three words.
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


def split_sentences(text: str, *, markdown: bool = True, in_file: bool = False) -> list[Sentence]:
    r"""Split a text into sentences; headings, list items and rows of tables are sentences of their own.

    Args:
        text: the text; empty lines separate paragraphs, and lines inside a paragraph are joined.
        markdown: whether to remove the marks of Markdown (emphasis, links, quotes) and to read code blocks as code,
            whose lines are sentences that claim nothing.
        in_file: whether four spaces before the lines of a paragraph make it a code block and YAML at the top is left
            out, as in a Markdown file; in other texts the first are often only layout, and the second may be a claim.

    >>> text = "# Bees\n\nDr. Bee flies at 5 p.m. daily. It hums.\n- A *short* item"
    >>> [sentence.text for sentence in split_sentences(text)]
    ['Bees', 'Dr. Bee flies at 5 p.m. daily.', 'It hums.', 'A short item']
    """
    lines = _LINE_END.split(text)
    header = _FRONT_MATTER.match("\n".join(lines)) if in_file else None
    if header:
        lines[: header[0].count("\n") + 1] = [""] * (header[0].count("\n") + 1)
    sentences: list[Sentence] = []
    for paragraph, block in enumerate(_blocks(lines, markdown, in_file), start=1):
        mark = block.mark
        for piece, line in _pieces(block, markdown):
            piece = " ".join(piece.split())
            length = word_count(piece)
            if length:
                states = block.kind in ("prose", "row") and not (_is_question(piece) or piece.endswith((":", "：")))
                is_claim = states and length >= _FEWEST_WORDS
                is_evidence = length >= _FEWEST_WORDS_OF_EVIDENCE
                sentences.append(Sentence(piece, len(sentences) + 1, paragraph, is_claim, is_evidence, line, mark))
                mark = ""
    return sentences


def word_count(text: str) -> int:
    """Number of words; in scripts without spaces, such as Chinese, of characters."""
    return len(_WORD.findall(text))


def _pieces(block: "_Block", markdown: bool) -> Iterator[tuple[str, int]]:
    """The sentences of a block, and the line on which each begins."""
    if block.kind == "code":
        yield from zip(block.lines, range(block.line, block.line + len(block.lines)), strict=True)
        return
    clean = without_marks if markdown else partial(_CITATION.sub, "")
    plain = clean(" ".join(line.strip() for line in block.lines))
    # Where a sentence begins follows from the letters before it: it has neither the line breaks nor the marks.
    ends = list(accumulate(_letters(clean(line)) for line in block.lines))
    before = 0
    for piece in _split_prose(plain) if block.kind == "prose" else [plain]:
        yield piece, block.line + min(bisect_right(ends, before), len(ends) - 1)
        before += _letters(piece)


def _is_question(text: str) -> bool:
    """Whether a sentence asks, so that it states nothing; *He asked "why?"* states something."""
    return text.endswith("?") or (text.startswith(_OPENING) and text.rstrip(_CLOSING).endswith("?"))


def _letters(text: str) -> int:
    return len(_NO_LETTER.sub("", text))


# Blocks: markdown-it reads them. Its inline rules are not used: their time grows with the square of hostile texts.

_MOST_NESTING = 60  # lists and quotes inside each other
_BULLET = re.compile(r"^([ \t]*)•(?=[ \t])", re.MULTILINE)
_TASK_BOX = re.compile(r"\[[ xX]\]\s+")
_FOOTNOTE = re.compile(r"\[\^[^\[\]\s]++\]:\s*")
_FRONT_MATTER = re.compile(
    r"---[ \t]*\n(?:(?:[ \t]+\S|#|-(?=\s)|[\w\"'][^:\n]*+:(?=\s)).*\n)*+(?:---|\.\.\.)[ \t]*$", re.MULTILINE
)
_AFTER_A_STOP = "*_\"'”’)] "
# Heads are copied into every row. A table whose heads are far longer than its rows must not fill the memory.
_MOST_GROWTH = 20  # characters of heads per character of the rows
_ALWAYS = 2_000  # characters of heads that any table may add


@dataclass(frozen=True)
class _Block:
    """A paragraph, heading, row of a table or code block: its lines, the number of the first one, and its mark."""

    lines: list[str]
    kind: Literal["prose", "heading", "row", "code"]
    line: int
    mark: str = ""


def _blocks(lines: list[str], markdown: bool, indented_code: bool) -> Iterator[_Block]:
    """The blocks of a Markdown document; of a plain text, its paragraphs and list items."""
    with needs_extra("text", "Splitting a text into sentences", "markdown-it-py"):
        from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark" if markdown else "zero", {"maxNesting": _MOST_NESTING})
    parser.enable("table" if markdown else "list").disable(["inline"] if indented_code else ["inline", "code"])
    mark, depth, heading = "", 0, ""
    table: list[tuple[int, list[str]]] | None = None  # line and cells of each row
    for token in parser.parse(_BULLET.sub(r"\1-", "\n".join(lines))):
        first = token.map[0] + 1 if token.map else 0
        if token.type == "list_item_open":
            mark = f"{'  ' * depth}{token.info}{token.markup} "
            depth += 1
        elif token.type == "list_item_close":
            mark, depth = "", depth - 1
        elif token.type == "heading_open":
            heading = token.markup
        elif token.type == "table_open":
            table = []
        elif token.type == "tr_open" and table is not None:
            table.append((first, []))
        elif token.type == "table_close" and table is not None:
            yield from _table_blocks(table)
            table = None
        elif token.type == "inline" and table is not None:
            table[-1][1].append(token.content)
        elif token.type == "inline":
            content = token.content.split("\n")
            is_sentence = len(content) > 1 or content[0].rstrip(_AFTER_A_STOP).endswith(_STOPS)
            if heading and (heading[0] == "#" or not is_sentence):  # some underline a sentence
                level = {"=": 1, "-": 2}.get(heading[0], len(heading))
                yield _Block(content, "heading", first, "#" * level + " ")
            else:
                start = (_TASK_BOX if mark else _FOOTNOTE).match(content[0]) if markdown else None
                content[0] = content[0][start.end() if start else 0 :]
                yield _Block(content, "prose", first, mark)
            mark, heading = "", ""
        elif token.type in ("fence", "code_block"):
            yield _Block(token.content.split("\n"), "code", first + (token.type == "fence"))
        elif token.type == "html_block":
            text, comment = token.content, ""
            if text.lstrip().startswith("<!--"):
                comment, _, text = text.partition("-->")
            yield _Block(text.split("\n"), "prose", first + comment.count("\n"), mark)


def _table_blocks(table: list[tuple[int, list[str]]]) -> Iterator[_Block]:
    """Rows such as ``Country: France; Capital: Paris``; the heads as a heading if there is no row."""
    (line, heads), *rows = table
    if not rows:
        yield _Block(["; ".join(filter(None, heads))], "heading", line)
    heads = [head.rstrip(": ") for head in heads]
    size = sum(len(cell) for _, cells in rows for cell in cells)
    if len(rows) * sum(map(len, heads)) > _ALWAYS + _MOST_GROWTH * size:
        heads = []
    for line, cells in rows:
        pairs = zip(chain(heads, repeat("")), cells, strict=False)
        yield _Block(["; ".join(f"{head}: {cell}" if head else cell for head, cell in pairs if cell)], "row", line)


# Marks inside a block. Texts come from anywhere, so no expression may look past the next mark of its kind: the time
# stays linear.

_CODE = re.compile(r"(?<![\\`])(`{1,3}+)(?!`)((?:(?!(?<!`)\1(?!`)).)++)\1")
_ESCAPE = re.compile(rf"\\([{re.escape(string.punctuation)}])")
_MASKED = {ord(mark): 0xE100 + ord(mark) for mark in string.punctuation}  # stands for the mark, and marks nothing
_UNMASKED = {masked: mark for mark, masked in _MASKED.items()}
_NO_TEXT = dict.fromkeys(_UNMASKED)
_COMMENT = re.compile(r"<!--(?:[^-<]|-(?!->))*+-->")
_ADDRESS = re.compile(r"<((?:https?://|mailto:)[^<>\s]++|[\w.+-]++@[\w.-]++)>")
_TAG = re.compile(
    r"</?(?:(?P<breaks>br|hr|p|div|li|ul|ol|td|th|tr|table|h[1-6]|summary|details|dt|dd)|a|abbr|b|big|blockquote|caption"
    r"|center|cite|code|dl|del|em|figcaption|figure|font|i|img|ins|kbd|mark|picture|pre|q|s|samp|section|small|source"
    r"|span|strike|strong|sub|sup|tbody|tfoot|thead|tt|u|var|wbr)(?:\s[^<>]*+)?/?>",
    re.IGNORECASE,
)
_ENTITY = re.compile(r"&(?:\w{1,31}|#\d{1,7}|#[xX][\da-fA-F]{1,6});")
_LINK = re.compile(
    r"!?\[([^\[\]]*+)\]\([^()\s]*+(?:\([^()\s]*+\)[^()\s]*+)*+(?:\s++\"[^\"]*+\")?\)|\[([^\[\]]++)\]\[\]"
)
_STRONG = re.compile(r"(\*\*|__(?!\w{1,40}__))(?=\S)((?:(?!\1).)++)(?<=\S)\1")  # __init__ is a name
_EMPHASIS = re.compile(r"(?<!\w)([*_])(?=\S)([^*_]++)(?<=\S)\1(?!\w)")
_CITATION = re.compile(r" ?\[(?:[1-9]\d{0,2}|\^[^\[\]\s]++)\](?=[\s.,;:!?\[]|$)")  # they count from 1: `a[0]` is code


def without_marks(text: str) -> str:
    """The text of a block without marks of Markdown and numbered citations; code spans stay as they are."""
    text = _CODE.sub(lambda span: span[2].translate(_MASKED), " ".join(text.split()).translate(_NO_TEXT))
    text = _ESCAPE.sub(lambda escape: escape[1].translate(_MASKED), text)
    text = _TAG.sub(lambda tag: " " if tag["breaks"] else "", _ADDRESS.sub(r"\1", _COMMENT.sub("", text)))
    text = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
    for _ in range(2):  # an image may be a link
        text = _LINK.sub(lambda link: link[1] or link[2] or "", text)
    text = _EMPHASIS.sub(r"\2", _STRONG.sub(r"\2", text))
    return _CITATION.sub("", text).translate(_UNMASKED).replace("`", "")  # sentencex takes ticks for quotes


# Sentences of a paragraph: sentencex splits, and what it gets wrong in English is put right.

_LANGUAGE = "en"  # of the sentence rules: miv/evidence reads English
_ABBREVIATION = re.compile(
    r"(?<![\w.])(?:(?P<always>cf|viz)|(?:abbr|anon|approx|avg|bk|ca|ch|chap|circ|col|dep|dept|diam|ed"
    r"|eds|eq|eqs|esp|est|etc|excl|ext|fig|figs|freq|hr|hrs|illus|incl|max|min|mins|misc|no|nos|orig|pl"
    r"|pt|pts|publ|ref|refs|repr|resp|rev|sec|secs|ser|sp|spp|std|suppl|tel|temp|trans|transl|ver|vol|vols))\.\s*$",
    flags=re.IGNORECASE,
)
_LONGEST = 30  # characters to look back for it
_GOES_ON = re.compile(r"[a-z\d$£€¥~≈<>≤≥±+%°–—-]|[(\[][a-z\d]|[A-Z]{2,}\b|[VX]\b")  # a number, a sign, VAT, IV
_READ = 5_000  # characters for sentencex at once: its time grows with the square of what has many odd marks
_STOP_AND_SPACE = re.compile(r"[.!?…]\W{0,3} ")


def _split_prose(text: str) -> list[str]:
    """The sentences by sentencex, joined where one ends with an abbreviation and the next goes on."""
    sentences: list[list[str]] = []
    for piece in _segments(" ".join(text.split())):  # sentencex panics at an initial before a wide space
        if sentences and _is_joined(sentences[-1][-1], piece):
            sentences[-1].append(piece)
        else:
            sentences.append([piece])
    return ["".join(pieces) for pieces in sentences]


def _segments(text: str) -> Iterator[str]:
    """The sentences by sentencex, which reads a long text in parts."""
    with needs_extra("text", "Splitting a text into sentences", "sentencex"):
        from sentencex import segment

    start = 0
    begun: list[str] = []  # the parts of a sentence that is longer than one part
    while start + _READ < len(text):
        *whole, last = segment(_LANGUAGE, text[start : start + _READ])
        if whole:
            yield "".join([*begun, whole[0]])
            yield from whole[1:]
            begun = []
            start += sum(map(len, whole))  # the last one may go on, so it is read again
        else:
            stops = [stop.end() for stop in _STOP_AND_SPACE.finditer(last, _READ // 2)]
            begun.append(last[: stops[-1] if stops else None])
            start += len(begun[-1])
    first, *others = segment(_LANGUAGE, text[start:]) or [""]
    yield "".join([*begun, first])
    yield from others


def _is_joined(before: str, after: str) -> bool:
    abbreviation = _ABBREVIATION.search(before[-_LONGEST:])
    return abbreviation is not None and bool(abbreviation["always"] or _GOES_ON.match(after))
