"""Split a text or a Markdown document into sentences that can be verified one by one."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from miv.checking.markdown import Block, markdown_blocks, plain_blocks, without_citations, without_marks
from miv.errors import needs_extra

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


_LANGUAGE = "en"  # of the sentence rules: miv/evidence reads English
_ABBREVIATION = re.compile(
    r"(?<![\w.])(?:(?P<always>cf|viz)|(?:abbr|anon|approx|avg|bk|ca|ch|chap|circ|col|dep|dept|diam|ed"
    r"|eds|eq|eqs|esp|est|etc|excl|ext|fig|figs|freq|hr|hrs|illus|incl|max|min|mins|misc|no|nos|orig|pl"
    r"|pt|pts|publ|ref|refs|repr|resp|rev|sec|secs|ser|sp|spp|std|suppl|tel|temp|trans|transl|ver|vol|vols))\.\s*$",
    flags=re.IGNORECASE,
)
_LONGEST = 30  # characters to look back for it
_UNIT = re.compile(r"\d\s*\w+\.\s*$")
_GOES_ON = re.compile(r"[a-z\d$£€¥~≈<>≤≥±+%°–—-]|[(\[][a-z\d]|[A-Z]{2,}\b|[VX]\b")  # a number, a sign, VAT, IV
_GOES_ON_AFTER_UNIT = re.compile(r"[a-z–—-]|[(\[][a-z]")  # "It takes 5 hrs. 20 riders came." are two sentences
_BEGINS = re.compile(r"\s+(?=[^\Wa-z_]|[(\"“'‘])")  # the next sentence, after a space
_READ = 5_000  # characters for sentencex at once: its time grows with the square of what has many odd marks
_STOP_AND_SPACE = re.compile(r"[.!?…]\W{0,3} ")
_PARENTHESIS = re.compile(r"[()]")
_STOPS = (".", "!", "?", "…")


def split_prose(text: str) -> Iterator[str]:
    """The sentences of a paragraph in one line."""
    # sentencex panics at an initial before a wide space, and such a panic is no Exception.
    for sentence in _without_false_ends(" ".join(text.split())):
        yield from _out_of_parentheses(sentence)


def _without_false_ends(text: str) -> list[str]:
    """The sentences by sentencex, joined where one ends with an abbreviation and the next goes on."""
    found: list[list[str]] = []
    for piece in _segments(text):
        if found and _is_joined(found[-1][-1], piece):
            found[-1].append(piece)
        else:
            found.append([piece])
    return ["".join(pieces) for pieces in found]


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
            stops = [found.end() for found in _STOP_AND_SPACE.finditer(last, _READ // 2)]
            begun.append(last[: stops[-1] if stops else None])
            start += len(begun[-1])
    first, *others = segment(_LANGUAGE, text[start:]) or [""]
    yield "".join([*begun, first])
    yield from others


def _is_joined(before: str, after: str) -> bool:
    abbreviation = _ABBREVIATION.search(before[-_LONGEST:])
    if not abbreviation or abbreviation["always"]:
        return abbreviation is not None
    return (_GOES_ON_AFTER_UNIT if _UNIT.search(before[-_LONGEST:]) else _GOES_ON).match(after) is not None


def _out_of_parentheses(sentence: str) -> Iterator[str]:
    """Sentences that parentheses enclose, and the one after them, which sentencex leaves together."""
    start = 0
    while sentence.startswith("(", start):
        end = _closing(sentence, start)
        inside = sentence[start + 1 : end].rstrip()
        after = _BEGINS.match(sentence, end + 1)
        if end < 0 or after is None or not inside.endswith(_STOPS) or _ABBREVIATION.search(inside[-_LONGEST:]):
            break
        pieces = _without_false_ends(inside)
        pieces[0] = f"({pieces[0]}"
        pieces[-1] += ")"
        yield from pieces
        start = after.end()
    yield sentence[start:]


def _closing(text: str, start: int) -> int:
    """Place of the parenthesis that closes the one at ``start``; -1 if there is none."""
    depth = 0
    for found in _PARENTHESIS.finditer(text, start):
        depth += 1 if found[0] == "(" else -1
        if depth == 0:
            return found.start()
    return -1
