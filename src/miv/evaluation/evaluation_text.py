"""An evaluation as plain-text tables that line up in every terminal, log and mail."""

import math
from typing import TYPE_CHECKING, Any

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
    row = [_figure(found["threshold"]), _figure(found["accuracy"]), *errors]
    table = aligned_table(["threshold", "accuracy", "false accepts", "false rejects"], [row], left=())
    return f"{title}\n{table}"


def _witness_notes(witnesses: dict[str, float]) -> str:
    share, reciprocal = _figure(witnesses["i_ap_chance"]), _figure(witnesses["i_mrr_chance"])
    lines = [
        f"i-AUROC, i-AP, i-MRR and i-top1 over {witnesses['exemplars']:,} positive exemplars; "
        f"by chance 0.5000, {share}, {reciprocal} and {share}."
    ]
    if witnesses["undefined"]:
        lines.append(f"{witnesses['undefined']:,} more have no witness or only witnesses.")
    return "\n".join(lines)


def _figure(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}"
