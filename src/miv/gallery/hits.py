"""The answer of a search: the best bags of a gallery, and how far they can be trusted."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, overload

from miv.decisions.answers import Decision
from miv.gallery.chance import Chance
from miv.inference.verdict import Verdict
from miv.inference.verdict_text import headline, in_a_line, witness_word


@dataclass(frozen=True, slots=True)
class HitWitness:
    """An instance that shows the query's class: its place in the bag, from 0, its share as ``score``, its name."""

    index: int
    score: float
    name: str


@dataclass(frozen=True, eq=False)
class Hit:
    """A bag of the gallery.

    Args:
        name: of the bag.
        verdict: whether it holds something of the query's class.
        probability: probability that it does, calibrated if the verifier is.
        witnesses: the instances that show it, largest share first.
        size: number of instances in the bag.
        chance: probability that the best of as many bags without the query's class would reach this probability;
            ``None`` if the calibration does not say.
        answer: the verdict as ``Verifier.verify`` gives it, with shares and attention of all instances.
    """

    name: str
    verdict: bool
    probability: float
    witnesses: tuple[HitWitness, ...]
    size: int
    chance: float | None
    answer: Verdict = field(repr=False)

    @property
    def decision(self) -> Decision:
        """``yes`` if the verdict is yes; else ``no``, or ``unsure``; ``answer.reason`` says why."""
        return self.answer.decision

    def __bool__(self) -> bool:
        return self.verdict

    def document(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "name": self.name,
            "verdict": self.verdict,
            "decision": self.decision,
            "reason": self.answer.reason,
            "probability": self.probability,
            "chance": self.chance,
            "size": self.size,
            "witnesses": [asdict(witness) for witness in self.witnesses],
            "unlike": None if self.answer.unlike is None else self.answer.unlike.document(),
        }


@dataclass(frozen=True, eq=False)
class Hits(Sequence[Hit]):
    """The best bags, best first.

    Args:
        hits: the bags.
        bags: number of bags in the gallery.
        threshold: the verdict is yes if the probability is at least this.
        lower_threshold: the decision is no below this, and unsure from here up to the threshold; ``None`` if the
            verifier has one threshold.
        references: number of queries that were given.
        chance: how many bags without the query's class would look as good.
    """

    hits: tuple[Hit, ...]
    bags: int
    threshold: float
    lower_threshold: float | None
    references: int
    chance: Chance

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    @overload
    def __getitem__(self, place: int) -> Hit: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Hit]: ...
    def __getitem__(self, place: int | slice) -> Hit | Sequence[Hit]:
        return self.hits[place]

    def __repr__(self) -> str:
        return f"Hits({len(self)} of {self.bags:,} bags, {sum(hit.verdict for hit in self)} yes)"

    def __str__(self) -> str:
        width = max((len(in_a_line(hit.name)) for hit in self), default=0)
        lines = [
            f"{place:>3}  {in_a_line(hit.name):<{width}}  {headline(hit.answer)}{_witness_words(hit)}"
            for place, hit in enumerate(self, start=1)
        ]
        return "\n".join([*lines, *self.notes()])

    def notes(self) -> list[str]:
        """What a reader must know about the hits."""
        return [self.chance.words(self.hits[0].probability if self.hits else None, self.bags)]

    def document(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "bags": self.bags,
            "compared": self.bags,
            "references": self.references,
            "threshold": self.threshold,
            "lower_threshold": self.lower_threshold,
            "recall": None,  # of an index that earlier versions had
            "notes": self.notes(),
            "hits": [hit.document() for hit in self],
        }


def _witness_words(hit: Hit) -> str:
    if not hit.witnesses:
        return ""
    shown = [in_a_line(one.name) if one.name else f"instance {one.index}" for one in hit.witnesses[:3]]
    more = f" and {len(hit.witnesses) - 3} more" if len(hit.witnesses) > 3 else ""
    word = witness_word(hit.answer).capitalize()
    plural = "es" if word == "Witness" else "s"
    return f" {word}{plural if len(hit.witnesses) > 1 else ''}: {', '.join(shown)}{more}."
