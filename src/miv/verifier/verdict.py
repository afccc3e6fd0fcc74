"""Verdicts on one exemplar and on many. ``verdict_text`` and ``verdict_html`` display them."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Generic, Literal, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from miv.data import csr
from miv.data.pool import InstancePool
from miv.files.arrays import Floats, Integers, Mask
from miv.verifier.decisions import Decision, OperatingPoint, WitnessesBy, decisions_of, threshold_words
from miv.verifier.out_of_distribution import OutOfDistribution

Computed = TypeVar("Computed", Floats, list[Floats])


class Lazy(Generic[Computed]):
    """What ``compute`` returns of the exemplars ``first`` to ``last - 1``, on first access: it may take long."""

    def __init__(self, compute: Callable[[int, int], Computed], first: int, last: int) -> None:
        self._compute: Callable[[int, int], Computed] = compute
        self._first, self._last = first, last

    @cached_property
    def values(self) -> Computed:
        """Scores ``(T,)`` of all instances, or one matrix ``(R, N)`` of matches per exemplar."""
        return self._compute(self._first, self._last)

    def of(self, exemplar: int, part: slice) -> "Lazy[Computed]":
        """Those of one exemplar, which are that part of the values, without computing the others."""
        known = self.__dict__.get("values")
        if known is not None:
            return Lazy(lambda *_: known[part], 0, 1)
        return Lazy(self._compute, self._first + exemplar, self._first + exemplar + 1)

    def __getstate__(self) -> dict[str, Any]:
        return {"values": self.values}  # a copy in another process has neither features nor verifier


def witness_places(witness: Mask | None, shares: Floats | None, ptr: Integers) -> list[list[int]]:
    """For each exemplar the places of its witnesses in the bag, largest share first, then the first in the bag.

    >>> shares = np.array([0.2, 0.8, 0.3, 0.4, 0.3])
    >>> witness_places(np.array([True, True, True, False, True]), shares, csr.borders([2, 0, 3]))
    [[1, 0], [], [0, 2]]
    """
    if witness is None or shares is None:
        return [[] for _ in range(len(ptr) - 1)]
    rows = witness.nonzero()[0]
    owners = csr.owners(ptr)[rows]
    order = np.lexsort((-shares[rows], owners))  # by exemplar, which leaves the owners as they are, then by share
    places, borders = (rows[order] - ptr[owners]).tolist(), csr.borders(csr.bag_sums(witness, ptr))
    return [places[first:last] for first, last in pairwise(borders.tolist())]


BETWEEN = "between the thresholds"  # why a decision is unsure

# How to choose witnesses; "none" saves the work if only the verdicts matter.
WitnessMethod = WitnessesBy | Literal["none"]


@dataclass(frozen=True, slots=True)
class Witness:
    """An instance that explains the verdict: its place in the bag, from 0, and its share as ``score``."""

    index: int
    score: float


@dataclass(frozen=True, eq=False)
class DisplayedInstances:
    """The instances of exemplars as indices into a pool, to show images and texts with a verdict."""

    pool: InstancePool
    query: NDArray[np.int64]  # (E,), or (R,) if there are references
    bag: NDArray[np.int64]  # (T,)
    query_names: Sequence[str] = ()  # E file names, "" for an instance without a file; empty if there are no files
    bag_names: Sequence[str] = ()  # T file names
    reference_ptr: NDArray[np.int64] | None = None  # (E + 1,) borders between references; None if queries are single

    def of(self, exemplar: int, first: int, last: int) -> "DisplayedInstances":
        """Those of one exemplar, given its part of the targets."""
        asked = slice(exemplar, exemplar + 1)
        if self.reference_ptr is not None:
            asked = slice(int(self.reference_ptr[exemplar]), int(self.reference_ptr[exemplar + 1]))
        return DisplayedInstances(
            self.pool, self.query[asked], self.bag[first:last], self.query_names[asked], self.bag_names[first:last]
        )


@dataclass(frozen=True, eq=False)
class Verdict:
    """The verdict on one exemplar with ``N`` targets in its bag.

    Args:
        verdict: whether the bag holds something of the query's class.
        probability: probability that it does, calibrated if the verifier is; in a ``Verification`` it never is.
        threshold: the verdict is yes if the probability is at least this.
        witnesses: the instances that show it, largest share first; candidates if the verdict is not yes.
        witnesses_by: the source of the shares; ``none`` if witnesses were not requested.
        shares: ``(N,)``, sum to 1, used to choose the witnesses; ``None`` if witnesses were not requested.
        attention: ``(N,)``, sums to 1; ``None`` if the pooling has no attention.
        size: ``N``.
        shown: the query and the bag, if they are images or texts.
        lazy_scores: the source of ``scores``; ``None`` if witnesses were not requested.
        lower_threshold: the decision is no below this, and unsure from here up to the threshold; ``None`` if the
            verifier has one threshold.
        lazy_matches: the source of ``matches``; ``None`` if no query was several references.
        unlike: which instances are out of distribution or without content; ``None`` if that is not known.
        logit: before calibration; NaN if it is not known.
        is_streamed: whether the bag was read in chunks, which keeps no shares of all targets.
        leading: the targets with the largest shares of a bag in chunks, largest first.
        withheld: why there is no yes or no: what is out of distribution or has no content; else ``None``.
        warnings: what may be wrong with the answer, as sentences: the verifier is not calibrated, or not for bags of
            this size or so many references, or some instances are out of distribution.
        chance_of_error: how often such an answer is wrong, in a sentence; "" if it was not measured.
        zero_shot: the encoder of an answer without training, which is not calibrated; else ``None``.

    A verdict of yes is truthy, so ``if verifier.verify(query, bag):`` works as expected. ``verdict`` is false for no
    and for unsure; ``decision`` tells them apart.
    """

    verdict: bool
    probability: float
    threshold: float
    witnesses: tuple[Witness, ...]
    witnesses_by: WitnessMethod
    shares: NDArray[np.float64] | None = field(repr=False)
    attention: NDArray[np.float64] | None = field(repr=False)
    size: int
    shown: DisplayedInstances | None = field(default=None, repr=False)
    lazy_scores: Lazy[Floats] | None = field(default=None, repr=False)
    lower_threshold: float | None = None
    lazy_matches: Lazy[list[Floats]] | None = field(default=None, repr=False)
    unlike: OutOfDistribution | None = field(default=None, repr=False)
    logit: float = field(default=math.nan, repr=False)
    is_streamed: bool = field(default=False, repr=False)
    leading: tuple[Witness, ...] = field(default=(), repr=False)
    withheld: str | None = field(default=None, repr=False)
    zero_shot: str | None = field(default=None, repr=False)
    warnings: tuple[str, ...] = field(default=(), repr=False)
    chance_of_error: str = field(default="", repr=False)

    @property
    def query_is_unlike(self) -> bool:
        """Whether the query is out of distribution or has no content."""
        return self.unlike is not None and bool(self.unlike.query[0])

    @property
    def reason(self) -> str | None:
        """Why the decision is unsure: ``between the thresholds``, or what is out of distribution or has no content."""
        return self.withheld or (BETWEEN if self.decision == "unsure" else None)

    @property
    def decision(self) -> Decision:
        """``yes`` if the verdict is yes; else ``no``, or ``unsure``; ``reason`` says why."""
        if self.withheld is None and self.verdict:
            return "yes"
        is_no = self.withheld is None and (self.lower_threshold is None or self.probability < self.lower_threshold)
        return "no" if is_no else "unsure"

    @property
    def matches(self) -> NDArray[np.float64] | None:
        """Probabilities ``(R, N)`` that each reference alone gives to a bag with only one instance each, if any."""
        return None if self.lazy_matches is None else self.lazy_matches.values[0]

    @property
    def scores(self) -> NDArray[np.float64] | None:
        """Probabilities ``(N,)`` of bags with only one instance each, calibrated if the verifier is.

        All are low if no instance shows the query's class. ``None`` if witnesses were not requested.
        """
        return None if self.lazy_scores is None else self.lazy_scores.values

    @property
    def matched_by(self) -> tuple[int, ...] | None:
        """For each witness the place of the reference that matches it best; ``None`` like ``matches``."""
        matches = self.matches
        return None if matches is None else tuple(int(matches[:, witness.index].argmax()) for witness in self.witnesses)

    def __bool__(self) -> bool:
        return self.verdict

    def __str__(self) -> str:
        from miv.verifier.display import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        from miv.verifier.display import as_html

        return as_html(self)

    def document(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        answer: dict[str, Any] = {
            "verdict": self.verdict,
            "decision": self.decision,
            "probability": self.probability,
            "threshold": self.threshold,
            "lower_threshold": self.lower_threshold,
            "reason": self.reason,
            "warnings": list(self.warnings),
            "chance_of_error": self.chance_of_error,
            "witnesses": [asdict(witness) for witness in self.witnesses],
        }
        if self.is_streamed:
            leading = [asdict(target) for target in self.leading]
            return answer | {"logit": self.logit, "size": self.size, "leading": leading}
        matches = self.matches
        return answer | {
            "witnesses_by": self.witnesses_by,
            "shares": None if self.shares is None else self.shares.tolist(),
            "attention": None if self.attention is None else self.attention.tolist(),
            "scores": None if self.scores is None else self.scores.tolist(),
            **({} if matches is None else {"matches": matches.tolist(), "matched_by": list(self.matched_by or ())}),
            "unlike": None if self.unlike is None else self.unlike.document(),
            **({} if self.zero_shot is None else {"zero_shot": self.zero_shot, "calibrated": False}),
        }


@dataclass(frozen=True, eq=False)
class Verdicts(Sequence[Verdict]):
    """The verdicts on ``E`` exemplars with ``T`` targets in total; each item is a ``Verdict``."""

    verdict: Mask  # (E,)
    probability: Floats  # (E,), calibrated if the verifier is
    threshold: float
    logit: Floats  # (E,), before calibration
    ptr: Integers  # (E + 1,), the borders between the bags
    witnesses_by: WitnessMethod
    shares: Floats | None = None  # (T,), sum to 1 in each bag; None if witnesses were not requested
    witness: Mask | None = None  # (T,), which targets are witnesses; None if they were not requested
    attention: Floats | None = None  # (T,), sums to 1 in each bag; None if the pooling has no attention
    shown: DisplayedInstances | None = field(default=None, repr=False)
    lazy_scores: Lazy[Floats] | None = field(default=None, repr=False)
    lower_threshold: float | None = None
    lazy_matches: Lazy[list[Floats]] | None = field(default=None, repr=False)
    unlike: OutOfDistribution | None = field(default=None, repr=False)
    point: OperatingPoint | None = field(default=None, repr=False)
    references: Integers | None = field(default=None, repr=False)  # (E,), their number; None if every query is one

    @property
    def decision(self) -> NDArray[np.str_]:
        """``(E,)``: ``yes``, ``no`` or ``unsure``, as in ``Verdict.decision``."""
        lower = self.threshold if self.lower_threshold is None else self.lower_threshold
        rejected = self.probability < lower
        return decisions_of(self.verdict, rejected if self.unlike is None else rejected & ~self.unlike.withheld)

    @property
    def matches(self) -> list[NDArray[np.float64]] | None:
        """One matrix ``(R, N)`` per exemplar, as in ``Verdict.matches``."""
        return None if self.lazy_matches is None else self.lazy_matches.values

    @property
    def scores(self) -> NDArray[np.float64] | None:
        """Probabilities ``(T,)`` of bags with only one instance each, as in ``Verdict.scores``."""
        return None if self.lazy_scores is None else self.lazy_scores.values

    def warnings(self, exemplar: int) -> tuple[str, ...]:
        """The warnings of one exemplar, as in ``Verdict.warnings``."""
        if self.point is None:
            return ()
        references = 1 if self.references is None else int(self.references[exemplar])
        of_point = self.point.warnings(int(self.ptr[exemplar + 1] - self.ptr[exemplar]), references)
        note = "" if self.unlike is None else self.unlike.of(exemplar).note
        return (*of_point, note) if note else of_point

    def __len__(self) -> int:
        return len(self.probability)

    def __repr__(self) -> str:
        count = int((self.decision == "unsure").sum())
        unsure = f", {count} unsure" if count or self.lower_threshold is not None else ""
        words = threshold_words(self.threshold, self.lower_threshold)
        return f"Verdicts({len(self)} exemplars, {int(self.verdict.sum())} yes{unsure}, {words})"

    @overload
    def __getitem__(self, exemplar: int) -> Verdict: ...
    @overload
    def __getitem__(self, exemplar: slice) -> Sequence[Verdict]: ...
    def __getitem__(self, exemplar: int | slice) -> Verdict | Sequence[Verdict]:
        """Return the verdict on one exemplar, or a list of verdicts for a slice."""
        if isinstance(exemplar, slice):
            return [self[number] for number in range(len(self))[exemplar]]
        if not -len(self) <= exemplar < len(self):
            raise IndexError(f"There is no exemplar {exemplar}. Expected 0 to {len(self) - 1}.")
        exemplar %= len(self)
        first, last = int(self.ptr[exemplar]), int(self.ptr[exemplar + 1])
        unlike = self.unlike and self.unlike.of(exemplar)
        verdict = Verdict(
            verdict=bool(self.verdict[exemplar]),
            probability=float(self.probability[exemplar]),
            threshold=self.threshold,
            witnesses=self._witnesses(first, last),
            witnesses_by=self.witnesses_by,
            shares=None if self.shares is None else self.shares[first:last],
            attention=None if self.attention is None else self.attention[first:last],
            size=last - first,
            shown=self.shown and self.shown.of(exemplar, first, last),
            lazy_scores=self.lazy_scores and self.lazy_scores.of(exemplar, slice(first, last)),
            lower_threshold=self.lower_threshold,
            lazy_matches=self.lazy_matches and self.lazy_matches.of(exemplar, slice(exemplar, exemplar + 1)),
            unlike=unlike,
            logit=float(self.logit[exemplar]),
            withheld=None if unlike is None else unlike.reason,
            warnings=self.warnings(exemplar),
        )
        error = "" if self.point is None else self.point.chance_of_error(verdict.decision)
        return replace(verdict, chance_of_error=error)

    def __iter__(self) -> Iterator[Verdict]:
        return (self[exemplar] for exemplar in range(len(self)))

    def _witnesses(self, first: int, last: int) -> tuple[Witness, ...]:
        if self.witness is None or self.shares is None:
            return ()
        shares = self.shares[first:last]
        [places] = witness_places(self.witness[first:last], shares, np.array([0, last - first]))
        return tuple(Witness(place, float(shares[place])) for place in places)
