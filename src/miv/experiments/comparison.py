"""Compare our figures with the paper's: differences, whether they are within two standard errors, paired tests."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from miv.backbones.hf_names import MINILM
from miv.experiments.grids import Cell, Experiment, Row, Setup
from miv.experiments.jobs import Job
from miv.experiments.paired import Estimate, difference, estimate, holm
from miv.experiments.published import ROUNDING, STANDS_IN, Published, published
from miv.experiments.results import Result, find_result
from miv.experiments.tiers import Tier, find_tier

WITHIN, ABOVE, BELOW = "within 2 SE", "above", "below"


@dataclass(frozen=True)
class CellEvidence:
    """The finished cells of a task in a tier, read on demand."""

    task: str
    tier_name: str
    rounds: tuple[int, ...]
    results: Path
    encoder: str = MINILM

    @property
    def tier(self) -> Tier:
        return find_tier(self.tier_name)

    @cached_property
    def _found(self) -> dict[str, list[Result]]:
        return {}

    def of(self, setup: Setup, rounds: Collection[int] | None = None) -> list[Result]:
        """The available results of a setup, one per round; only the given rounds, if any are given."""
        if setup.name not in self._found:
            jobs = [Job(Cell(self.task, setup, number), self.tier_name, self.encoder) for number in self.rounds]
            found = [find_result(job, self.results) for job in jobs]
            self._found[setup.name] = [result for result in found if result is not None]
        every = self._found[setup.name]
        return every if rounds is None else [result for result in every if result.job.cell.round in rounds]

    def common_rounds(self, rows: Sequence[Row]) -> tuple[int, ...]:
        """The rounds shared by all rows that have any; rows can be ranked only on these."""
        there = [{result.job.cell.round for result in self.of(row.setup)} for row in rows if self.of(row.setup)]
        return tuple(sorted(set.intersection(*there))) if there else ()

    @property
    def may_judge(self) -> bool:
        """Whether the figures say anything about the paper; those of a synthetic twin do not."""
        return not self.tier.is_twin

    @property
    def may_compare_figures(self) -> bool:
        """Whether the figures themselves can be compared with the paper's, not only the order of the models."""
        return self.may_judge and self.task not in STANDS_IN


@dataclass(frozen=True)
class Comparison:
    """One figure of a table.

    Args:
        row: its row.
        metric: its column.
        ours: our figure; ``None`` if it is not computed yet, or the model has no such metric.
        paper: the paper's figure, if there is one and it can be compared.
        word: within 2 SE, above or below; empty if the two cannot be compared.
    """

    row: Row
    metric: str
    ours: Estimate | None
    paper: Published | None
    word: str

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        return None if self.ours is None or self.paper is None else self.ours.value - self.paper.mean


def verdicts(experiment: Experiment, evidence: CellEvidence) -> list[Comparison]:
    """A verdict for each row and metric of an experiment, over all rounds of a row; steps use the rounds they share."""
    rounds = evidence.common_rounds(experiment.rows) if experiment.is_stepwise else None
    found = []
    for row in experiment.rows:
        for metric in experiment.metrics:
            ours = estimate([(1.0, evidence.of(row.setup, rounds), metric)])
            paper = published(experiment, row, metric) if evidence.may_judge else None
            word = compare(ours, paper) if evidence.may_compare_figures else ""
            found.append(Comparison(row, metric, ours, paper, word))
    return found


def compare(ours: Estimate | None, paper: Published | None) -> str:
    """Whether our figure is within two standard errors of the paper's; the paper's rounding counts as an error too.

    >>> compare(Estimate(0.70, 3, 0.01, 0.003), Published(0.71, 0.004))
    'within 2 SE'
    >>> compare(Estimate(0.70, 3, 0.01, 0.003), Published(0.72, 0.004))
    'below'
    """
    if ours is None or paper is None or not math.isfinite(ours.standard_error):
        return ""
    error = math.hypot(ours.standard_error, paper.standard_error or 0.0, ROUNDING)
    gap = ours.value - paper.mean
    return WITHIN if abs(gap) <= 2 * error else ABOVE if gap > 0 else BELOW


@dataclass(frozen=True)
class PairedTest:
    """A paired test of a row against its reference, exemplar by exemplar.

    Args:
        row: the row.
        reference: the row it is compared with.
        metric: the metric.
        difference: the first minus the second.
        p: p-value with Holm's correction for all tests of this metric in the table.
    """

    row: Row
    reference: Row
    metric: str
    difference: Estimate
    p: float


def paired_tests(experiment: Experiment, evidence: CellEvidence) -> list[PairedTest]:
    """Test each row of an experiment against its reference if both have results for the same rounds."""
    found: list[PairedTest] = []
    for metric in experiment.metrics:
        tests = []
        for row in experiment.rows:
            reference = reference_of(experiment, row)
            if reference is not None:
                gap = difference(evidence.of(row.setup), evidence.of(reference.setup), metric)
                if gap is not None:
                    tests.append((row, reference, gap))
        corrected = holm([gap.p for _, _, gap in tests])
        for (row, reference, gap), p in zip(tests, corrected, strict=True):
            found.append(PairedTest(row, reference, metric, gap, p))
    return found


def reference_of(experiment: Experiment, row: Row) -> Row | None:
    """The row to compare with: the baseline, the step before it, or the plain model; ``None`` for these themselves."""
    rows = experiment.rows
    if experiment.name == "ablation":
        ladder = [one for one in rows if one.model == row.model]
        place = ladder.index(row)
        return ladder[place - 1] if place else None
    if experiment.name in ("headed", "layernorm"):
        plain = next(one for one in rows if one.model == row.model)
        return None if plain is row else plain
    baseline = next((one for one in rows if one.model == "baseline" and one.variant == row.variant), None)
    return None if baseline is row else baseline
