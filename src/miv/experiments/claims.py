"""The paper's claims, each judged by our own figures: holds, does not hold, or cannot be told, and why."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from miv.evaluation.report_text import TITLES
from miv.experiments.grids import BENCHMARKS, CAP, EXPERIMENTS, LADDER, SIZES, Experiment, Setup
from miv.experiments.paired import Estimate, Term, estimate, holm
from miv.experiments.verdict import Evidence

Judgement = Literal["holds", "does not hold", "cannot be told"]
HOLDS: Judgement = "holds"
FAILS: Judgement = "does not hold"
UNKNOWN: Judgement = "cannot be told"
LEVEL = 0.05
_Contrast = tuple[str, Sequence[tuple[float, Setup, str]]]  # what it is, and its terms: weight, setup, metric


@dataclass(frozen=True)
class Claim:
    """A claim of the paper and what came of it.

    Args:
        name: short.
        statement: what the paper says.
        judgement: what our figures say.
        reason: in a sentence.
        numbers: what it rests on, a line each.
    """

    name: str
    statement: str
    judgement: Judgement
    reason: str
    numbers: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Compared:
    """A contrast that a claim is about, and its value."""

    what: str
    value: Estimate
    p: float

    @property
    def sign(self) -> Literal["above", "below", "even"]:
        """On which side of 0 it is, if that can be told."""
        return "even" if not self.p < LEVEL else "above" if self.value.value > 0 else "below"

    def __str__(self) -> str:
        value = self.value
        rounds = "1 round" if value.rounds == 1 else f"{value.rounds} rounds"
        return f"{self.what}: {value.value:+.3f} ± {value.standard_error:.3f} ({rounds}, {p_text(self.p)})"


def judge_claims(experiment: Experiment, evidence: Evidence) -> list[Claim]:
    """The claims that the cells of an experiment bear on; none of a twin."""
    if not evidence.may_judge:
        return []
    judges: dict[str, list[Callable[[Evidence], Claim]]] = {
        "classification": [baseline_and_benchmarks, cap_and_baseline, witness_gap],
        "key_instance": [cap_and_baseline, witness_gap],
        "ablation": [main_contributor],
        "headed": [heads_matter_little],
        "layernorm": [layernorm_matters_little],
        "size_study": [ahead_at_every_size, less_sensitive_to_bag_size],
    }
    return [judge(evidence) for judge in judges.get(experiment.name, [])]


def baseline_and_benchmarks(evidence: Evidence) -> Claim:
    """The baseline is at least as good as every benchmark in classification."""
    statement = "In classification (AUROC) the baseline is at least as good as every benchmark."
    if evidence.task != "qmnist":
        statement += " The paper says it of QMNIST only."
    models = _plain(evidence)
    pairs = [_minus("baseline", model, "auroc", models) for model in BENCHMARKS]
    compared = _compare(evidence, pairs)
    name = "baseline ≥ benchmarks"
    if isinstance(compared, str):
        return Claim(name, statement, UNKNOWN, compared)
    numbers = [str(one) for one in compared]
    better = [one.what for one in compared if one.sign == "below"]
    if better:
        return Claim(name, statement, FAILS, f"Significantly below 0: {'; '.join(better)}.", numbers)
    behind = [one.what for one in compared if one.value.value < 0]
    if behind:
        return Claim(name, statement, UNKNOWN, f"Below 0, but not significantly: {'; '.join(behind)}.", numbers)
    return Claim(name, statement, HOLDS, "No benchmark is ahead of the baseline.", numbers)


def cap_and_baseline(evidence: Evidence) -> Claim:
    """CAP is better than the baseline, in classification and in finding witnesses."""
    models = _plain(evidence)
    cap = [model for model in CAP if model in models]
    pairs = [_minus(model, "baseline", metric, models) for model in cap for metric in ("auroc", "i_auroc", "i_ap")]
    statement = "Every CAP model is better than the baseline on both criteria: AUROC, and i-AUROC and i-AP."
    return _all_above("CAP > baseline", statement, _compare(evidence, pairs))


def witness_gap(evidence: Evidence) -> Claim:
    """CAP is ahead of the baseline by more in finding witnesses than in classification."""
    models = _plain(evidence)
    contrasts = []
    for model in [model for model in CAP if model in models]:
        ours, base = models[model], models["baseline"]
        terms = [(1, ours, "i_auroc"), (-1, base, "i_auroc"), (-1, ours, "auroc"), (1, base, "auroc")]
        contrasts.append((f"{model}: gap to the baseline in i-AUROC minus that in AUROC", terms))
    statement = "CAP is ahead of the baseline by more in finding witnesses (i-AUROC) than in classification (AUROC)."
    return _all_above("witness gap > classification gap", statement, _compare(evidence, contrasts))


def main_contributor(evidence: Evidence) -> Claim:
    """Of all parts of CAP the attention function adds most to finding witnesses."""
    rows = EXPERIMENTS[evidence.task]["ablation"].rows
    contrasts: list[_Contrast] = []
    numbers = []
    for model in dict.fromkeys(row.model for row in rows):
        ladder = {row.variant: row.setup for row in rows if row.model == model}
        before = dict(zip(LADDER, ["baseline", *LADDER], strict=False))
        for step in list(LADDER)[1:]:
            attention = [(1, ladder["+attention"], "i_auroc"), (-1, ladder["baseline"], "i_auroc")]
            other = [(-1, ladder[step], "i_auroc"), (1, ladder[before[step]], "i_auroc")]
            contrasts.append((f"{model}: i-AUROC that attention adds minus what {step} adds", [*attention, *other]))
        for metric in ("auroc", "i_auroc"):
            added = [_value(evidence, ladder[step], ladder[before[step]], metric) for step in LADDER]
            parts = ", ".join(f"{step} {value}" for step, value in zip(LADDER, added, strict=True))
            numbers.append(f"{model}, {TITLES[metric]}: {parts}")
    statement = "Of all parts of CAP the attention function contributes most, above all to finding witnesses."
    claim = _all_above("attention function is the main contributor", statement, _compare(evidence, contrasts))
    return Claim(claim.name, claim.statement, claim.judgement, claim.reason, numbers + claim.numbers)


def heads_matter_little(evidence: Evidence) -> Claim:
    """With and without multi-head projections is about the same."""
    return _no_difference(evidence, "headed", "multi-head projections matter little", "multi-head and non-headed CAP")


def layernorm_matters_little(evidence: Evidence) -> Claim:
    """LayerNorm before and after the aggregation is about the same."""
    variants = "pre- and post-aggregation LayerNorm"
    return _no_difference(evidence, "layernorm", "the place of the LayerNorm matters little", variants)


def ahead_at_every_size(evidence: Evidence) -> Claim:
    """CAP is better than the baseline for every train size and mean bag size."""
    rows = EXPERIMENTS[evidence.task]["size_study"].rows
    baseline = {row.variant: row.setup for row in rows if row.model == "baseline"}
    contrasts: list[_Contrast] = []
    for row in rows:
        if row.model in CAP:
            terms = [(1, row.setup, "auroc"), (-1, baseline[row.variant], "auroc")]
            contrasts.append((f"AUROC of {row.model} − baseline, {row.variant.replace('_', ' ')}", terms))
    statement = "CAP is better than the baseline for small and large train sets and bags."
    return _all_above("CAP is ahead at every size", statement, _compare(evidence, contrasts))


def less_sensitive_to_bag_size(evidence: Evidence) -> Claim:
    """From bags of 10 to bags of 50, CAP loses less than the baseline."""
    setups = {(row.model, row.variant): row.setup for row in EXPERIMENTS[evidence.task]["size_study"].rows}
    count = min(SIZES[50][-1], SIZES[10][-1])
    small, large = (f"bag_{bag}_exemplars_{count}" for bag in (10, 50))
    contrasts: list[_Contrast] = []
    for model in [model for model in CAP if (model, small) in setups]:
        terms = [
            (1, setups["baseline", small], "auroc"),
            (-1, setups["baseline", large], "auroc"),
            (-1, setups[model, small], "auroc"),
            (1, setups[model, large], "auroc"),
        ]
        contrasts.append((f"AUROC that the baseline loses from bags of 10 to 50 minus what {model} loses", terms))
    statement = "CAP suffers less from larger bags than the baseline."
    return _all_above("CAP is less sensitive to bag size", statement, _compare(evidence, contrasts))


def p_text(p: float) -> str:
    """A p-value for people.

    >>> p_text(0.0321), p_text(0.00002)
    ('p = 0.032', 'p < 0.001')
    """
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def _plain(evidence: Evidence) -> dict[str, Setup]:
    return {row.model: row.setup for row in EXPERIMENTS[evidence.task]["classification"].rows}


def _minus(model: str, other: str, metric: str, models: dict[str, Setup]) -> _Contrast:
    return f"{TITLES[metric]} of {model} − {other}", [(1, models[model], metric), (-1, models[other], metric)]


def _compare(evidence: Evidence, contrasts: Sequence[_Contrast]) -> list[Compared] | str:
    """The values of contrasts, corrected for their number; or, where cells are missing, which."""
    setups = {setup.name: setup for _, terms in contrasts for _, setup, _ in terms}
    missing = [name for name, setup in setups.items() if not evidence.of(setup)]
    if missing:
        return f"Not computed yet: {', '.join(missing)}."
    values = []
    for what, terms in contrasts:
        found: list[Term] = [(weight, evidence.of(setup), metric) for weight, setup, metric in terms]
        value = estimate(found)
        if value is None:
            return f"There is no round of which all cells are done for: {what}."
        values.append(value)
    corrected = holm([value.p for value in values])
    return [Compared(what, value, p) for (what, _), value, p in zip(contrasts, values, corrected, strict=True)]


def _all_above(name: str, statement: str, compared: list[Compared] | str) -> Claim:
    if isinstance(compared, str):
        return Claim(name, statement, UNKNOWN, compared)
    numbers = [str(one) for one in compared]
    below = [one.what for one in compared if one.sign == "below"]
    even = [one.what for one in compared if one.sign == "even"]
    if below:
        return Claim(name, statement, FAILS, f"Significantly below 0: {'; '.join(below)}.", numbers)
    if even:
        return Claim(name, statement, UNKNOWN, f"Not significantly other than 0: {'; '.join(even)}.", numbers)
    return Claim(name, statement, HOLDS, f"All are above 0 (p < {LEVEL} after Holm's correction).", numbers)


def _no_difference(evidence: Evidence, experiment: str, name: str, variants: str) -> Claim:
    rows = EXPERIMENTS[evidence.task][experiment].rows
    contrasts: list[_Contrast] = []
    for model in dict.fromkeys(row.model for row in rows):
        plain, other = [row for row in rows if row.model == model][:2]
        for metric in ("auroc", "i_auroc"):
            what = f"{TITLES[metric]} of {model}, {plain.variant} − {other.variant}"
            contrasts.append((what, [(1, plain.setup, metric), (-1, other.setup, metric)]))
    statement = f"The differences between {variants} are insignificant or marginal."
    compared = _compare(evidence, contrasts)
    if isinstance(compared, str):
        return Claim(name, statement, UNKNOWN, compared)
    told = [one.what for one in compared if one.sign != "even"]
    if told:
        return Claim(name, statement, FAILS, f"Significant: {'; '.join(told)}.", [str(one) for one in compared])
    return Claim(name, statement, HOLDS, "No difference can be told from 0.", [str(one) for one in compared])


def _value(evidence: Evidence, setup: Setup, before: Setup, metric: str) -> str:
    found = estimate([(1.0, evidence.of(setup), metric), (-1.0, evidence.of(before), metric)])
    return "–" if found is None else f"{found.value:+.3f}"
