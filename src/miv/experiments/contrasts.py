"""Contrasts between cells, such as one model's figure minus another's, over the rounds that all of them have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from miv.evaluation.evaluation_text import TITLES
from miv.experiments.comparison import CellEvidence
from miv.experiments.grids import WITNESSES, Setup
from miv.experiments.paired import Estimate, Term, estimate

Contrast = tuple[str, Sequence[tuple[float, Setup, str]]]  # what it is, and its terms: weight, setup, metric

# An area under the curve below which a model hardly tells one from the other. Where all of them are there, they differ
# in how they miss, which says nothing about which is better.
NEAR_CHANCE = 0.6


@dataclass(frozen=True)
class Compared:
    """A contrast and its value."""

    what: str
    value: Estimate

    def __str__(self) -> str:
        value = self.value
        rounds = "1 round" if value.rounds == 1 else f"{value.rounds} rounds"
        return f"{self.what}: {value.value:+.3f} ± {value.standard_error:.3f} ({rounds}, {p_text(value.p)})"


def minus(model: str, other: str, metric: str, setups: dict[str, Setup]) -> Contrast:
    """One model's figure minus another's."""
    return f"{TITLES[metric]} of {model} − {other}", [(1, setups[model], metric), (-1, setups[other], metric)]


def compare_all(evidence: CellEvidence, contrasts: Sequence[Contrast]) -> list[Compared] | str:
    """The values of contrasts, or the reason why they are missing or meaningless."""
    setups = {setup.name: setup for _, terms in contrasts for _, setup, _ in terms}
    missing = [name for name, setup in setups.items() if not evidence.of(setup)]
    if missing:
        return f"Not computed yet: {', '.join(missing)}."
    for yardstick, of_witnesses in (("auroc", False), ("i_auroc", True)):
        some = [term for _, terms in contrasts for term in terms if (term[2] in WITNESSES) is of_witnesses]
        reason = near_chance(evidence, {setup.name: setup for _, setup, _ in some}, yardstick)
        if reason:
            return reason
    compared = []
    for what, terms in contrasts:
        found: list[Term] = [(weight, evidence.of(setup), metric) for weight, setup, metric in terms]
        value = estimate(found)
        if value is None:
            return f"No round has all cells finished for: {what}."
        compared.append(Compared(what, value))
    return compared


def near_chance(evidence: CellEvidence, setups: Mapping[str, Setup], metric: str) -> str:
    """A sentence if no cell is better than chance by ``auroc`` or ``i_auroc``; empty if one is."""
    figures = []
    for setup in setups.values():
        found = [result.metrics[metric] for result in evidence.of(setup) if metric in result.metrics]
        figures += [sum(found) / len(found)] if found else []
    if not figures or max(figures) >= NEAR_CHANCE:
        return ""
    what = "finds the witnesses" if metric == "i_auroc" else "tells positives from negatives"
    return (
        f"No model {what}: {TITLES[metric]} is {min(figures):.3f} to {max(figures):.3f}, where 0.5 is chance. Below "
        f"{NEAR_CHANCE} for all, differences and order say nothing about the models."
    )


def p_text(p: float) -> str:
    """Format a p-value.

    >>> p_text(0.0321), p_text(0.00002)
    ('p = 0.032', 'p < 0.001')
    """
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
