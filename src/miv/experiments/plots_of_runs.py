"""Pictures of single cells: accuracy by digit, learning curves, entropy."""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from miv.evaluation import attention_entropy
from miv.evaluation.curves import QUIET, line_styles, picture
from miv.experiments.digits import accuracy, our_shares, paper_shares
from miv.experiments.experiment_report import Section
from miv.experiments.plot_marks import colour, legend, whose
from miv.experiments.report_tables import whose_figures
from miv.experiments.results import METRICS, Result


def draw_digits(section: Section, path: Path) -> None:
    """The accuracy by digit."""
    ours = accuracy(our_shares(section.evidence.of(section.experiment.rows[0].setup)))
    paper = accuracy(paper_shares()) if section.evidence.may_compare_figures else {}
    with picture(path, size=(6.4, 3.6)) as [axes]:
        places = np.arange(len(ours))
        axes.bar(places - 0.2, list(ours.values()), 0.38, label=whose(section), **colour(0))
        if paper:
            axes.bar(
                places + 0.2,
                [paper[digit] for digit in ours],
                0.38,
                color=QUIET,
                label=whose_figures(section.experiment.task),
            )
        axes.set_xticks(places, list(ours))
        axes.set_ylim(0.5, None)
        axes.set_title("Accuracy of CAP-VEMA by digit")
        axes.set_xlabel("digit")
        axes.legend()


def draw_learning_curves(section: Section, path: Path) -> None:
    """Validation AUROC by epoch, one line per model, for the first round that all models have; nothing without one."""
    rows = [row for row in section.experiment.rows if section.evidence.of(row.setup)]
    rounds = section.evidence.common_rounds(rows)
    if not rounds:
        return
    with picture(path, size=(7.2, 4.6)) as [axes]:
        for row, style in zip(rows, line_styles(len(rows)), strict=True):
            [result] = section.evidence.of(row.setup, rounds[:1])
            epochs, values = _history(result)
            axes.plot(epochs, values, **style, label=row.model)
        axes.set_title(f"Validation AUROC by epoch, all stages, round {rounds[0]}")
        axes.set_xlabel("epoch")
        axes.legend(ncols=2)


def draw_entropy(section: Section, path: Path) -> None:
    """The entropy of attention by bag size, next to log N for even attention; positives and negatives separately."""
    found = {row.model: section.evidence.of(row.setup) for row in section.experiment.rows}
    shown = {model: some for model, some in found.items() if any(one.predictions.attention is not None for one in some)}
    if not shown:
        return
    with picture(path, panels=len(shown), size=(4.0, 3.4)) as axes:
        for panel, (model, results) in zip(axes, shown.items(), strict=True):
            for (words, label), style in zip((("positive", 1), ("negative", 0)), line_styles(2), strict=True):
                sizes, means = _entropy_by_size(results, label)
                panel.plot(np.log(sizes), means, **style, marker="o", markersize=3, label=words)
            low, high = panel.get_xlim()
            panel.plot([low, high], [low, high], color=QUIET, linewidth=1, linestyle=":", label="even: log N")
            panel.set_title(model)
            panel.set_xlabel("log N")
            panel.set_ylabel("entropy of attention")
            legend(panel)


_FEW = 10  # exemplars below which a mean by bag size is noise


def _entropy_by_size(results: Sequence[Result], label: int) -> tuple[np.ndarray, np.ndarray]:
    sizes, entropies = [], []
    for result in results:
        answers = result.predictions
        if answers.attention is not None:
            chosen = answers.label == label
            sizes.append(answers.bag_sizes[chosen])
            entropies.append(attention_entropy(answers.ptr, answers.attention)[chosen])
    size, entropy = np.concatenate(sizes), np.concatenate(entropies)
    known, counts = np.unique(size, return_counts=True)
    kept = known[counts >= min(_FEW, counts.max())]
    return kept, np.array([entropy[size == one].mean() for one in kept])


def _history(result: Result) -> tuple[list[int], list[float]]:
    rows = list(csv.DictReader(result.files[METRICS].decode("utf-8").splitlines()))
    return [int(row["epoch"]) for row in rows], [float(row["validation_auroc"]) for row in rows]
