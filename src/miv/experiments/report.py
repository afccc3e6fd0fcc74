"""What came of an experiment, as tables, sentences and claims: the one form that all outputs are written from."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from miv.evaluation.report_text import TITLES
from miv.experiments.claims import Claim, judge_claims, p_text
from miv.experiments.digits import digit_sentences, digit_table
from miv.experiments.grids import FOUR, SIZES, Experiment, Row
from miv.experiments.paired import Estimate
from miv.experiments.published import STANDS_IN, Published, published_step
from miv.experiments.tables import NOTHING, Table
from miv.experiments.verdict import Evidence, PairedTest, Ranking, Verdict, paired_tests, ranking, verdicts

_ONE_ROUND = (
    "* One round: the error is over exemplars, the trained model staying as it is. It knows nothing of other draws of "
    "data and weights."
)


@dataclass(frozen=True)
class Section:
    """An experiment and what came of it.

    Args:
        experiment: which.
        evidence: the finished cells.
        remarks: what a reader has to know of them.
        tables: in their order.
        sentences: the order of the models, and the like.
        claims: judged.
        found: the verdicts that the tables were written from.
        tests: the paired tests likewise.
    """

    experiment: Experiment
    evidence: Evidence
    remarks: list[str]
    tables: list[Table]
    sentences: list[str]
    claims: list[Claim]
    found: list[Verdict] = field(repr=False)
    tests: list[PairedTest] = field(repr=False)

    @property
    def title(self) -> str:
        return f"{self.experiment.title} ({self.experiment.source}), tier {self.evidence.tier_name}"

    def document(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        return {
            "task": self.experiment.task,
            "experiment": self.experiment.name,
            "source": self.experiment.source,
            "tier": self.evidence.tier_name,
            "twin": self.evidence.tier.is_twin,
            "remarks": self.remarks,
            "figures": [_verdict_document(verdict) for verdict in self.found],
            "paired_tests": [_test_document(test) for test in self.tests],
            "order": [_without_nan(asdict(one)) for one in _rankings(self.experiment, self.found)],
            "claims": [asdict(claim) for claim in self.claims],
        }


def build_section(experiment: Experiment, evidence: Evidence) -> Section:
    """Put together all that can be said of an experiment by the cells that are done."""
    found = verdicts(experiment, evidence)
    tests = paired_tests(experiment, evidence)
    remarks = evidence.tier.remarks(experiment.task)
    wanted = len(evidence.rounds) * len({row.setup.name for row in experiment.rows})
    done = sum(len(evidence.of(setup)) for setup in {row.setup.name: row.setup for row in experiment.rows}.values())
    if done < wanted:
        remarks.append(f"{done} of {wanted} cells are done; the column 'rounds' says how many a figure rests on.")
    sentences = [_order_sentence(one) for one in _rankings(experiment, found)]
    tables = []
    if experiment.name == "size_study":
        tables += _size_tables(found)
    else:
        tables.append(_figure_table(experiment, evidence, found))
        if any(verdict.word for verdict in found):
            tables.append(_verdict_table(experiment, found))
    if experiment.name == "per_digit":
        results = evidence.of(experiment.rows[0].setup)
        tables += digit_table(results, with_paper=evidence.may_compare_figures)
        sentences += digit_sentences(results) if evidence.may_compare_figures else []
    if tests and experiment.name != "size_study":
        tables.append(_test_table(experiment, evidence, tests))
    tables.append(_cost_table(experiment, evidence))
    claims = judge_claims(experiment, evidence)
    return Section(experiment, evidence, remarks, tables, sentences, claims, found, tests)


def whose_figures(task: str) -> str:
    """Whose figures stand beside ours, in words."""
    return "the paper's of FEVER" if task in STANDS_IN else "the paper's"


def _label(row: Row) -> str:
    return f"{row.model} {row.variant}".strip()


def _figure_table(experiment: Experiment, evidence: Evidence, found: Sequence[Verdict]) -> Table:
    title = f"Ours, and in brackets {whose_figures(experiment.task)}" if any(v.paper for v in found) else "Ours"
    if evidence.tier.is_twin:
        title = "On the synthetic twin, not the paper's data"
    rows = []
    for row in experiment.rows:
        mine = [verdict for verdict in found if verdict.row is row]
        cells = [_figure(v.ours) + (f"\n({_paper(v.paper)})" if v.paper else "") for v in mine]
        rows.append([_label(row), str(len(evidence.of(row.setup))), *cells])
    starred = any(v.ours is not None and v.ours.rounds == 1 for v in found)
    headings = ["model", "rounds", *(TITLES[metric] for metric in experiment.metrics)]
    return Table(title, headings, rows, _ONE_ROUND if starred else "")


def _verdict_table(experiment: Experiment, found: Sequence[Verdict]) -> Table:
    rows = []
    for row in experiment.rows:
        mine = [verdict for verdict in found if verdict.row is row]
        rows.append([_label(row), *(f"{v.difference:+.3f}\n{v.word}" if v.word else NOTHING for v in mine)])
    note = ""
    if any(v.paper is not None and v.paper.standard_error is None for v in found):
        note = "Where the paper gives no standard error, only ours counts."
    headings = ["model", *(TITLES[metric] for metric in experiment.metrics)]
    return Table("Ours minus the paper's: within two standard errors of the difference?", headings, rows, note)


def _test_table(experiment: Experiment, evidence: Evidence, tests: Sequence[PairedTest]) -> Table:
    ablation = experiment.name == "ablation"
    rows: dict[str, dict[str, str]] = {}
    for test in tests:
        label = _label(test.row) if ablation else f"{_label(test.row)} − {_label(test.reference)}"
        cell = f"{test.difference.value:+.3f} ± {test.difference.standard_error:.3f}"
        step = published_step(experiment.task, test.row.model, test.row.variant, test.metric) if ablation else None
        cell += f" (paper {step:+.3f})" if step is not None and evidence.may_judge else ""
        rows.setdefault(label, {})[test.metric] = f"{cell}\n{p_text(test.p)}"
    metrics = [metric for metric in experiment.metrics if any(metric in cells for cells in rows.values())]
    title = "What each step adds" if ablation else "Paired differences"
    note = (
        "On the same exemplars; p for a difference of 0, by the larger of the errors over exemplars and over rounds, "
        "corrected by Holm within a column."
    )
    return Table(
        title,
        ["step" if ablation else "difference", *(TITLES[metric] for metric in metrics)],
        [[label, *(cells.get(metric, NOTHING) for metric in metrics)] for label, cells in rows.items()],
        note,
    )


def _size_tables(found: Sequence[Verdict]) -> list[Table]:
    """For each mean bag size and metric the models by train size."""
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


def _cost_table(experiment: Experiment, evidence: Evidence) -> Table:
    rows = []
    shared = False
    for setup in {row.setup.name: row.setup for row in experiment.rows}.values():
        results = evidence.of(setup)
        shared = shared or any(result.job.settings.contrast_epochs for result in results)
        minutes = [result.document["seconds"] / 60 for result in results]
        best = [f"{result.document['best']['stage']} {result.document['best']['epoch']}" for result in results]
        mean = f"{sum(minutes) / len(minutes):.1f}" if minutes else NOTHING
        rows.append([setup.name, str(len(results)), mean, ", ".join(best) or NOTHING])
    note = "The contrast stage is counted in each cell, although all cells of a round share one." if shared else ""
    return Table("What it took", ["cell", "rounds", "minutes a round", "best stage and epoch"], rows, note)


def _rankings(experiment: Experiment, found: Sequence[Verdict]) -> list[Ranking]:
    if experiment.name not in ("classification", "key_instance"):
        return []
    ranked = [ranking(found, metric) for metric in experiment.metrics if metric in FOUR]
    return [one for one in ranked if one is not None]


def _order_sentence(one: Ranking) -> str:
    correlation = ""
    if math.isfinite(one.kendall):
        correlation = f" Kendall's tau {one.kendall:.2f}, Spearman's rho {one.spearman:.2f} ({len(one.ours)} models)."
    winner = "The same model wins." if one.ours[0] == one.paper[0] else "Another model wins than in the paper."
    return (
        f"Order by {TITLES[one.metric]}: ours {' > '.join(one.ours)}; the paper's {' > '.join(one.paper)}."
        f"{correlation} {winner}"
    )


def _figure(value: Estimate | None) -> str:
    if value is None:
        return NOTHING
    error = f"{value.standard_error:.3f}" if math.isfinite(value.standard_error) else "?"
    return f"{value.value:.3f} ± {error}{'*' if value.rounds == 1 else ''}"


def _paper(value: Published) -> str:
    error = "" if value.standard_error is None else f" ± {value.standard_error:.3f}"
    return f"{value.mean:.3f}{error}"


def _verdict_document(verdict: Verdict) -> dict[str, Any]:
    ours, paper = verdict.ours, verdict.paper
    document = {
        "model": verdict.row.model,
        "variant": verdict.row.variant,
        "metric": verdict.metric,
        "ours": None if ours is None else ours.value,
        "standard_error": None if ours is None else ours.standard_error,
        "error_over": None if ours is None else "exemplars" if ours.over_rounds is None else "rounds",
        "rounds": 0 if ours is None else ours.rounds,
        "paper": None if paper is None else paper.mean,
        "paper_standard_error": None if paper is None else paper.standard_error,
        "difference": verdict.difference,
        "verdict": verdict.word or None,
    }
    return _without_nan(document)


def _test_document(test: PairedTest) -> dict[str, Any]:
    return _without_nan(
        {
            "row": _label(test.row),
            "against": _label(test.reference),
            "metric": test.metric,
            "difference": test.difference.value,
            "standard_error_over_exemplars": test.difference.over_exemplars,
            "standard_error_over_rounds": test.difference.over_rounds,
            "rounds": test.difference.rounds,
            "p_holm": test.p,
        }
    )


def _without_nan(document: dict[str, Any]) -> dict[str, Any]:
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in document.items()
    }
