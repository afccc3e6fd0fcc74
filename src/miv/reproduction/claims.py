"""The paper's claims about its models, each as one row: the weakest effect, its interval, and one word."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from miv.evaluation.evaluation import TITLES
from miv.evaluation.metrics import holm
from miv.reproduction.comparison import CellEvidence, Estimate, difference
from miv.reproduction.grids import BENCHMARKS, CAP, FOUR, Setup, experiments_of

REPRODUCED, DIFFERS, INCONCLUSIVE, NOT_RUN = "reproduced", "differs", "inconclusive", "not run"
LEVEL = 0.05
MARGIN = 0.02  # what counts as no difference; the smallest lead that the paper calls sizeable is 0.022
NEAR_CHANCE = 0.6  # if all areas under the curve are below this, differences say nothing about the models

_WITH_ATTENTION = ("gabmil", "pma")  # the benchmarks that point at witnesses
_WITNESSES = {
    "": ("i_auroc", "i_ap"),
    ", by own score": ("i_auroc_by_score", "i_ap_by_score"),
    ", by first choice": ("i_auroc_one_hot", "i_ap_one_hot", "i_top1"),
}


@dataclass(frozen=True)
class Contrast:
    """One setup minus another by a metric."""

    metric: str
    ours: Setup
    theirs: Setup

    def __str__(self) -> str:
        return f"{TITLES[self.metric]}, {self.ours.name} − {self.theirs.name}"


@dataclass(frozen=True)
class Claim:
    """A claim: what all its contrasts are, ``above`` 0, ``not below`` −0.02, or ``within`` ±0.02."""

    experiment: str
    name: str
    kind: str
    contrasts: tuple[Contrast, ...]


@dataclass(frozen=True)
class Verdict:
    """A claim and what our figures say."""

    claim: Claim
    word: str  # reproduced, differs, inconclusive, or not run if a figure is missing
    weakest: Contrast | None = None  # the smallest difference; of equivalence, the one farthest from 0
    effect: Estimate | None = None  # its value
    p_holm: float = math.nan  # its p-value for 0, with Holm's correction for all contrasts of the claim
    effects: tuple[float, ...] = ()  # the values of all contrasts

    def document(self) -> dict[str, Any]:
        weakest = None
        if self.effect is not None:
            low, high = self.effect.interval
            values = {"value": self.effect.value, "low": low, "high": high, "p_holm": self.p_holm}
            finite = {name: value if math.isfinite(value) else None for name, value in values.items()}
            weakest = {"what": str(self.weakest), **finite}
        span = [min(self.effects), max(self.effects)] if self.effects else None
        return {"name": self.claim.name, "judgement": self.word, "weakest": weakest, "range": span}


# By kind: the p-value that is small if a contrast supports the claim, and the one that is small if it refutes it.
_TESTS: dict[str, tuple[Callable[[Estimate], float], Callable[[Estimate], float]]] = {
    "above": (lambda value: value.p if value.value > 0 else 1.0, lambda value: value.p if value.value < 0 else 1.0),
    "not below": (lambda value: value.p_above(-MARGIN), lambda value: min(1.0, 2 * value.p_below(-MARGIN))),
    "within": (
        lambda value: max(value.p_above(-MARGIN), value.p_below(MARGIN)),  # two one-sided tests
        lambda value: min(1.0, 2 * min(value.p_above(MARGIN), value.p_below(-MARGIN))),
    ),
}


def claims_of(task: str) -> Iterator[Claim]:
    """The paper's claims that a task can test."""
    tables = experiments_of(task)
    setups = {row.model: row.setup for row in tables["classification"].rows}
    cap = [model for model in CAP if model in setups]

    def pairs(models: Sequence[str], others: Sequence[str], metrics: Sequence[str]) -> tuple[Contrast, ...]:
        names = [(model, other) for model in models for other in others]
        return tuple(Contrast(metric, setups[model], setups[other]) for metric in metrics for model, other in names)

    both = ("auroc", "accuracy")
    yield Claim("classification", "baseline ≥ benchmarks", "not below", pairs(["baseline"], BENCHMARKS, both))
    yield Claim("classification", "CAP > baseline in classification", "above", pairs(cap, ["baseline"], both))
    yield Claim("classification", "CAP > benchmarks in classification", "above", pairs(cap, BENCHMARKS, both))
    for scoring, metrics in _WITNESSES.items():
        for name, contrasts in (
            ("CAP > baseline in finding witnesses", pairs(cap, ["baseline"], metrics)),
            ("CAP > benchmarks in finding witnesses", pairs(cap, _WITH_ATTENTION, metrics)),
        ):
            yield Claim("key_instance", name + scoring, "above", contrasts)
        first = [row for row in tables["ablation"].rows if row.variant == "+attention"]
        steps = tuple(Contrast(metric, row.setup, setups["baseline"]) for metric in metrics for row in first)
        yield Claim("ablation", f"the attention function finds witnesses{scoring}", "above", steps)
    for table, name, variant in (
        ("headed", "multi-head projections matter little", "non_headed"),
        ("layernorm", "the place of the LayerNorm matters little", "post_aggregation"),
    ):
        rows = [row for row in tables[table].rows if row.variant == variant]
        same = tuple(Contrast(metric, setups[row.model], row.setup) for metric in FOUR for row in rows)
        yield Claim(table, name, "within", same)
    if "size_study" in tables:
        rows = [row for row in tables["size_study"].rows if row.model in CAP]
        references = [(row, tables["size_study"].reference_of(row)) for row in rows]
        sizes = [Contrast(metric, row.setup, other.setup) for metric in FOUR for row, other in references if other]
        yield Claim("size_study", "CAP > baseline at every size", "above", tuple(sizes))


def judge(claim: Claim, evidence: CellEvidence) -> Verdict:
    """Judge a claim by all its contrasts; docs/reproducing.md says how."""
    values = []
    for contrast in claim.contrasts:
        ours, theirs = evidence.of(contrast.ours), evidence.of(contrast.theirs)
        value = difference(ours, theirs, contrast.metric)
        if value is None:
            return Verdict(claim, NOT_RUN)
        values.append((contrast, value))
    shown, refuted = _TESTS[claim.kind]
    corrected = holm([value.p for _, value in values])
    supports = [math.inf if math.isnan(p) else p for p in (shown(value) for _, value in values)]
    effects = [value.value for _, value in values]
    place = int(np.argmin([-abs(effect) if claim.kind == "within" else effect for effect in effects]))
    against = holm([refuted(value) for _, value in values])
    one_round = any(value.rounds == 1 for _, value in values)
    word = INCONCLUSIVE
    if not one_round and not near_chance(claim.contrasts, evidence):
        word = DIFFERS if any(p < LEVEL for p in against) else word
        word = REPRODUCED if all(p < LEVEL for p in supports) else word
    weakest, effect = values[place]
    return Verdict(claim, word, weakest, effect, corrected[place], tuple(effects))


def near_chance(contrasts: Sequence[Contrast], evidence: CellEvidence) -> bool:
    """Whether an area under the curve that the contrasts are about is near chance for all their models."""
    areas: dict[str, list[float]] = {}
    for contrast in contrasts:
        area = "auroc"  # or the area of the same scoring of witnesses
        if contrast.metric.startswith("i_"):
            area = "i_auroc_one_hot" if contrast.metric == "i_top1" else contrast.metric.replace("i_ap", "i_auroc")
        for result in (*evidence.of(contrast.ours), *evidence.of(contrast.theirs)):
            areas.setdefault(area, []).append(result.metrics.get(area, math.nan))
    return any(max(values) < NEAR_CHANCE for values in areas.values())


def judge_claims(experiment: str, evidence: CellEvidence) -> list[Verdict]:
    """The claims that an experiment can test; none on a synthetic twin."""
    if not evidence.may_judge:
        return []
    return [judge(claim, evidence) for claim in claims_of(evidence.task) if claim.experiment == experiment]
