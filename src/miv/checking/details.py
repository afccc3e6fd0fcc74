"""Numbers, dates and names of a sentence, and which of them no source contains, however it writes them."""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import chain, groupby, product
from typing import Any

from miv.checking.quantities import DetailKind, Mention, dates_of, numbers_of, spelled_numbers_of


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
    run: list[re.Match[str]] = []
    for word in _WORD.finditer(text):
        if not word[0][0].isupper() or _key(word[0]) in _NOT_NAMES:
            continue
        if run and not _IN_RUN.fullmatch(text, run[-1].end(), word.start()):
            yield run, _begins(text, run)
            run = []
        run.append(word)
    if run:
        yield run, _begins(text, run)


def _begins(text: str, run: list[re.Match[str]]) -> bool:
    start = run[0].start()
    return _BEGINS.search(text[max(0, start - _LOOKBACK) : start]) is not None


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
        """The capitalised words inside its sentences."""
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
