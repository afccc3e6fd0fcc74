"""Remove the marks of Markdown inside a block: links, emphasis, code spans, tags, numbers of citations."""

import html
import re
import string
import sys

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
