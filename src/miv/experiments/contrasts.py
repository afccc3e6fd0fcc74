"""Contrasts between cells, such as one model's figure minus another's, over the rounds that all of them have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from miv.evaluation.evaluation import TITLES
from miv.experiments.comparison import CellEvidence
from miv.experiments.grids import Setup
from miv.experiments.paired import Estimate, Term, estimate, holm
from miv.experiments.scorings import yardstick

Contrast = tuple[str, Sequence[tuple[float, Setup, str]]]  # what it is, and its terms: weight, setup, metric

# An area under the curve below which a model hardly tells one from the other. Where all of them are there, they differ
# in how they miss, which says nothing about which is better.
NEAR_CHANCE = 0.6
MISSING = "Not computed yet"  # how the reason begins if cells are missing


@dataclass(frozen=True)
class Compared:
    """A contrast, its value, and its p-value among all of its claim.

    Args:
        what: in words.
        value: of it.
        p_holm: of a value of 0, corrected by Holm for all contrasts that are judged together.
    """

    what: str
    value: Estimate
    p_holm: float

    def __str__(self) -> str:
        value = self.value
        rounds = "1 round" if value.rounds == 1 else f"{value.rounds} rounds"
        p = f"{p_text(value.p)}, by Holm {p_text(self.p_holm).removeprefix('p ').removeprefix('= ')}"
        return f"{self.what}: {value.value:+.3f} ± {value.standard_error:.3f} ({rounds}, {p})"


def minus(model: str, other: str, metric: str, setups: dict[str, Setup]) -> Contrast:
    """One model's figure minus another's."""
    return f"{TITLES[metric]} of {model} − {other}", [(1, setups[model], metric), (-1, setups[other], metric)]


def compare_all(evidence: CellEvidence, contrasts: Sequence[Contrast]) -> list[Compared] | str:
    """The values of contrasts, or the reason why they are missing or meaningless."""
    setups = {setup.name: setup for _, terms in contrasts for _, setup, _ in terms}
    missing = [name for name, setup in setups.items() if not evidence.of(setup)]
    if missing:
        return f"{MISSING}: {', '.join(missing)}."
    everything = [term for _, terms in contrasts for term in terms]
    lacking: dict[str, str] = {}
    for _, setup, metric in everything:
        if not any(metric in result.metrics for result in evidence.of(setup)):
            lacking.setdefault(setup.name, metric)
    if lacking:
        return (
            f"The predictions of {', '.join(lacking)} have no {TITLES[next(iter(lacking.values()))]}, because they "
            "were saved without a score for each instance. Compute these cells again."
        )
    for measure in dict.fromkeys(yardstick(metric) for _, _, metric in everything):
        some = {setup.name: setup for _, setup, metric in everything if yardstick(metric) == measure}
        reason = near_chance(evidence, some, measure)
        if reason:
            return reason
    values = []
    for what, terms in contrasts:
        found: list[Term] = [(weight, evidence.of(setup), metric) for weight, setup, metric in terms]
        value = estimate(found)
        if value is None:
            return f"No round has all cells finished for: {what}."
        values.append((what, value))
    corrected = holm([value.p for _, value in values])
    return [Compared(what, value, p) for (what, value), p in zip(values, corrected, strict=True)]


def near_chance(evidence: CellEvidence, setups: Mapping[str, Setup], metric: str) -> str:
    """A sentence if no cell is better than chance by an area under the curve; empty if one is."""
    figures = []
    for setup in setups.values():
        found = [result.metrics[metric] for result in evidence.of(setup) if metric in result.metrics]
        figures += [sum(found) / len(found)] if found else []
    if not figures or max(figures) >= NEAR_CHANCE:
        return ""
    what = "tells positives from negatives" if metric == "auroc" else "finds the witnesses"
    return (
        f"No model {what}: {TITLES[metric]} is {min(figures):.3f} to {max(figures):.3f}, where 0.5 is chance. If "
        f"all figures are below {NEAR_CHANCE}, their differences and order say nothing about the models."
    )


def p_text(p: float) -> str:
    """Format a p-value.

    >>> p_text(0.0321), p_text(0.00002)
    ('p = 0.032', 'p < 0.001')
    """
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
