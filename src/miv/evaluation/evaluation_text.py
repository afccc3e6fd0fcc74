"""An evaluation as tables for people: plain text that lines up in every terminal, log and mail."""

import math
from typing import TYPE_CHECKING, Any

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
    """Return headline figures, then attention, then groups, as far as there are any."""
    share = evaluation.positives / evaluation.exemplars
    blocks = [[f"{evaluation.exemplars:,} exemplars, {evaluation.positives:,} positive ({share:.1%})"]]
    metrics = evaluation.metrics
    blocks.append(_table([[TITLES[name] for name in metrics], [_figure(value) for value in metrics.values()]]))
    if evaluation.operating_point is not None:
        blocks.append(_at_operating_point(evaluation.operating_point))
    if evaluation.witnesses is not None:
        blocks.append(_witness_notes(evaluation.witnesses))
    if evaluation.entropy is not None:
        rows = [["attention", "exemplars", "entropy", "log N", "evenness"]]
        for name, means in evaluation.entropy.items():
            figures = [_figure(means[key]) for key in ("entropy", "log_n", "evenness")]
            rows.append([name, f"{means['exemplars']:,}", *figures])
        blocks.append(_table(rows))
    if evaluation.groups is not None:
        rows = [["group", "exemplars", "TP", "TN", "FP", "FN", "accuracy"]]
        for row in evaluation.groups:
            counts = [f"{count:,}" for count in (row.exemplars, row.tp, row.tn, row.fp, row.fn)]
            rows.append([row.group, *counts, _figure(row.accuracy)])
        blocks.append(_table(rows))
    return "\n\n".join("\n".join(block) for block in blocks)


def _at_operating_point(found: dict[str, Any]) -> list[str]:
    errors = [
        f"{found[name]:,} of {found[of]:,}" + (f" ({found[name] / found[of]:.1%})" if found[of] else "")
        for name, of in (("false_accepts", "negatives"), ("false_rejects", "positives"))
    ]
    return [
        f"At its operating point, {found['goal']} (all else is at a probability of 0.5, not calibrated):",
        *_table(
            [
                ["threshold", "accuracy", "false accepts", "false rejects"],
                [_figure(found["threshold"]), _figure(found["accuracy"]), *errors],
            ]
        ),
    ]


def _witness_notes(witnesses: dict[str, float]) -> list[str]:
    share, reciprocal = _figure(witnesses["i_ap_chance"]), _figure(witnesses["i_mrr_chance"])
    lines = [
        f"i-AUROC, i-AP, i-MRR and i-top1 over {witnesses['exemplars']:,} positive exemplars; "
        f"by chance 0.5000, {share}, {reciprocal} and {share}."
    ]
    if witnesses["undefined"]:
        lines.append(f"{witnesses['undefined']:,} more have no witness, or nothing but witnesses.")
    return lines


def _figure(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}"


def _table(rows: list[list[str]]) -> list[str]:
    """Line up the cells to the right, words in the first column to the left, with a rule under the first row."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    words_first = rows[0][0] in ("attention", "group")
    lines = []
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        if words_first:
            cells[0] = row[0].ljust(widths[0])
        lines.append("  ".join(cells).rstrip())
    lines.insert(1, "  ".join("─" * width for width in widths))
    return lines
