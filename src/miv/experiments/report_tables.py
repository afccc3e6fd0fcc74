"""The tables of a report: figures, verdicts, paired tests, sizes, cost."""

import math
from collections.abc import Sequence

from miv.evaluation.evaluation import TITLES
from miv.experiments.comparison import CellEvidence, Comparison, PairedTest
from miv.experiments.contrasts import p_text
from miv.experiments.grids import FOUR, SIZES, Experiment, Row
from miv.experiments.paired import Estimate
from miv.experiments.published import STANDS_IN, Published, published_step
from miv.experiments.text_tables import NOTHING, Table

_ONE_ROUND = (
    "A figure with * comes from one round: its error covers new draws of exemplars for the same trained model, but not "
    "new draws of data and weights."
)


def whose_figures(task: str) -> str:
    """The source of the figures next to ours, in words."""
    return "the paper's on FEVER" if task in STANDS_IN else "the paper's"


def label(row: Row) -> str:
    """A row in words."""
    return f"{row.model} {row.variant}".strip()


def figure_table(experiment: Experiment, evidence: CellEvidence, found: Sequence[Comparison]) -> Table:
    """Our figures by model and metric, with the paper's below."""
    title = (
        f"Our figures, with {whose_figures(experiment.task)} in brackets"
        if any(v.paper for v in found)
        else "Our figures"
    )
    if evidence.tier.is_twin:
        title = "On the synthetic twin, not the paper's data"
    rows = []
    for row in experiment.rows:
        mine = [verdict for verdict in found if verdict.row is row]
        cells = [_figure(v.ours) + (f"\n({_paper(v.paper)})" if v.paper else "") for v in mine]
        rounds = max((v.ours.rounds for v in mine if v.ours), default=0)
        rows.append([label(row), str(rounds), *cells])
    starred = any(v.ours is not None and v.ours.rounds == 1 for v in found)
    headings = ["model", "rounds", *(TITLES[metric] for metric in experiment.metrics)]
    return Table(title, headings, rows, _ONE_ROUND if starred else "")


def verdict_table(experiment: Experiment, found: Sequence[Comparison]) -> Table:
    """Our figure minus the paper's, and whether the difference is within two standard errors."""
    rows = []
    for row in experiment.rows:
        mine = [verdict for verdict in found if verdict.row is row]
        rows.append([label(row), *(f"{v.difference:+.3f}\n{v.word}" if v.word else NOTHING for v in mine)])
    note = ""
    if any(v.paper is not None and v.paper.standard_error is None for v in found):
        note = "If the paper gives no standard error, only ours counts."
    headings = ["model", *(TITLES[metric] for metric in experiment.metrics)]
    return Table("Ours minus the paper's: within two standard errors of the difference?", headings, rows, note)


def paired_table(experiment: Experiment, evidence: CellEvidence, tests: Sequence[PairedTest]) -> Table:
    """Each row against its reference, exemplar by exemplar."""
    ablation = experiment.name == "ablation"
    rows: dict[str, dict[str, str]] = {}
    for test in tests:
        name = label(test.row) if ablation else f"{label(test.row)} − {label(test.reference)}"
        star = "*" if test.difference.rounds == 1 else ""
        cell = f"{test.difference.value:+.3f} ± {test.difference.standard_error:.3f}{star}"
        step = published_step(experiment.task, test.row.model, test.row.variant, test.metric) if ablation else None
        cell += f" (paper {step:+.3f})" if step is not None and evidence.may_judge else ""
        rows.setdefault(name, {})[test.metric] = f"{cell}\n{p_text(test.p)}"
    metrics = [metric for metric in experiment.metrics if any(metric in cells for cells in rows.values())]
    title = "What each step adds" if ablation else "Paired differences"
    note = (
        "Both models have the same exemplars and rounds. p tests for a difference of 0. It is the larger of two "
        "p-values, one from the error over exemplars (normal distribution) and one from the error over rounds "
        "(Student's t, with one degree of freedom fewer than rounds), with Holm's correction within a column."
    )
    if any(test.difference.rounds == 1 for test in tests):
        note += (
            " A difference with * comes from one round: p uses only the error over exemplars, which does not cover "
            "other training runs."
        )
    return Table(
        title,
        ["step" if ablation else "difference", *(TITLES[metric] for metric in metrics)],
        [[name, *(cells.get(metric, NOTHING) for metric in metrics)] for name, cells in rows.items()],
        note,
    )


def size_tables(found: Sequence[Comparison]) -> list[Table]:
    """For each mean bag size and metric, the models by train size."""
    figures = {(v.row.model, v.row.variant, v.metric): v.ours for v in found}
    models = list(dict.fromkeys(v.row.model for v in found))
    tables = []
    for bag, counts in SIZES.items():
        for metric in FOUR:
            rows = [
                [model, *(_figure(figures.get((model, f"bag_{bag}_exemplars_{count}", metric))) for count in counts)]
                for model in models
            ]
            headings = ["model", *(f"{count:,} exemplars" for count in counts)]
            note = "The paper shows these as figures, without numbers."
            tables.append(Table(f"{TITLES[metric]}, bags of {bag} on average", headings, rows, note))
    return tables


def cost_table(experiment: Experiment, evidence: CellEvidence) -> Table:
    """The run time of the cells, and the selected epochs."""
    rows = []
    shared = False
    for setup in {row.setup.name: row.setup for row in experiment.rows}.values():
        results = evidence.of(setup)
        shared = shared or any(result.job.settings.contrast_epochs for result in results)
        minutes = [result.document["seconds"] / 60 for result in results]
        best = [f"{result.document['best']['stage']} {result.document['best']['epoch']}" for result in results]
        mean = f"{sum(minutes) / len(minutes):.1f}" if minutes else NOTHING
        rows.append([setup.name, str(len(results)), mean, ", ".join(best) or NOTHING])
    note = "Every cell includes the time of the contrast stage, which all cells of a round share." if shared else ""
    return Table("Training time", ["cell", "rounds", "minutes per round", "best stage and epoch"], rows, note)


def _figure(value: Estimate | None) -> str:
    if value is None:
        return NOTHING
    error = f"{value.standard_error:.3f}" if math.isfinite(value.standard_error) else "?"
    return f"{value.value:.3f} ± {error}{'*' if value.rounds == 1 else ''}"


def _paper(value: Published) -> str:
    error = "" if value.standard_error is None else f" ± {value.standard_error:.3f}"
    return f"{value.mean:.3f}{error}"
