"""Rules that change a sentence so that its label is known: numbers, names, antonyms and negations.

A rule returns ``None`` where it is not sure. What is a contradiction and what is only another statement:

- A changed year, month or number *contradicts*: a quantity has one value, and so the annotators of FEVER see it.
- A changed name *contradicts* only in a place that one thing can fill ("born in", "directed by", "is an American …").
  Elsewhere ("starred in", "played with", and every subject) the sentence is about something else: *neither*.
- An antonym (of the first sense in WordNet) and a negated main verb *contradict*.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

SUPPORTS, CONTRADICTS, NEITHER = 0, 1, 2
WORDNET = Path("/usr/share/wordnet")  # Debian's wordnet-base

_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_WORDS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_ORDER = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_YEAR = r"(?<![\d.,])(?:1[0-9]{3}|20[0-2][0-9])(?![\d,]*\d)"
_NUMBER = r"(?<![\w.,-])\d+(?:[.,]\d+)*(?![\w]|[.,]\d)"
_NUMBERS = re.compile(rf"{_YEAR}|{_NUMBER}|\b(?:{'|'.join((*_MONTHS, *_WORDS, *_ORDER))})\b")
_CAPITAL = r"[A-ZÀ-Þ][\w'’.-]*\w|[A-Z]"
_NAMES = re.compile(rf"(?:{_CAPITAL})(?: (?:(?:of|the|de|von|van|and) )?(?:{_CAPITAL}))*")
_ONE_PLACE = re.compile(
    r"\b(?:(?:born|died|located|based|situated|headquartered|founded|established|buried|raised|set) (?:in|at|near)"
    r"|(?:directed|written|created|founded|published|released|owned|developed|composed|designed|invented|discovered"
    r"|portrayed|played|painted|authored|coined) (?:solely )?by|capital (?:city )?of|married to|named after"
    r"|(?:is|was) (?:in|from|an?))(?: the)?$"
)
_NEGATIVE = re.compile(r"\b(?:not|never|no|none|nobody|nothing|neither|nor|without|only|yet|cannot|hardly)\b|n't", re.I)
_QUANTIFIED = re.compile(r"^(?:all|some|every|each|no|only|at least|most|many|few|there|it is|both|several)\b", re.I)
_NO_SUBJECT = {"The", "A", "An", "It", "He", "She", "They", "In", "On", "At", "This", "There", "His", "Her", "Its"}


@dataclass(frozen=True)
class Swap:
    """Another value for something that a text says."""

    old: str
    new: str
    label: int  # of the changed claim, beside the sentence that supports the claim

    def __call__(self, text: str) -> str:
        return with_article(re.sub(rf"(?<!\w){re.escape(self.old)}(?!\w)", lambda _: self.new, text))


def with_article(text: str) -> str:
    """Write a or an as the next word needs it.

    >>> with_article("He is a American and an big man.")
    'He is an American and a big man.'
    """
    text = re.sub(r"\b([Aa])n (?=[bcdfgjklmnpqrstvwxzBCDFGJKLPQTVWZ][a-z])", r"\1 ", text)
    return re.sub(r"\b([Aa]) (?=[aeiAEIO][a-z])", r"\1n ", text)


def numbers(text: str) -> list[str]:
    """Numbers, years, months and small numbers as words.

    >>> numbers("In May 1997 it sold 1,200 copies of its second album.")
    ['May', '1997', '1,200', 'second']
    """
    return list(dict.fromkeys(_NUMBERS.findall(text)))


def names(text: str) -> list[str]:
    """Runs of capitalised words; a single first word counts only if it is not an article or a pronoun.

    >>> names("The film Soul Food was made by Fox Pictures.")
    ['Soul Food', 'Fox Pictures']
    """
    found = []
    for match in _NAMES.finditer(text):
        name = match.group()
        words = name.split()
        if match.start() == 0 and words[0] in _NO_SUBJECT:
            name = " ".join(words[1:])
        if name and name not in _MONTHS and name not in _NO_SUBJECT:
            found.append(name)
    return list(dict.fromkeys(found))


def other_number(number: str, taken: str, random: np.random.Generator) -> str | None:
    """A near value of the same form that ``taken`` does not contain.

    >>> other_number("1997", "a film of 1997", np.random.default_rng(0)) in {str(year) for year in range(1972, 2023)}
    True
    """
    for series in (_MONTHS, _WORDS, _ORDER):
        if number in series:
            choices = [value for value in series if not _contains(taken, value)]
            return str(random.choice(choices)) if choices else None
    if re.fullmatch(_YEAR, number):
        values = [int(number) + step for step in range(-25, 26) if step and int(number) + step < 2030]
        choices = [str(value) for value in values if not _contains(taken, str(value))]
        return str(random.choice(choices)) if choices else None
    digits = re.sub(r"[.,]", "", number)
    if len(digits) > 12:
        return None
    for _ in range(20):
        changed = list(number)
        places = [place for place, sign in enumerate(number) if sign.isdigit()]
        some = random.permutation(places)[: 1 + int(random.integers(2))]
        for place in some:
            changed[place] = str(random.integers(1, 10))
        value = "".join(changed)
        if value != number and not _contains(taken, value):
            return value
    return None


def _contains(text: str, part: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(part)}(?!\w)", text) is not None


class NameBook:
    """Names of many texts by type: their class in WordNet, or the word before them and their number of words."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._of: dict[tuple[str, int], list[str]] = {}
        for text in dict.fromkeys(texts):
            for name in names(text):
                if text.startswith(name) and " " not in name and name not in _classes():
                    continue  # the first word of a sentence is often no name
                self._of.setdefault(_type(name, text), []).append(name)

    def other(self, name: str, claim: str, taken: str, random: np.random.Generator) -> str | None:
        """Another name of the same type that is not in ``taken`` and shares no word with ``name``."""
        choices = self._of.get(_type(name, claim), [])
        words = set(name.lower().split())
        for place in random.integers(0, max(1, len(choices)), 12) if len(choices) > 3 else ():
            choice = choices[int(place)]
            if words.isdisjoint(choice.lower().split()) and not _contains(taken, choice):
                return choice
        return None


def _type(name: str, text: str) -> tuple[str, int]:
    kind = _classes().get(name)
    if kind:
        return kind, 0
    before = text[: text.find(name)].split()
    return (before[-1].lower() if before else "^"), min(3, len(name.split()))


def swaps(
    claim: str, premise: str, book: NameBook, random: np.random.Generator, allowed: Sequence[int] = (1, 2)
) -> list[Swap]:
    """Other values for what a claim and the sentence that supports it both say."""
    taken = f"{claim} {premise}"
    found = []
    for number in numbers(claim):
        value = other_number(number, taken, random) if _contains(premise, number) else None
        if value:
            found.append(Swap(number, value, CONTRADICTS))
    for name in names(claim):
        value = book.other(name, claim, taken, random) if _contains(premise, name) else None
        if value:
            before = claim[: claim.find(name)].rstrip()
            is_nationality = _classes().get(name) == "nationality"
            article = re.search(r"\b(?:is|was) an?$", before) is not None
            one_place = _ONE_PLACE.search(before) is not None and (not article or is_nationality)
            found.append(Swap(name, value, CONTRADICTS if one_place else NEITHER))
    return [swap for swap in found if swap.label in allowed]


@cache
def _classes() -> dict[str, str]:
    """Class of capitalised words in WordNet: nationality, place, person or group."""
    files = {"15": "place", "18": "person", "14": "group"}
    classes: dict[str, str] = {}
    for kind, file in (("adj", "data.adj"), ("noun", "data.noun")):
        for line in (WORDNET / file).read_text().splitlines():
            if line.startswith(" "):
                continue
            fields = line.split()
            lemmas = [fields[4 + 2 * place].split("(")[0].replace("_", " ") for place in range(int(fields[3], 16))]
            for lemma in lemmas:
                if not lemma[:1].isupper():
                    continue
                if kind == "adj":
                    classes.setdefault(lemma, "nationality")
                elif fields[1] in files:
                    classes.setdefault(lemma, files[fields[1]])
    return classes


# Antonyms.

_UNSURE_ANTONYMS = {
    *("more", "less", "most", "least", "much", "many", "one", "other", "own", "right", "left", "live", "work", "found"),
    *("never", "some", "former", "act", "come", "go", "ever", "use", "write", "written"),
}


@cache
def antonyms() -> dict[str, str]:
    """The antonym of the first sense of adjectives, adverbs and verbs.

    >>> antonyms()["large"], antonyms()["male"]
    ('small', 'female')
    """
    found: dict[str, str] = {}
    for kind in ("adj", "adv", "verb"):
        synsets: dict[str, list[str]] = {}
        for line in (WORDNET / f"data.{kind}").read_text().splitlines():
            if not line.startswith(" "):
                fields = line.split()
                synsets[fields[0]] = fields
        for line in (WORDNET / f"index.{kind}").read_text().splitlines():
            if line.startswith(" "):
                continue
            fields = line.split()
            lemma, offset = fields[0], fields[-int(fields[2])]
            opposite = _antonym_of(lemma, synsets, offset)
            if opposite and _is_usual(lemma, opposite):
                found.setdefault(lemma, opposite)
    return found


def _is_usual(word: str, opposite: str) -> bool:
    """Neither two words, nor a form such as "unborn" that nobody would write in its place."""
    is_form = _lemma(word) is not None and opposite.endswith(word) and word != "known"
    return "_" not in word + opposite and word not in _UNSURE_ANTONYMS and not is_form


def _words(fields: list[str]) -> list[str]:
    return [fields[4 + 2 * place].split("(")[0].lower() for place in range(int(fields[3], 16))]


def _antonym_of(lemma: str, synsets: dict[str, list[str]], offset: str) -> str | None:
    fields = synsets[offset]
    words = _words(fields)
    start = 4 + 2 * len(words)
    for place in range(int(fields[start])):
        sign, target, _, ends = fields[start + 1 + 4 * place : start + 5 + 4 * place]
        if sign == "!" and words[int(ends[:2], 16) - 1] == lemma:
            return _words(synsets[target])[int(ends[2:], 16) - 1]
    return None


def antonym_swap(claim: str, premise: str = "") -> Swap | None:
    """The first word of a claim with an antonym; if a premise is given, the premise must have the word too.

    >>> antonym_swap("Paris is a large city.")
    Swap(old='large', new='small', label=1)
    """
    for word in re.findall(r"(?<![\w-])[a-z]{3,}(?![\w-])", claim):
        if premise and not _contains(premise, word):
            continue
        opposite = antonyms().get(word) or _opposite_past(word)
        if opposite and not _contains(f"{claim} {premise}", opposite):
            return Swap(word, opposite, CONTRADICTS)
    return None


def _opposite_past(word: str) -> str | None:
    stem = _lemma(word) if word.endswith("ed") else None
    opposite = antonyms().get(stem) if stem else None
    return _past(opposite) if opposite else None


def _past(verb: str) -> str | None:
    if verb in _irregular().values():  # "losted"
        return None
    if verb.endswith("e"):
        return f"{verb}d"
    return f"{verb[:-1]}ied" if re.search(r"[^aeiou]y$", verb) else f"{verb}ed"


# Negations.

_BE = r"(?P<verb>is|was|are|were|can|could|will|would|has been|have been|had been)"
_AFTER_BE = re.compile(rf"^(?P<subject>.{{2,60}}?) {_BE} (?P<rest>.+)$")
_HAS = re.compile(r"^(?P<subject>.{2,60}?) (?P<verb>has|have) (?P<rest>(?:an?|the|two|three|\d+) .+)$")
_VERBS = {"is", "was", "are", "were", "has", "have", "had", "can", "could", "will", "would", "did", "does", "do"}


@cache
def _irregular() -> dict[str, str]:
    pairs = [line.split()[:2] for line in (WORDNET / "verb.exc").read_text().splitlines()]
    ours = {form: lemma for form, lemma in pairs if not form.endswith("ing") and "_" not in form}
    return {form: lemma for form, lemma in ours.items() if form not in _VERBS and lemma != "be"}


@cache
def _verbs() -> frozenset[str]:
    lines = (WORDNET / "index.verb").read_text().splitlines()
    return frozenset(line.split()[0] for line in lines if not line.startswith(" "))


def _lemma(word: str) -> str | None:
    """The verb of a past form."""
    if word in _irregular():
        return _irregular()[word]
    if word.endswith("ied") and f"{word[:-3]}y" in _verbs():
        return f"{word[:-3]}y"
    if word.endswith("ed"):
        double = word[:-3] if len(word) > 5 and word[-3] == word[-4] else ""
        for stem in (word[:-1], double, word[:-2]):
            if stem in _verbs():
                return stem
    return None


def negated(claim: str, random: np.random.Generator | None = None) -> str | None:
    """The claim with its main verb negated, or ``None`` if it is negative, quantified or no simple sentence.

    >>> negated("Marie Curie was born in Warsaw.")
    'Marie Curie was not born in Warsaw.'
    >>> negated("Fox released the film Soul Food.")
    'Fox did not release the film Soul Food.'
    >>> negated("No film has a star.") is None
    True
    """
    if _NEGATIVE.search(claim) or _QUANTIFIED.search(claim) or "?" in claim:
        return None
    draw = 0.0 if random is None else random.random()
    match = _HAS.match(claim)
    if match and _is_subject(match["subject"]):
        does = "does" if match["verb"] == "has" else "do"
        return f"{match['subject']} {does}{_not(draw, 'does')} have {match['rest']}"
    match = _AFTER_BE.match(claim)
    if match and _is_subject(match["subject"]):
        first, *others = match["verb"].split()
        return " ".join([f"{match['subject']} {first}{_not(draw, first)}", *others, match["rest"]])
    words = claim.split()
    for place, word in enumerate(words[1:-1], start=1):
        lemma = _lemma(word) if word.islower() else None
        if word in _VERBS or (word.islower() and lemma is None and place > 1):
            return None
        if lemma and _is_subject(" ".join(words[:place])):
            verb = ["never", word] if draw > 0.92 else [f"did{_not(draw, 'did')}", lemma]
            return " ".join([*words[:place], *verb, *words[place + 1 :]])
    return None


def _not(draw: float, verb: str) -> str:
    if draw > 0.92 and verb in ("was", "were", "has"):
        return " never"
    return "n't" if 0.7 < draw <= 0.92 and verb in ("is", "was", "are", "were", "did", "does", "has") else " not"


def _is_subject(words: str) -> bool:
    """A short run without a verb or a comma; its last word ends a name, or it begins with an article."""
    parts = words.split()
    if len(parts) > 7 or "," in words or any(part in _VERBS or part in ("who", "that", "which") for part in parts):
        return False
    return parts[0][:1].isupper() and not any(part.islower() and _lemma(part) for part in parts[1:])


def affirmed(claim: str) -> str | None:
    """The claim without the negation of its main verb.

    >>> affirmed("Marie Curie was not born in Warsaw.")
    'Marie Curie was born in Warsaw.'
    """
    plain, count = re.subn(r"\b(is|was|are|were|can|could|will|would|has|have) (?:not|never) (?=\w)", r"\1 ", claim)
    if count != 1 or _NEGATIVE.search(plain) or _QUANTIFIED.search(plain):
        return None
    return plain if not re.search(r"\b(?:has|have) (?!been\b|\w+ed\b|\w+en\b)", plain) else None


def opposite(label: int) -> int:
    """The label of a negated claim."""
    return {SUPPORTS: CONTRADICTS, CONTRADICTS: SUPPORTS, NEITHER: NEITHER}[label]


# A detail less.

_DETAIL = re.compile(
    r",? (?:and|which|who|where) (?:is|was|were|has|had|released|starring|directed|written|produced|[a-z]+ed) "
    r"|, (?:starring|featuring|including|directed|written|produced|based|released|located|known) "
    r"| (?:in|on|at|by|from|for|with|during|after|since|near) "
)
_OPEN = {*_VERBS, "and", "or", "but", "the", "a", "an", "of"}  # no sentence ends with these


def without_detail(sentence: str) -> str | None:
    """A sentence without its last clause or phrase.

    >>> without_detail("Soul Food is a film directed by George Tillman and released by Fox Pictures.")
    'Soul Food is a film directed by George Tillman.'
    """
    for match in reversed(list(_DETAIL.finditer(sentence))):
        before, after = sentence[: match.start()].rstrip(" ,"), sentence[match.start() + 1 :]
        words = before.split()
        if len(words) < 5 or "," in after[1:] or ")" in after or _lemma(words[-1]) or words[-1] in _OPEN:
            continue
        return f"{before}." if any(word in _VERBS or _lemma(word) for word in words) else None
    return None
