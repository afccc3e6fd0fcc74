"""Split prose into sentences: the rules of sentencex, and what they miss in English."""

import re
from collections.abc import Iterator

from miv.errors import needs_extra

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
    for piece in _pieces(text):
        if found and _is_joined(found[-1][-1], piece):
            found[-1].append(piece)
        else:
            found.append([piece])
    return ["".join(pieces) for pieces in found]


def _pieces(text: str) -> Iterator[str]:
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
