"""An evaluation as plain-text tables that line up in every terminal, log and mail."""

import math
from typing import TYPE_CHECKING, Any

from miv.evaluation.goal_checks import check_words
from miv.evaluation.rankings import RANKED_BY
from miv.evaluation.witnesses import WITNESS_METRICS
from miv.runtime.aligned_table import aligned_table

if TYPE_CHECKING:
    from miv.evaluation.evaluation import Evaluation

TITLES = {
    "auroc": "AUROC",
    "accuracy": "accuracy",
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "i_auroc": "i-AUROC",
    "i_ap": "i-AP",
    "i_mrr": "i-MRR",
    "i_top1": "i-top1",
    "i_auroc_by_score": "own-score i-AUROC",
    "i_ap_by_score": "own-score i-AP",
    "i_auroc_by_contribution": "contribution i-AUROC",
    "i_ap_by_contribution": "contribution i-AP",
    "i_auroc_one_hot": "one-hot i-AUROC",
    "i_ap_one_hot": "one-hot i-AP",
}


def evaluation_text(evaluation: "Evaluation") -> str:
    """Return the main figures, then attention, then groups, if available."""
    share = evaluation.positives / evaluation.exemplars
    blocks = [f"{evaluation.exemplars:,} exemplars, {evaluation.positives:,} positive ({share:.1%})"]
    metrics = evaluation.metrics
    figures = [_figure(value) for value in metrics.values()]
    blocks.append(aligned_table([TITLES[name] for name in metrics], [figures], left=()))
    if evaluation.operating_point is not None:
        blocks.append(_at_operating_point(evaluation.operating_point))
    if evaluation.witnesses is not None:
        blocks.append(_witness_notes(evaluation.witnesses))
    if evaluation.rankings is not None:
        blocks.append(_rankings(evaluation.rankings))
    if evaluation.entropy is not None:
        rows = []
        for name, means in evaluation.entropy.items():
            figures = [_figure(means[key]) for key in ("entropy", "log_n", "evenness")]
            rows.append([name, f"{means['exemplars']:,}", *figures])
        blocks.append(aligned_table(["attention", "exemplars", "entropy", "log N", "evenness"], rows))
    if evaluation.groups is not None:
        rows = []
        for row in evaluation.groups:
            counts = [f"{count:,}" for count in (row.exemplars, row.tp, row.tn, row.fp, row.fn)]
            rows.append([row.group, *counts, _figure(row.accuracy)])
        blocks.append(aligned_table(["group", "exemplars", "TP", "TN", "FP", "FN", "accuracy"], rows))
    return "\n\n".join(blocks)


def _at_operating_point(found: dict[str, Any]) -> str:
    errors = [
        f"{found[name]:,} of {found[of]:,}" + (f" ({found[name] / found[of]:.1%})" if found[of] else "")
        for name, of in (("false_accepts", "negatives"), ("false_rejects", "positives"))
    ]
    title = f"At its operating point, {found['goal']} (everything else is at probability 0.5, uncalibrated):"
    if "unsure" not in found:
        row = [_figure(found["threshold"]), _figure(found["accuracy"]), *errors]
        table = aligned_table(["threshold", "accuracy", "false accepts", "false rejects"], [row], left=())
        return "\n".join([title, table, *_goals(found)])
    exemplars = found["negatives"] + found["positives"]
    unsure = f"{found['unsure']:,} of {exemplars:,} ({found['unsure'] / exemplars:.1%})"
    heads = ["yes from", "no below", "unsure", "accuracy of the others", "false accepts", "false rejects"]
    lower = found["threshold"] if found["lower_threshold"] is None else found["lower_threshold"]
    row = [_figure(found["threshold"]), _figure(lower), unsure, _figure(found["accuracy_of_decided"]), *errors]
    return "\n".join([title, aligned_table(heads, [row], left=()), *_withheld(found, exemplars), *_goals(found)])


def _withheld(found: dict[str, Any], exemplars: int) -> list[str]:
    if "withheld" not in found:
        return []
    share = found["withheld"] / exemplars
    return [f"Unlike the training data, and so unsure: {found['withheld']:,} of {exemplars:,} ({share:.1%})."]


def _goals(found: dict[str, Any]) -> list[str]:
    return [f"{'Warning: ' if check['missed'] else ''}{check_words(check)}" for check in found.get("goals", ())]


def _witness_notes(witnesses: dict[str, float]) -> str:
    chance = [_figure(witnesses[f"{name}_chance"]) for name in WITNESS_METRICS[1:]]
    lines = [
        f"i-AUROC, i-AP, i-MRR and i-top1 over {witnesses['exemplars']:,} positive exemplars; "
        f"a random order gives 0.5000, {chance[0]}, {chance[1]} and {chance[2]}."
    ]
    if witnesses["undefined"]:
        lines.append(f"{witnesses['undefined']:,} more have no witness or only witnesses.")
    return "\n".join(lines)


def _rankings(rankings: dict[str, dict[str, float]]) -> str:
    rows = [[RANKED_BY[by], *(_figure(one[name]) for name in WITNESS_METRICS)] for by, one in rankings.items()]
    return aligned_table(["witnesses ranked by", *(TITLES[name] for name in WITNESS_METRICS)], rows)


def _figure(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}"
