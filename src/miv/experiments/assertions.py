"""The paper's claims about its models, each judged by our own figures."""

from collections.abc import Callable, Sequence
from dataclasses import replace

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
from miv.experiments.grids import BENCHMARKS, CAP, EXPERIMENTS, WITNESSES, Experiment, Setup
from miv.experiments.judging import ABOVE, MARGIN, NOT_BELOW, Assertion, judge

CLASSIFYING = ("auroc", "accuracy")
_WITH_ATTENTION = ("gabmil", "pma")  # the benchmarks that point at witnesses


def judge_claims(experiment: Experiment, evidence: CellEvidence) -> list[Assertion]:
    """The claims that an experiment can test; none on a synthetic twin."""
    if not evidence.may_judge:
        return []
    judges: dict[str, list[Callable[[CellEvidence], Assertion]]] = {
        "classification": [
            baseline_and_benchmarks,
            cap_classifies_better_than_baseline,
            cap_classifies_better_than_benchmarks,
            witness_gap,
        ],
        "key_instance": [cap_finds_more_than_baseline, cap_finds_more_than_benchmarks, witness_gap],
        "ablation": [attention_finds_witnesses, attention_helps_to_classify],
        "headed": [heads_matter_little],
        "layernorm": [layernorm_matters_little],
        "size_study": [ahead_at_every_size, less_sensitive_to_bag_size],
    }
    chosen = list(judges.get(experiment.name, []))
    if experiment.name == "key_instance" and evidence.task in ("qmnist", "signature"):
        chosen.append(baseline_finds_more_than_benchmarks)  # of FEVER the paper shows, and says, the opposite
    return [one(evidence) for one in chosen]


def baseline_and_benchmarks(evidence: CellEvidence) -> Assertion:
    """No benchmark classifies better than the baseline."""
    statement = (
        'The benchmarks "are not better, and sometimes significantly worse, than the simple baseline" (conclusions, of '
        f"all tasks). Judged by AUROC and accuracy; a lead of less than {MARGIN} is not better."
    )
    if evidence.task == "signature":
        statement += " In the paper's own Table 6 PMA is ahead of the baseline by 0.071."
    pairs = _pairs(evidence, ["baseline"], BENCHMARKS, CLASSIFYING)
    return _with_caveat(judge("baseline ≥ benchmarks", statement, evidence, pairs, NOT_BELOW), evidence)


def cap_classifies_better_than_baseline(evidence: CellEvidence) -> Assertion:
    """Every CAP model classifies better than the baseline."""
    statement = (
        'In classification CAP "significantly outperforms the benchmarks and the baseline" (introduction). Here the '
        "baseline; judged by AUROC and accuracy, for every CAP model."
    )
    pairs = _pairs(evidence, CAP, ["baseline"], CLASSIFYING)
    return judge("CAP > baseline in classification", statement, evidence, pairs, ABOVE)


def cap_classifies_better_than_benchmarks(evidence: CellEvidence) -> Assertion:
    """Every CAP model classifies better than every benchmark."""
    statement = (
        'In classification CAP "significantly outperforms the benchmarks and the baseline" (introduction). Here the '
        "benchmarks; judged by AUROC and accuracy, for every CAP model."
    )
    pairs = _pairs(evidence, CAP, BENCHMARKS, CLASSIFYING)
    return _with_caveat(judge("CAP > benchmarks in classification", statement, evidence, pairs, ABOVE), evidence)


def cap_finds_more_than_baseline(evidence: CellEvidence) -> Assertion:
    """Every CAP model finds witnesses better than the baseline."""
    statement = (
        'CAP "identifies key instances much more accurately than both the benchmarks and the baseline" (introduction). '
        "Here the baseline; judged by i-AUROC and i-AP, for every CAP model."
    )
    pairs = _pairs(evidence, CAP, ["baseline"], WITNESSES)
    return judge("CAP > baseline in finding witnesses", statement, evidence, pairs, ABOVE)


def cap_finds_more_than_benchmarks(evidence: CellEvidence) -> Assertion:
    """Every CAP model finds witnesses better than the benchmarks that have attention."""
    statement = (
        'CAP "identifies key instances much more accurately than both the benchmarks and the baseline" (introduction). '
        "Here the benchmarks that have attention; judged by i-AUROC and i-AP, for every CAP model."
    )
    pairs = _pairs(evidence, CAP, _WITH_ATTENTION, WITNESSES)
    return judge("CAP > benchmarks in finding witnesses", statement, evidence, pairs, ABOVE)


def baseline_finds_more_than_benchmarks(evidence: CellEvidence) -> Assertion:
    """The baseline finds witnesses better than the benchmarks that have attention."""
    statement = (
        'In finding witnesses "the two benchmarks produce significantly worse performance than the baseline" (of '
        "QMNIST; of signatures much the same). Judged by i-AUROC and i-AP."
    )
    pairs = _pairs(evidence, ["baseline"], _WITH_ATTENTION, WITNESSES)
    return judge("baseline > benchmarks in finding witnesses", statement, evidence, pairs, ABOVE)


def witness_gap(evidence: CellEvidence) -> Assertion:
    """CAP leads the other models by more in finding witnesses than in classification."""
    models = plain_setups(evidence)
    contrasts: list[Contrast] = []
    for model in [model for model in CAP if model in models]:
        for other in ("baseline", *_WITH_ATTENTION):
            ours, theirs = models[model], models[other]
            terms = [(1, ours, "i_auroc"), (-1, theirs, "i_auroc"), (-1, ours, "auroc"), (1, theirs, "auroc")]
            contrasts.append((f"gap of {model} to {other} in i-AUROC minus that in AUROC", terms))
    statement = (
        'In finding witnesses CAP outperforms the baseline, GABMIL and PMA "by even larger margins than in the case of '
        'classification". Judged by i-AUROC and AUROC.'
    )
    return judge("witness gap > classification gap", statement, evidence, contrasts, ABOVE)


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
        f"But below the paper's own AUROC: {', '.join(low)}. Perhaps there is too little training here, which would "
        "favour the claim."
    )
    return replace(claim, reason=f"{claim.reason} {caveat}")
