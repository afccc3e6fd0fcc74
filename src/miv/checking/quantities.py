"""Dates and numbers of a sentence, however it writes them: 7 Nov 1867, 1,000, one thousand, 1990s, 19th century."""

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, Literal, NamedTuple

DetailKind = Literal["number", "date", "name", "word"]


class Mention(NamedTuple):
    """A number, date or name as it is compared: a source has it if it has one of the ``values``.

    A number is a range, as the 1990s are 1990 to 1999. A date is year, month and day, ``None`` for what is not said. A
    name is a word; in capital letters, its initial or the acronym of its ``run``, which begins at that place.
    """

    kind: DetailKind
    start: int
    end: int
    values: Sequence[Any]
    run: int


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"\b(?P<month>Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:t|tember)?"
    r"|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\b\.?"
)
_DAY, _YEAR = r"(?P<day>[0-3]?[0-9])(?:st|nd|rd|th)?", r"(?P<year>[0-9]{4})(?![0-9])"
_DATES = (
    re.compile(rf"(?<![\w-]){_YEAR}-(?P<month>[0-9]{{2}})-(?P<day>[0-9]{{2}})(?![0-9])"),
    re.compile(rf"(?<![\w./])(?P<day>[0-9]{{1,2}})([./])(?P<month>[0-9]{{1,2}})\2{_YEAR}"),
    re.compile(rf"(?<![\w.,]){_DAY}(?:\s+of)?\s+{_MONTH}(?:,?\s+{_YEAR})?"),
    re.compile(rf"{_MONTH}\s+{_DAY}(?![\w,.]*[0-9])(?:,?\s+{_YEAR})?"),
    re.compile(rf"{_MONTH},?(?:\s+of)?\s+{_YEAR}"),
)


def dates_of(text: str) -> Iterator[Mention]:
    """Dates with a month and a day or a year: 7 Nov 1867, November 7, 1867-11-07, 7/11/1867, Nov 1867."""
    end = 0
    for match in sorted((match for date in _DATES for match in date.finditer(text)), key=lambda match: match.start()):
        part = match.groupdict()
        day, year = (int(part[name]) if part.get(name) else None for name in ("day", "year"))
        word = part["month"].lower()
        month = int(word) if word.isdigit() else _MONTHS.index(word[:3]) + 1
        orders = [(year, month, day), *([(year, day, month)] if match.re is _DATES[1] else [])]  # 7/11/1867
        values = [(y, m, d) for y, m, d in orders if m and 0 < m <= 12 and (d or 1) <= 31]
        if values and match.start() >= end:
            end = match.end()
            yield Mention("date", match.start(), end, values, match.start())


_SCALES = {"dozen": 12, "hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_SHORT = {"k": 10**3, "m": 10**6, "mn": 10**6, "b": 10**9, "bn": 10**9}
_NUMBER = re.compile(
    r"(?<![^\W_])(?<![0-9]\.)(?P<digits>[0-9]{1,3}(?:[,'\u00a0\u2009\u202f][0-9]{3})+(?![0-9])(?:\.[0-9]+)?"
    rf"|[0-9]+(?:\.[0-9]+)?)(?:(?P<decade>(?<=0)['’]?s\b)|[\s-]?(?P<scale>(?:{'|'.join(_SCALES)})\b)"
    r"|(?P<unit>[^\W\d_]{1,3}\b))?(?P<century>[\s-]centur(?:y|ies)\b)?",
    flags=re.IGNORECASE,
)
_LONGEST = 40  # digits: a longer number is compared as far as this


def numbers_of(text: str) -> Iterator[Mention]:
    """Numbers in digits: 1,000; 5 million; 31m, which are metres or millions; the 1990s; the 19th century; 1939–45."""
    before, end = "", 0
    for match in _NUMBER.finditer(text):
        digits = re.sub(r"[^0-9.]", "", match["digits"])[:_LONGEST]
        number = Decimal(digits) * _SCALES.get((match["scale"] or "").lower(), 1)
        values = [(number, number)]
        if match["decade"]:
            values = [(number + of, number + of + 9) for of in (range(0, 2100, 100) if number < 100 else [0])]
        elif match["century"]:
            values = [(100 * number - 100, 100 * number)]
        elif (match["unit"] or "").lower() in _SHORT:
            values.append((number * _SHORT[match["unit"].lower()],) * 2)
        elif len(before) == 4 and len(digits) == 2 and text[end : match.start()] in ("-", "–", "/"):
            values.append((Decimal(before[:2] + digits),) * 2)
        before, end = digits, match.end()
        yield Mention("number", match.start(), end, values, match.start())


_BELOW_TWENTY = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_WORDS = {word: n for n, word in enumerate(_BELOW_TWENTY)} | {word: 20 + 10 * n for n, word in enumerate(_TENS)}
_WORDS |= {f"{word.removesuffix('y')}{'ie' * word.endswith('y')}th": n for word, n in _WORDS.items()}
_WORDS |= {"first": 1, "second": 2, "third": 3, "fifth": 5, "eighth": 8, "ninth": 9, "twelfth": 12}


def _spelled_pattern() -> re.Pattern[str]:
    of = {least: "|".join(word for word, n in _WORDS.items() if least <= n < limit) for least, limit in _STEPS}
    gap, joined = r"(?:\s|-)", r"\s(?:and\s)?"
    small = rf"(?:(?:{of[20]})(?:{gap}(?:{of[1]}))?|{of[10]}|{of[1]})\b"
    group = rf"(?:(?:{small}{gap})?hundred(?:th)?\b(?:{joined}{small})?|{small})"
    scale = rf"(?:{'|'.join(name for name in _SCALES if name != 'hundred')})(?:th)?\b"
    scaled = rf"(?:{group}{gap})?{scale}"
    number = rf"{scaled}(?:,?{joined}{scaled})*(?:,?{joined}{group})?|{group}|zero\b"
    return re.compile(rf"\b(?P<number>{number})(?P<century>{gap}centur(?:y|ies)\b)?", flags=re.IGNORECASE)


_STEPS = ((1, 10), (10, 20), (20, 100))
_SPELLED = _spelled_pattern()


def spelled_numbers_of(text: str) -> Iterator[Mention]:
    """Numbers in words: two, twenty-first, a hundred and five, nineteenth century."""
    for match in _SPELLED.finditer(text):
        words = [word for word in re.split(r"[\s,-]+", match["number"].lower()) if word != "and"]
        total = group = 0
        for word in words:
            scale = _SCALES.get(word.removesuffix("th"))
            if scale is None:
                group += _WORDS[word]
            elif scale == _SCALES["hundred"]:
                group = (group or 1) * scale
            else:
                total, group = total + (group or 1) * scale, 0
        value = Decimal(total + group)
        limits = (100 * value - 100, 100 * value) if match["century"] else (value, value)
        yield Mention("number", match.start(), match.end(), [limits], match.start())
