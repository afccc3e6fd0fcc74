"""The claims twin: claims about invented people and towns, with their evidence."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from miv.data import ExemplarSet
from miv.errors import MIVError
from miv.files.json import finite_number
from miv.runtime import Progress
from miv.tasks.base import check_whole
from miv.tasks.claims import ClaimBag, ClaimSentence, claim_exemplars

_WORDS = {
    "first": "Ada Bela Cora Dario Edda Fabian Greta Hugo Irma Jonas Karin Leon Mira Nils Olga Pavel Rosa Sven Vera",
    "last": "Arnholt Berent Calder Dorval Ebner Falk Gerling Harrow Ivers Jessel Korda Lund Marek Nystrom Orban Petri",
    "town": "Alder Birch Cold Dun Elm Fern Green Hart Iron Kings Lang Mill North Oak Pen Raven Stan Thorn Wold Yar",
    "end": "bridge brook burn by combe croft dale field ford gate ham haven hill mere mouth stead stow ton wick worth",
    "place": "Arvika Bosa Cadaval Dobele Elvas Fano Gorizia Husum Imatra Jesi Kuopio Lugo Mostar Narva Olbia Pula",
    "trade": "baker barber clerk cooper dentist farmer glazier joiner lawyer mason nurse painter pilot sailor tailor",
    "thing": "apples bells boats books carpets cheese clocks gloves hats honey knives lace lamps paper ropes salt silk",
    "number": "three four five six seven eight nine ten eleven twelve fourteen fifteen sixteen eighteen twenty thirty",
}
# For each kind of page its facts: the kind of value, a claim, a statement near to its words, and one in others.
_FACTS = {
    "person": (
        ("place", "{name} was born in {value}.", "{name} was born in {value} in {year}.",
         "The early years of {name} were spent in {value}, and the later ones in {place}."),
        ("trade", "{name} worked as a {value}.", "{name} worked as a {value} for {number} years.",
         "Trained as a {trade}, {name} made a living as a {value}."),
        ("thing", "{name} collected {value}.", "{name} collected {value} until {year}.",
         "In the attic of {name} were {value}, and no {thing}."),
        ("year", "{name} married in {value}.", "{name} married a {trade} in {value}.",
         "The wedding of {name} was in {value}, {number} years after {year}."),
    ),
    "town": (
        ("place", "{name} is twinned with {value}.", "{name} is twinned with {value} since {year}.",
         "A square of {name} is called after the partner {value}, another one after {place}."),
        ("thing", "{name} is known for its {value}.", "{name} is known for its {value} and its {number} mills.",
         "Merchants bought {value} in {name}, but hardly any {thing}."),
        ("year", "{name} was founded in {value}.", "{name} was founded in {value} by a {trade}.",
         "The charter of {name} dates from {value}, its seal from {year}."),
        ("number", "{name} has {value} churches.", "{name} has {value} churches, the last from {year}.",
         "Of the churches that {name} once had, {value} are left after {number} fires."),
    ),
}  # fmt: skip
_FILLERS = (
    "{name} was the subject of a film in {year}.",
    "A {trade} from {place} wrote a song about {name}.",
    "Little is known about {name} before {year}.",
    "There is a small museum about {name} in {place}, which shows {thing}.",
    "A {trade} painted {name} {number} times.",
)
_SLOT = re.compile(r"\{(\w+)\}")
_MOST_PAGES = 8_000  # half are towns, for which there are 6,400 names
_SECOND_PAGE = 0.4  # share of the claims whose bag holds another page too
_TWICE = 0.2  # share of the facts that a page states twice


@dataclass
class _Page:
    """A page: its sentences with the number of the fact that each states, or -1, and the other values in them."""

    title: str
    kind: str
    values: list[str] = field(default_factory=list)
    sentences: list[tuple[str, int]] = field(default_factory=list)
    mentioned: dict[str, list[str]] = field(default_factory=dict)

    def add(self, template: str, fact: int, rng: np.random.Generator) -> None:
        def fill(slot: re.Match[str]) -> str:
            if slot[1] in ("name", "value"):
                return self.title if slot[1] == "name" else self.values[fact]
            self.mentioned.setdefault(slot[1], []).append(_draw(slot[1], rng))
            return self.mentioned[slot[1]][-1]

        self.sentences.append((_SLOT.sub(fill, template), fact))

    def bag(self, fact: int | None) -> list[ClaimSentence]:
        return [ClaimSentence(text, text, self.title, states == fact) for text, states in self.sentences]


@dataclass(frozen=True)
class SyntheticClaims:
    """Claims about invented people and towns: FEVER without a download.

    No page is in two splits. A refuted claim differs in one fact from its page. A bag holds all sentences of the page,
    sometimes those of another page too; the witnesses of a supported claim are the sentences that state the fact.

    Args:
        pages: number of pages in the train split.
        held_out_pages: number of other pages in each of validation and test.
        claims: number of claims per page; half of them are refuted.
        difficulty: how often pages word a fact differently from claims, and the false value of a refuted
            claim appears elsewhere in the page; 0 is easy, 1 is the default, 2.5 is the hardest.
        seed: random seed.
        round: index of the random draw; draws are independent.
    """

    pages: int = 400
    held_out_pages: int = 100
    claims: int = 4
    difficulty: float = 1.0
    seed: int = 0
    round: int = 0

    def __post_init__(self) -> None:
        check_whole(2, pages=self.pages, held_out_pages=self.held_out_pages)
        check_whole(2, 1_000, claims=self.claims)
        check_whole(0, seed=self.seed, round=self.round)
        finite_number("difficulty", self.difficulty, low=0, high=5)
        if self.pages + 2 * self.held_out_pages > _MOST_PAGES:
            raise MIVError(
                f"pages is {self.pages} and held_out_pages {self.held_out_pages}, which is needed twice. Expected at "
                f"most {_MOST_PAGES:,} in total, because names run out."
            )

    def build(self, progress: Progress) -> dict[str, ExemplarSet]:
        """Invent pages, claim things about them, and put their sentences into bags as for FEVER."""
        counts = {"train": self.pages, "validation": self.held_out_pages, "test": self.held_out_pages}
        sets, titles = {}, set[str]()
        with progress.step("Writing pages", total=sum(counts.values())) as advance:
            for number, (split, count) in enumerate(counts.items()):
                rng = np.random.default_rng([self.seed, self.round, number])
                pages = []
                for place in range(count):
                    pages.append(self._write_page("person" if place % 2 else "town", titles, rng))
                    advance(1)
                sets[split] = claim_exemplars(self._claim(pages, rng))
        return sets

    def _write_page(self, kind: str, titles: set[str], rng: np.random.Generator) -> _Page:
        """Write a page with an unused title, which is in every sentence: no sentence is in two pages."""
        while (title := _title(kind, rng)) in titles:
            pass
        titles.add(title)
        page = _Page(title, kind)
        templates = [(_FILLERS[n], -1) for n in rng.permutation(len(_FILLERS))[: rng.integers(2, len(_FILLERS))]]
        for fact, (value, _, *statements) in enumerate(_FACTS[kind]):
            page.values.append(_draw(value, rng))
            far_first = rng.random() < 0.5 * self.difficulty
            ordered = statements[::-1] if far_first else statements
            templates += [(text, fact) for text in ordered[: 1 + int(rng.random() < _TWICE)]]
        for place in rng.permutation(len(templates)):
            template, fact = templates[place]
            page.add(template, fact, rng)
        return page

    def _claim(self, pages: list[_Page], rng: np.random.Generator) -> Iterator[ClaimBag]:
        for page in pages:
            for number in range(self.claims):
                fact = int(rng.integers(len(page.values)))
                supported = number % 2 == 0
                kind, claim, *_ = _FACTS[page.kind][fact]
                value = page.values[fact]
                if not supported:
                    elsewhere = [other for other in page.mentioned.get(kind, []) if other != value]
                    is_near = elsewhere and rng.random() < 0.4 * self.difficulty
                    value = str(rng.choice(elsewhere)) if is_near else _draw(kind, rng, but=value)
                bag = page.bag(fact)
                other = pages[int(rng.integers(len(pages)))]
                if other is not page and rng.random() < _SECOND_PAGE:
                    bag += other.bag(None)
                yield ClaimBag(claim.format(name=page.title, value=value), page.title, supported, bag, page.kind)


def _draw(kind: str, rng: np.random.Generator, but: str = "") -> str:
    """Draw a value of a kind, other than ``but``."""
    values = [str(year) for year in range(1850, 1990)] if kind == "year" else _WORDS[kind].split()
    while (value := values[int(rng.integers(len(values)))]) == but:
        pass
    return value


def _title(kind: str, rng: np.random.Generator) -> str:
    if kind == "town":
        return f"{_draw('town', rng)}{_draw('end', rng)}-on-{_draw('place', rng)}"
    return f"{_draw('first', rng)} {chr(ord('A') + int(rng.integers(26)))}. {_draw('last', rng)}"
