"""Our figures with their errors beside the paper's, paired differences between models, and the order of the models."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from miv.backbones.hf_files import MINILM
from miv.errors import MIVError
from miv.evaluation.metrics import holm
from miv.reproduction.grids import OF_PAPER, ROUNDING, STANDS_IN, Cell, Experiment, Published, Row, Setup, published
from miv.reproduction.jobs import Job, Tier, find_tier
from miv.reproduction.results import Result, find_result

WITHIN, ABOVE, BELOW = "within 2 SE", "above", "below"
_TINY = 1e-12  # more than the rounding error of sums of floating point numbers


@dataclass(frozen=True)
class Estimate:
    r"""A figure, or a difference of two, over ``R`` rounds, and the evidence that it is on one side of a bound.

    A value is beyond a bound only if it is by both errors. With the distance :math:`d` to the bound,

    .. math:: p = \max\{ P(Z > d / SE_{exemplars}),\ P(T_{R-1} > d / SE_{rounds}) \}

    where :math:`Z` is normal and :math:`T` is Student's. The error over exemplars is ``None`` if the predictions of two
    models were never on one machine, that over rounds if there is one round.
    """

    value: float  # the mean over rounds
    rounds: int
    over_exemplars: float | None
    over_rounds: float | None

    @property
    def standard_error(self) -> float:
        """The error over rounds, as in the paper; for one round, the error over exemplars."""
        error = self.over_exemplars if self.over_rounds is None else self.over_rounds
        return math.nan if error is None else error

    @property
    def p(self) -> float:
        """Two-sided p-value for a value of 0."""
        return 2 * self._tail(abs(self.value))

    def p_above(self, bound: float) -> float:
        """One-sided p-value for a value of at most ``bound``: small if the value is clearly above it."""
        return self._tail(self.value - bound)

    def p_below(self, bound: float) -> float:
        """One-sided p-value for a value of at least ``bound``: small if the value is clearly below it."""
        return self._tail(bound - self.value)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval: the bounds from which the value differs by both errors, each with p >= 0.05.

        >>> [round(bound, 3) for bound in Estimate(0.5, 3, 0.01, 0.02).interval]  # 4.303 errors over three rounds
        [0.414, 0.586]
        """
        reach = [] if self.over_exemplars is None else [float(ndtri(0.975)) * self.over_exemplars]
        if self.over_rounds is not None:
            reach.append(float(stdtrit(self.rounds - 1, 0.975)) * self.over_rounds)
        widest = max(reach, default=math.nan)
        return self.value - widest, self.value + widest

    def _tail(self, distance: float) -> float:
        """The larger of the two probabilities of such a distance by chance; NaN if no error is known."""
        errors = ((self.over_exemplars, None), (self.over_rounds, self.rounds - 1))
        tails = [_survival(distance, error, freedom) for error, freedom in errors if error is not None]
        return math.nan if not tails or any(map(math.isnan, tails)) else max(tails)


def _survival(distance: float, error: float, freedom: int | None) -> float:
    """The tail probability of Student's or the normal distribution; with an error of 0, the side is certain."""
    if error < _TINY:
        return 0.5 if abs(distance) < _TINY else float(distance < 0)
    return float(ndtr(-distance / error) if freedom is None else stdtr(freedom, -distance / error))


def estimate(results: Sequence[Result], metric: str) -> Estimate | None:
    """The mean of a metric over rounds; ``None`` without results or if one of them lacks it."""
    if not results or any(metric not in result.metrics for result in results):
        return None
    values = [result.metrics[metric] for result in results]
    return _over_rounds(values, [result.error_of(metric) for result in results], results)


def difference(ours: Sequence[Result], theirs: Sequence[Result], metric: str) -> Estimate | None:
    """The lead of the first over the second in the rounds that both have, paired exemplar by exemplar."""
    others = {result.round: result for result in theirs}
    pairs = [(result, others[result.round]) for result in ours if result.round in others]
    if not pairs or any(metric not in result.metrics for pair in pairs for result in pair):
        return None
    for our, their in pairs:
        if our.document["data"]["test"] != their.document["data"]["test"]:
            raise MIVError(f"{our.job} and {their.job} were tested on different exemplars and cannot be compared.")
    values = [our.metrics[metric] - their.metrics[metric] for our, their in pairs]
    errors = [our.error_of_difference(their, metric) for our, their in pairs]
    return _over_rounds(values, errors, [our for our, _ in pairs])


def _over_rounds(values: Sequence[float], errors: Sequence[float | None], results: Sequence[Result]) -> Estimate:
    """The mean over rounds. Rounds with the same test exemplars count these once: their errors add up."""
    by_test: dict[str, float] = {}
    for result, error in zip(results, errors, strict=True):
        test = result.document["data"]["test"]
        by_test[test] = by_test.get(test, 0.0) + (error or 0.0)
    over_exemplars = None if None in errors else math.hypot(*by_test.values()) / len(values)
    spread = float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else None
    return Estimate(float(np.mean(values)), len(values), over_exemplars, spread)


@dataclass(frozen=True)
class CellEvidence:
    """The finished cells of a task in a tier, read on demand."""

    task: str
    tier_name: str
    rounds: tuple[int, ...]
    results: Path
    encoder: str = MINILM
    _read: dict[str, list[Result]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def tier(self) -> Tier:
        return find_tier(self.tier_name)

    def of(self, setup: Setup, rounds: Collection[int] | None = None) -> list[Result]:
        """The available results of a setup, one per round; only the named rounds, if any are named."""
        if setup.name not in self._read:
            jobs = [Job(Cell(self.task, setup, number), self.tier_name, self.encoder) for number in self.rounds]
            results = [find_result(job, self.results) for job in jobs]
            self._read[setup.name] = [result for result in results if result is not None]
        every = self._read[setup.name]
        return every if rounds is None else [result for result in every if result.round in rounds]

    def common_rounds(self, rows: Sequence[Row]) -> tuple[int, ...]:
        """The rounds shared by all rows that have any; rows can be ranked only on these."""
        there = [{result.round for result in self.of(row.setup)} for row in rows if self.of(row.setup)]
        return tuple(sorted(set.intersection(*there))) if there else ()

    @property
    def may_judge(self) -> bool:
        """Whether the figures say anything about the paper; those of a synthetic twin do not."""
        return not self.tier.is_twin

    @property
    def may_compare_figures(self) -> bool:
        """Whether the figures themselves can be compared with the paper's, not only the order of the models."""
        return self.may_judge and self.task in OF_PAPER and self.task not in STANDS_IN


@dataclass(frozen=True)
class Comparison:
    """One figure of a table."""

    row: Row
    metric: str
    ours: Estimate | None  # None if it is not computed yet, or the model has no such metric
    paper: Published | None  # if there is one and it can be compared
    word: str  # within 2 SE, above or below; empty if the two cannot be compared


def compare_figures(experiment: Experiment, evidence: CellEvidence) -> list[Comparison]:
    """A comparison for each row and metric, over all rounds of a row; steps use the rounds that they share."""
    rounds = evidence.common_rounds(experiment.rows) if experiment.is_stepwise else None
    comparisons = []
    for row in experiment.rows:
        for metric in experiment.metrics:
            ours = estimate(evidence.of(row.setup, rounds), metric)
            paper = published(experiment, row, metric) if evidence.may_judge else None
            word = compare(ours, paper) if evidence.may_compare_figures else ""
            comparisons.append(Comparison(row, metric, ours, paper, word))
    return comparisons


def compare(ours: Estimate | None, paper: Published | None) -> str:
    """Whether our figure is within two standard errors of the paper's; the paper's rounding counts as an error too."""
    if ours is None or paper is None or not math.isfinite(ours.standard_error):
        return ""
    error = math.hypot(ours.standard_error, paper.standard_error or 0.0, ROUNDING)
    gap = ours.value - paper.mean
    return WITHIN if abs(gap) <= 2 * error else ABOVE if gap > 0 else BELOW


@dataclass(frozen=True)
class PairedTest:
    """A paired test of a row against its reference."""

    row: Row
    reference: Row
    metric: str
    difference: Estimate  # the row minus its reference
    p: float  # with Holm's correction for all tests of this metric in the table


def paired_tests(experiment: Experiment, evidence: CellEvidence) -> list[PairedTest]:
    """Test each row of an experiment against its reference if both have results for the same rounds."""
    tests: list[PairedTest] = []
    pairs = [(row, other) for row in experiment.rows if (other := experiment.reference_of(row)) is not None]
    for metric in experiment.metrics:
        leads = [difference(evidence.of(row.setup), evidence.of(other.setup), metric) for row, other in pairs]
        gaps = [(*pair, gap) for pair, gap in zip(pairs, leads, strict=True) if gap is not None]
        corrected = holm([gap.p for _, _, gap in gaps])
        tests += [PairedTest(row, other, metric, gap, p) for (row, other, gap), p in zip(gaps, corrected, strict=True)]
    return tests
