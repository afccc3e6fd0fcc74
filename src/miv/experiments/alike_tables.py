"""The tables that score the witnesses of all models alike, beside the paper's scoring."""

from dataclasses import dataclass, replace

from miv.experiments.comparison import CellEvidence, Comparison, PairedTest, paired_tests, verdicts
from miv.experiments.grids import WITNESSES, Experiment
from miv.experiments.report_tables import figure_table, paired_table
from miv.experiments.scorings import ALIKE
from miv.experiments.text_tables import Table

_CHANCES = ("i_ap_chance", "i_top1_chance")


@dataclass(frozen=True)
class Alike:
    """The witnesses of an experiment, all models scored alike.

    Args:
        tables: figures and paired differences; none if no cell has them.
        found: the figures that the tables were written from.
        tests: the paired tests likewise.
    """

    tables: list[Table]
    found: list[Comparison]
    tests: list[PairedTest]


def score_alike(experiment: Experiment, evidence: CellEvidence) -> Alike:
    """Score the witnesses by each model's own score, by contribution to the logit, and by first choice."""
    if not set(WITNESSES) <= set(experiment.metrics) or experiment.name == "size_study":
        return Alike([], [], [])
    found = verdicts(replace(experiment, metrics=ALIKE), evidence)
    metrics = tuple(one for one in ALIKE if any(verdict.ours for verdict in found if verdict.metric == one))
    if not metrics:
        return Alike([], [], [])
    scored = replace(experiment, metrics=metrics)
    found = [verdict for verdict in found if verdict.metric in metrics]
    tests = paired_tests(scored, evidence)
    figures = figure_table(scored, evidence, found)
    note = " ".join(filter(None, [_note(experiment, evidence), figures.note]))
    tables = [replace(figures, title="Witnesses, all models scored alike", note=note)]
    if tests:
        paired = paired_table(scored, evidence, tests)
        tables.append(replace(paired, title=f"{paired.title}, all models scored alike"))
    return Alike(tables, found, tests)


def _note(experiment: Experiment, evidence: CellEvidence) -> str:
    """What the columns are, what a random order gives, and which cells lack a score."""
    results = [result for row in experiment.rows for result in evidence.of(row.setup)]
    chances = [result.chances for result in results if result.chances]
    means = [sum(one[name] for one in chances) / len(chances) for name in _CHANCES]
    note = (
        "Own score: the similarity of each instance for the baseline, whose attention is one-hot, and attention for "
        "the others. Contribution: what an instance adds to the logit. One-hot: only the first choice counts, and all "
        "other instances tie. "
        f"A random order gives i-AUROC 0.500, i-AP {means[0]:.3f} and i-top1 {means[1]:.3f}."
    )
    lacking = {
        result.job.cell.setup.name
        for result in results
        if "i_auroc" in result.metrics and "i_auroc_by_score" not in result.metrics
    }
    if lacking:
        note += (
            f" The predictions of {', '.join(sorted(lacking))} were saved without a score for each instance. To fill "
            "in these figures, compute the cells again."
        )
    return note
