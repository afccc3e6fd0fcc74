"""Numbers, dates and names of a sentence, and which of them no source contains, however it writes them."""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import chain, groupby, product
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


@dataclass(frozen=True)
class Detail:
    """A number, date or name of a sentence: its characters from ``start`` up to, but without, ``end``."""

    text: str
    kind: DetailKind
    start: int
    end: int


def missing_details(text: str, sources: Sequence["SourceDetails"], names: Collection[str]) -> tuple[Detail, ...]:
    """The details of a sentence that none of the sources has; the missing words of one name are one detail.

    The first word of a sentence is a name if another capitalised word follows, or if it is one of the ``names`` or a
    capitalised word inside a sentence of a source.

    >>> curie = SourceDetails(["Marie Curie was born on 7 Nov 1867, one of five children."])
    >>> text = "Pierre Curie had 1,000 books and 5 children on 1867-11-07."
    >>> [detail.text for detail in missing_details(text, [curie], ())]
    ['Pierre', '1,000']
    """
    known = [names, *(source.names for source in sources)]
    asked = [one for one in mentions(text, known) if text[one.start : one.end].lower() not in _VAGUE]
    missing = [mention for mention in asked if not any(source.has(mention) for source in sources)]
    details = []
    for _, group in groupby(missing, key=lambda mention: (mention.kind, mention.run)):
        words = list(group)
        start, end = words[0].start, words[-1].end
        details.append(Detail(text[start:end], words[0].kind, start, end))
    return tuple(details)


def differing_words(text: str, cited: str) -> tuple[Detail, ...]:
    """The words of a sentence, without those such as "the", that a source sentence has in no similar form.

    >>> differing_words("Curie was not born in Paris.", "Marie Curie was born in Warsaw.")
    (Detail(text='not', kind='word', start=10, end=13), Detail(text='Paris', kind='word', start=22, end=27))
    """
    known = {_key(word) for word in _WORD.findall(cited)}
    stems = {word[:_SHORTEST_STEM] for word in known}
    source = SourceDetails([cited])
    same = [(one.start, one.end) for one in mentions(text, [source.names]) if source.has(one)]
    details = []
    for word in _WORD.finditer(text):
        key = _key(word[0])
        is_known = key in known or (len(key) > _SHORTEST_STEM and key[:_SHORTEST_STEM] in stems)
        is_minor = key in _NOT_NAMES and key not in _NEGATIONS
        if not (is_known or is_minor or any(start <= word.start() < end for start, end in same)):
            details.append(Detail(word[0], "word", word.start(), word.end()))
    return tuple(details)


_NEGATIONS = ("no", "not", "neither", "nor", "without")
_VAGUE = ("one", "first", "second")  # "one of them", "at first", "a second later"


def mentions(text: str, names: Sequence[Collection[str]] = ()) -> list[Mention]:
    """The details of a sentence, in order; words of one of the ``names`` may begin it."""
    details: list[Mention] = []
    rest = text
    for find in (dates_of, numbers_of, spelled_numbers_of, lambda words: _names(words, names)):
        found = sorted(find(rest), key=lambda mention: mention.start)
        details += found
        ends = [0, *(mention.end for mention in found)]
        words = [rest[end : mention.start] for end, mention in zip(ends, found, strict=False)]
        spaces = [" " * (mention.end - mention.start) for mention in found]  # so that places stay
        rest = "".join(chain.from_iterable(zip(words, spaces, strict=True))) + rest[ends[-1] :]
    return sorted(details, key=lambda mention: mention.start)


_WORD = re.compile(r"(?:[^\W\d_]\.){2,}|[^\W_]+(?:['’][^\W_]+)*")
_IN_RUN = re.compile(r"\.?[ -]|(?: (?:al|bin|da|de|del|der|di|du|la|le|of|the|van|von)){1,2} ")
_INITIAL = re.compile(r"\b([A-Z])\.\s?(?=[A-Z])")
_BEGINS = re.compile(r"(?:^|[.!?:;…]|[\"“«])[\W_]*$")  # what is before the first word of a sentence
_LOOKBACK = 20  # characters
_NOT_NAMES = frozenset(
    re.findall(
        r"\w+",
        """a about after all also although among an and another any are as at because before both but by can could did
        do does during each either every few for from had has have he her here hers his how however i if in into is it
        its later like many may me more most much my neither no nor not now of on only or other our over she should
        since so some such than that the their them then there these they this those though through thus to today under
        until up upon us was we were what when where whether which while who whom whose why will with within without
        would yes yet you your dr jr miss mr mrs ms prof sir sr st""",
    )
)
_LETTERS = str.maketrans({"ł": "l", "Ł": "l", "ø": "o", "Ø": "o", "đ": "d", "Đ": "d", "æ": "ae", "œ": "oe", "ß": "ss"})


def _key(word: str) -> str:
    """A word as it is compared: in lower case, without accents, dots and possessive."""
    letters = unicodedata.normalize("NFKD", re.sub(r"['’]s?$", "", word).translate(_LETTERS))
    return "".join(letter for letter in letters if letter.isalnum()).casefold()


def _runs(text: str) -> Iterator[tuple[list[re.Match[str]], bool]]:
    """The runs of capitalised words, such as Ludwig van Beethoven, and whether each begins a sentence."""
    runs: list[list[re.Match[str]]] = []
    for word in _WORD.finditer(text):
        if word[0][0].isupper() and _key(word[0]) not in _NOT_NAMES:
            if not runs or not _IN_RUN.fullmatch(text, runs[-1][-1].end(), word.start()):
                runs.append([])
            runs[-1].append(word)
    for run in runs:
        start = run[0].start()
        yield run, _BEGINS.search(text[max(0, start - _LOOKBACK) : start]) is not None


def _acronym(run: list[re.Match[str]]) -> str:
    return "".join(_key(word[0])[:1] for word in run).upper()


def _names(text: str, known: Sequence[Collection[str]]) -> Iterator[Mention]:
    for run, begins in _runs(text):
        if begins and len(run) == 1 and not any(_key(run[0][0]) in names for names in known):
            continue
        acronym = _acronym(run)
        for word in run:
            values = [_key(word[0])]
            if len(run) > 1:
                if len(values[0]) == 1 or "." in word[0]:
                    continue  # an initial: the other words are compared
                values += [acronym] if word is run[-1] else [acronym, values[0][0].upper()]
            yield Mention("name", word.start(), word.end(), values, run[0].start())


def capitalised(sentences: Iterable[str]) -> set[str]:
    """The words with a capital letter inside sentences, which are names at the beginning of others, too."""
    return {_key(word[0]) for text in sentences for run, begins in _runs(text) for word in run[begins:]}


_PEOPLE = ("ian", "ean", "an", "n", "ese", "ish", "ic", "i")  # of Canadian, Chinese, Swedish, Iraqi
_COUNTRY = ("", "a", "y", "o", "e", "en", "ia")
_IRREGULAR = {
    **{"british": "britain", "danish": "denmark", "dutch": "netherlands", "english": "england", "finnish": "finland"},
    **{"french": "france", "greek": "greece", "irish": "ireland", "polish": "poland", "scottish": "scotland"},
    **{"spanish": "spain", "swiss": "switzerland", "turkish": "turkey", "welsh": "wales"},
}
_SHORTEST_STEM = 4


def _stems(key: str, endings: Iterable[str]) -> set[str]:
    """What a people and its country share, such as ``canad``."""
    stems = {key.removesuffix(ending) for ending in endings if key.endswith(ending)}
    return {stem for stem in stems if len(stem) >= _SHORTEST_STEM} | {_IRREGULAR.get(key, key)}


class SourceDetails:
    """The details of a source, given its sentences."""

    def __init__(self, sentences: Iterable[str]) -> None:
        self._sentences = tuple(sentences)

    @cached_property
    def names(self) -> set[str]:
        return capitalised(self._sentences)

    @cached_property
    def _values(self) -> tuple[set[Any], list[Any]]:
        """Its dates, each also without some of its parts, and its numbers in order."""
        found = [mention for text in self._sentences for mention in mentions(text)]
        dates = {date for mention in found if mention.kind == "date" for date in mention.values}
        numbers = {limits for mention in found if mention.kind == "number" for limits in mention.values}
        numbers |= {(Decimal(part),) * 2 for year, _, day in dates for part in (year, day) if part is not None}
        return {less for date in dates for less in product(*((part, None) for part in date))}, sorted(numbers)

    @cached_property
    def _words(self) -> dict[str, set[str]]:
        """Its words, their stems, its acronyms, and what acronyms its runs may have."""
        words = {word for text in self._sentences for word in _WORD.findall(text)}
        keys = {_key(word) for word in words}
        initials = {letter for text in self._sentences for letter in _INITIAL.findall(text)}
        runs = {_acronym(run).lower() for text in self._sentences for run, _ in _runs(text)}
        return {
            "words": keys | runs,
            "acronyms": {_key(word).upper() for word in words if len(word) > 1 and word.isupper()} | initials,
            "peoples": {stem for key in keys for stem in _stems(key, _PEOPLE)},
            "countries": {stem for key in keys for stem in _stems(key, _COUNTRY)},
        }

    def has(self, mention: Mention) -> bool:
        """Whether it has the same number, date or name."""
        if mention.kind == "date":
            return not self._values[0].isdisjoint(mention.values)
        return any(map(self._has_number if mention.kind == "number" else self._has_name, mention.values))

    def _has_number(self, limits: tuple[Decimal, Decimal]) -> bool:
        _, numbers = self._values
        for place in range(bisect_left(numbers, limits[:1]), len(numbers)):
            low, high = numbers[place]
            if low > limits[1] or high <= limits[1]:
                return low <= limits[1]
        return False

    def _has_name(self, key: str) -> bool:
        own = self._words
        if key.isupper():  # the acronym of a run
            return key in own["acronyms"]
        singular = key.removesuffix("s")
        if not own["words"].isdisjoint((key, f"{key}s", singular)):
            return True
        peoples, countries = _stems(singular, _PEOPLE), _stems(singular, _COUNTRY)
        return not (own["countries"].isdisjoint(peoples) and own["peoples"].isdisjoint(countries))
