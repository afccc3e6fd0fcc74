"""The paper's claims about its models, each judged by our own figures."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from miv.evaluation.evaluation import TITLES
from miv.experiments.assertions_of_parts import (
    ahead_at_every_size,
    attention_finds_witnesses,
    attention_helps_to_classify,
    heads_matter_little,
    layernorm_matters_little,
    less_sensitive_to_bag_size,
)
from miv.experiments.comparison import BELOW, CellEvidence, verdicts
from miv.experiments.contrasts import Contrast, minus
from miv.experiments.grids import BENCHMARKS, CAP, EXPERIMENTS, Experiment, Setup
from miv.experiments.judging import ABOVE, MARGIN, NOT_BELOW, Assertion, judge
from miv.experiments.scorings import PAPERS, SCORINGS, Scoring

CLASSIFYING = ("auroc", "accuracy")
_WITH_ATTENTION = ("gabmil", "pma")  # the benchmarks that point at witnesses


def judge_claims(experiment: Experiment, evidence: CellEvidence) -> list[Assertion]:
    """The claims that an experiment can test, those about witnesses by every scoring; none on a synthetic twin."""
    if not evidence.may_judge:
        return []
    judges: dict[str, list[Callable[[CellEvidence], Assertion]]] = {
        "classification": [
            baseline_and_benchmarks,
            cap_classifies_better_than_baseline,
            cap_classifies_better_than_benchmarks,
        ],
        "ablation": [attention_helps_to_classify],
        "headed": [heads_matter_little],
        "layernorm": [layernorm_matters_little],
        "size_study": [less_sensitive_to_bag_size],
    }
    of_witnesses: dict[str, list[Callable[[CellEvidence, Scoring], Assertion]]] = {
        "key_instance": [cap_finds_more_than_baseline, cap_finds_more_than_benchmarks, witness_gap],
        "ablation": [attention_finds_witnesses],
        "size_study": [ahead_at_every_size],
    }
    scored = list(of_witnesses.get(experiment.name, []))
    if experiment.name == "key_instance" and evidence.task in ("qmnist", "signature"):
        scored.append(baseline_finds_more_than_benchmarks)  # of FEVER the paper shows, and says, the opposite
    found = [one(evidence, scoring) for one in scored for scoring in SCORINGS]
    found += [one(evidence) for one in judges.get(experiment.name, [])]
    return found + ([witness_gap(evidence)] if experiment.name == "classification" else [])


def baseline_and_benchmarks(evidence: CellEvidence) -> Assertion:
    """No benchmark classifies better than the baseline."""
    statement = (
        'The benchmarks "are not better, and sometimes significantly worse, than the simple baseline" '
        f"(conclusions, about all tasks). Judged by AUROC and accuracy; a lead of less than {MARGIN} does not count."
    )
    if evidence.task == "signature":
        statement += " But in the paper's Table 6, PMA is ahead of the baseline by 0.071."
    pairs = _pairs(evidence, ["baseline"], BENCHMARKS, CLASSIFYING)
    return _with_caveat(judge("baseline ≥ benchmarks", statement, evidence, pairs, NOT_BELOW), evidence)


def cap_classifies_better_than_baseline(evidence: CellEvidence) -> Assertion:
    """Every CAP model classifies better than the baseline."""
    statement = (
        'In classification, CAP "significantly outperforms the benchmarks and the baseline" (introduction). Here, '
        "every CAP model is compared with the baseline, by AUROC and accuracy."
    )
    pairs = _pairs(evidence, CAP, ["baseline"], CLASSIFYING)
    return judge("CAP > baseline in classification", statement, evidence, pairs, ABOVE)


def cap_classifies_better_than_benchmarks(evidence: CellEvidence) -> Assertion:
    """Every CAP model classifies better than every benchmark."""
    statement = (
        'In classification, CAP "significantly outperforms the benchmarks and the baseline" (introduction). Here, '
        "every CAP model is compared with the benchmarks, by AUROC and accuracy."
    )
    pairs = _pairs(evidence, CAP, BENCHMARKS, CLASSIFYING)
    return _with_caveat(judge("CAP > benchmarks in classification", statement, evidence, pairs, ABOVE), evidence)


def cap_finds_more_than_baseline(evidence: CellEvidence, scoring: Scoring = PAPERS) -> Assertion:
    """Every CAP model finds witnesses better than the baseline."""
    statement = (
        'CAP "identifies key instances much more accurately than both the benchmarks and the baseline" (introduction). '
        f"Here, every CAP model is compared with the baseline, by {scoring.words}."
    )
    pairs = _pairs(evidence, CAP, ["baseline"], scoring.metrics)
    return judge(scoring.of("CAP > baseline in finding witnesses"), statement, evidence, pairs, ABOVE)


def cap_finds_more_than_benchmarks(evidence: CellEvidence, scoring: Scoring = PAPERS) -> Assertion:
    """Every CAP model finds witnesses better than the benchmarks that have attention."""
    statement = (
        'CAP "identifies key instances much more accurately than both the benchmarks and the baseline" (introduction). '
        f"Here, every CAP model is compared with the benchmarks that have attention, by {scoring.words}."
    )
    pairs = _pairs(evidence, CAP, _WITH_ATTENTION, scoring.metrics)
    return judge(scoring.of("CAP > benchmarks in finding witnesses"), statement, evidence, pairs, ABOVE)


def baseline_finds_more_than_benchmarks(evidence: CellEvidence, scoring: Scoring = PAPERS) -> Assertion:
    """The baseline finds witnesses better than the benchmarks that have attention."""
    statement = (
        'In finding witnesses, "the two benchmarks produce significantly worse performance than the baseline" (about '
        f"QMNIST; similarly about signatures). Judged by {scoring.words}."
    )
    pairs = _pairs(evidence, ["baseline"], _WITH_ATTENTION, scoring.metrics)
    return judge(scoring.of("baseline > benchmarks in finding witnesses"), statement, evidence, pairs, ABOVE)


def witness_gap(evidence: CellEvidence, scoring: Scoring = PAPERS) -> Assertion:
    """CAP leads the other models by more in finding witnesses than in classification."""
    models, area = plain_setups(evidence), scoring.metrics[0]
    contrasts: list[Contrast] = []
    for model in [model for model in CAP if model in models]:
        for other in ("baseline", *_WITH_ATTENTION):
            ours, theirs = models[model], models[other]
            terms = [(1, ours, area), (-1, theirs, area), (-1, ours, "auroc"), (1, theirs, "auroc")]
            contrasts.append((f"gap of {model} to {other} in {TITLES[area]} minus that in AUROC", terms))
    statement = (
        'In finding witnesses, CAP outperforms the baseline, GABMIL and PMA "by even larger margins than in the case '
        f'of classification". Judged by {TITLES[area]} and AUROC.'
    )
    return judge(scoring.of("witness gap > classification gap"), statement, evidence, contrasts, ABOVE)


def plain_setups(evidence: CellEvidence) -> dict[str, Setup]:
    """The setups of the main table by model."""
    return {row.model: row.setup for row in EXPERIMENTS[evidence.task]["classification"].rows}


def _pairs(
    evidence: CellEvidence, models: Sequence[str], others: Sequence[str], metrics: Sequence[str]
) -> list[Contrast]:
    setups = plain_setups(evidence)
    known = [model for model in models if model in setups]
    return [minus(model, other, metric, setups) for metric in metrics for model in known for other in others]


def _with_caveat(claim: Assertion, evidence: CellEvidence) -> Assertion:
    """Name the benchmarks that score lower than in the paper, perhaps because they were trained too little here."""
    table = EXPERIMENTS[evidence.task]["classification"]
    low = [
        f"{one.row.model} {one.ours.value:.3f} (the paper's {one.paper.mean:.3f})"
        for one in verdicts(table, evidence)
        if one.word == BELOW and one.metric == "auroc" and one.row.model in BENCHMARKS and one.ours and one.paper
    ]
    if not low:
        return claim
    caveat = (
        f"But the AUROC of some benchmarks is below the paper's: {', '.join(low)}. They may be undertrained here, "
        "which would favour the claim."
    )
    return replace(claim, reason=f"{claim.reason} {caveat}")
