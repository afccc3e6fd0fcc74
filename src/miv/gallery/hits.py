"""The answer of a search: the best bags of a gallery, and how likely they are hits by chance."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, overload

from miv.verifier.decisions import Decision, OperatingPoint
from miv.verifier.display import headline, in_a_line, witness_word
from miv.verifier.verdict import Verdict


class Chance:
    r"""The probability that the best of ``N`` bags without the query's class reaches some probability.

    .. math:: P = 1 - (1 - r)^N

    The false-accept rate :math:`r` of one bag is that of the negatives on which the verifier was calibrated, counted so
    that it is never 0: a probability above all ``n`` negatives has :math:`r = 1 / (n + 1)`.

    Args:
        point: the operating point of the verifier.
    """

    def __init__(self, point: OperatingPoint) -> None:
        self._is_calibrated = not point.is_default
        self._threshold = point.threshold
        self._tail = _tail_of(point.measured)
        self._rate_at_threshold = _rate_of(point.measured)

    def rate(self, probability: float) -> tuple[float, bool] | None:
        """The false-accept rate of one bag, and whether it is only an upper bound; ``None`` if unknown."""
        if self._tail is not None:
            negatives, reached, counts = self._tail
            for count, value in zip(counts, reached, strict=True):
                if value < probability:
                    return min(1.0, max(count / (counts[-1] + 1), 1 / (negatives + 1))), count == 1
            return 1.0, False
        if self._rate_at_threshold is not None and probability >= self._threshold:
            return self._rate_at_threshold, True
        return None

    def of(self, probability: float, bags: int) -> float | None:
        """The probability that a chance hit is this good, among so many bags."""
        rate = self.rate(probability)
        if rate is None:
            return None
        return 1.0 if rate[0] >= 1 else -math.expm1(bags * math.log1p(-rate[0]))

    def words(self, probability: float | None, bags: int) -> str:
        """What to tell about the best hit."""
        if not self._is_calibrated:
            return (
                "The verifier is not calibrated, so the probabilities are rough, and nothing can be said about chance "
                "hits. Run `miv calibrate`."
            )
        if probability is None:
            return "The gallery is empty."
        chance, rate = self.of(probability, bags), self.rate(probability)
        if chance is None or rate is None:
            return (
                "The calibration does not say how often a bag without the query's class gets so high a probability. "
                "Calibrate again with `miv calibrate`."
            )
        if rate[1] and chance > 0.99:
            return (
                f"Among {bags:,} bags without the query's class, the best might look this good by chance: the data of "
                "the calibration have too few negatives to rule that out."
            )
        at_most = "at most " if rate[1] else ""
        return (
            f"If none of the {bags:,} bags held the query's class, the best would look this good with probability "
            f"{at_most}{_shown(chance)}."
        )


def _shown(chance: float) -> str:
    return "above 0.99" if chance > 0.99 else f"{chance:.2g}"


def _tail_of(measured: dict[str, Any]) -> tuple[float, list[float], list[int]] | None:
    """Effective number of negatives, and the probability that 1, 2, ... of them reach, if the file has them."""
    tail = measured.get("false_accepts")
    if not isinstance(tail, dict):
        return None
    negatives, reached, counts = tail.get("effective_negatives"), tail.get("probability"), tail.get("count")
    if not isinstance(reached, list) or not isinstance(counts, list) or not 0 < len(reached) == len(counts):
        return None
    if not _are_numbers([negatives, *reached, *counts]) or negatives is None or min(negatives, *counts) <= 0:
        return None
    return float(negatives), reached, counts


def _rate_of(measured: dict[str, Any]) -> float | None:
    rates = measured.get("false_accept_rate")
    rate = rates.get("at_most", rates.get("value")) if isinstance(rates, dict) else None
    return float(rate) if rate is not None and _are_numbers([rate]) and 0 <= rate <= 1 else None


def _are_numbers(values: list[Any]) -> bool:
    return all(isinstance(one, int | float) and not isinstance(one, bool) and math.isfinite(one) for one in values)


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
