"""The claims twin: claims about invented pages, with the sentences that support or refute them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from miv.data import ExemplarSet
from miv.errors import MIVError
from miv.runtime.progress import Progress
from miv.tasks.fever.sentence_bags import ClaimBag, ClaimSentence, claim_exemplars
from miv.tasks.options import check_difficulty, check_whole
from miv.tasks.synthetic.claim_grammar import PAGES, Relation, invent
from miv.tasks.task_base import register_task

_SLOT = re.compile(r"\{(\w+)\}")
_COMMON_NAMES = {short for kind in PAGES.values() for short in kind.shorts}  # "It", "The film"
_TRIES = 100
_MOST_PAGES = 8_000  # a quarter are towns, for which there are 2,420 names
_SECOND_PAGE = 0.4  # share of the claims whose bag holds another page too


@dataclass
class _Page:
    """A page: its sentences, the fact that each states, and the values it contains."""

    title: str
    kind: str
    facts: list[str]
    sentences: list[str] = field(default_factory=list)
    states: list[int] = field(default_factory=list)  # for each sentence the fact it states, or -1
    mentioned: dict[str, list[str]] = field(default_factory=dict)  # kind of value → values

    def as_evidence(self, fact: int | None) -> list[ClaimSentence]:
        """Return the sentences; those that state the fact are evidence."""
        return [
            ClaimSentence((self.title, place), text, self.title, states == fact)
            for place, (text, states) in enumerate(zip(self.sentences, self.states, strict=True))
        ]


@register_task("claims-twin", help="Claims about invented people, films, bands and towns: FEVER without a download.")
@dataclass(frozen=True)
class SyntheticClaims:
    """Claims and sentences of invented pages; no page is in two splits.

    A refuted claim differs in one fact from its page. A bag holds all sentences of the page, sometimes
    those of another page too; the witnesses of a supported claim are the sentences that state the fact.

    Args:
        pages: number of pages in the train split.
        held_out_pages: number of other pages in each of validation and test.
        claims: number of claims per page; half of them are refuted.
        difficulty: how often pages word a fact differently from claims, and the false value of a refuted
            claim appears elsewhere in the page; 0 is easy, 1 is the default, 4 is the hardest.
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
        check_difficulty(self.difficulty)
        if self.pages + 2 * self.held_out_pages > _MOST_PAGES:
            held_out = min(self.held_out_pages, 100)
            raise MIVError(
                f"pages is {self.pages} and held_out_pages {self.held_out_pages}, which is needed twice. Expected at "
                f"most {_MOST_PAGES:,} in total, because names run out; with held_out_pages {held_out} the largest "
                f"pages is {_MOST_PAGES - 2 * held_out:,}."
            )

    def build(self, progress: Progress) -> dict[str, ExemplarSet]:
        """Invent pages, claim things about them, and put their sentences into bags as for FEVER."""
        counts = {"train": self.pages, "validation": self.held_out_pages, "test": self.held_out_pages}
        taken: set[str] = set()
        with progress.step("Writing pages", total=sum(counts.values())) as advance:
            sets = {}
            for number, (split, count) in enumerate(counts.items()):
                rng = np.random.default_rng([self.seed, self.round, number])
                pages = []
                for _ in range(count):
                    pages.append(self._write_page(taken, rng))
                    advance(1)
                sets[split] = claim_exemplars(self._claim(pages, rng))
        return sets

    def _write_page(self, taken: set[str], rng: np.random.Generator) -> _Page:
        """Write a page with an unused title and unused sentences, and mark them as used."""
        for _ in range(_TRIES):
            page = self._draft_page(taken, rng)
            if page is not None:
                taken.update([page.title, *page.sentences])
                return page
        raise MIVError(f"The words for new pages ran out after {len(taken):,} titles and sentences. Use fewer pages.")

    def _draft_page(self, taken: set[str], rng: np.random.Generator) -> _Page | None:
        """Draft a page; ``None`` if no unused title or sentence was found."""
        kind = str(rng.choice(list(PAGES)))
        title = next((title for _ in range(_TRIES) if (title := invent(kind, rng)) not in taken), None)
        if title is None:
            return None
        relations = PAGES[kind].relations
        page = _Page(title, kind, [invent(relation.value, rng) for relation in relations])
        short = str(rng.choice(PAGES[kind].shorts)).format(name=title, last=title.split()[-1])
        templates = self._choose_templates(kind, rng)
        # A page opens with its subject's name; the rest is in no order.
        openers = [i for i, (text, _) in enumerate(templates) if text.startswith(("{name}", "{short}"))]
        first = openers[0] if openers else 0
        for place in [first, *(i for i in rng.permutation(len(templates)) if i != first)]:
            template, number = templates[place]
            value = page.facts[number] if number >= 0 else ""
            known = {"name": title, "short": title if place == first else short, "value": value}
            for _ in range(_TRIES):  # no sentence stands in two pages, else splits would share it
                sentence, others = _fill(template, known, rng)
                if sentence not in taken and sentence not in page.sentences:
                    break
            else:
                return None
            for kind_of_value, other in others:
                page.mentioned.setdefault(kind_of_value, []).append(other)
            page.sentences.append(sentence)
            page.states.append(number)
        return page

    def _choose_templates(self, kind: str, rng: np.random.Generator) -> list[tuple[str, int]]:
        """Choose how the page words its facts, and what else it says: templates, each with its fact or -1."""
        chosen: list[tuple[str, int]] = []
        for number, relation in enumerate(PAGES[kind].relations):
            forms = list(rng.permutation(len(relation.statements)))
            if rng.random() > 0.3 * self.difficulty:  # near to the words of a claim
                forms.sort()
            # Now and then a page says a thing twice.
            for form in forms[: 1 + int(rng.random() < 0.2)]:
                chosen.append((relation.statements[form], number))
        fillers = PAGES[kind].fillers
        for form in rng.permutation(len(fillers))[: rng.integers(2, len(fillers) + 1)]:
            chosen.append((fillers[form], -1))
        return chosen

    def _claim(self, pages: Sequence[_Page], rng: np.random.Generator) -> Iterator[ClaimBag]:
        for page in pages:
            relations = PAGES[page.kind].relations
            for number in range(self.claims):
                fact = int(rng.integers(len(relations)))
                supported = number % 2 == 0
                value = page.facts[fact] if supported else self._false_value(relations[fact], page, fact, rng)
                claim = str(rng.choice(relations[fact].claims)).format(name=page.title, value=value)
                bag = page.as_evidence(fact)
                other = pages[int(rng.integers(len(pages)))]
                if other is not page and rng.random() < _SECOND_PAGE:
                    bag += other.as_evidence(None)
                yield ClaimBag(_capital(claim), page.title, supported, bag, group=page.kind)

    def _false_value(self, relation: Relation, page: _Page, fact: int, rng: np.random.Generator) -> str:
        elsewhere = [value for value in page.mentioned.get(relation.value, []) if value != page.facts[fact]]
        if elsewhere and rng.random() < 0.25 * self.difficulty:
            return str(rng.choice(elsewhere))
        while (value := invent(relation.value, rng)) == page.facts[fact]:
            pass
        return value


def _fill(template: str, known: dict[str, str], rng: np.random.Generator) -> tuple[str, list[tuple[str, str]]]:
    """Fill the slots of a template; unknown values are invented, and returned with their kinds."""
    others: list[tuple[str, str]] = []

    def replace(slot: re.Match[str]) -> str:
        kind = slot[1]
        if kind == "short" and slot.start() > 0 and known["short"] in _COMMON_NAMES:
            return known["short"].lower()
        if kind in known:
            return known[kind]
        others.append((kind, invent(kind, rng)))
        return others[-1][1]

    return _capital(_SLOT.sub(replace, template)), others


def _capital(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]
