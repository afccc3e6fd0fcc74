"""The report of an experiment: plots, tables as plain values, and Markdown, from which all other forms come."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from miv.evaluation.evaluation import TITLES
from miv.evaluation.page import QUIET, line_styles, picture
from miv.reproduction.claims import Verdict, claims_of, judge, judge_claims
from miv.reproduction.comparison import CellEvidence, Comparison, Estimate, PairedTest, compare_figures, paired_tests
from miv.reproduction.grids import FOUR, SIZES, STANDS_IN, WITNESSES, Experiment, Row, published_digit, published_step
from miv.reproduction.results import Result

NOTHING = "–"  # where there is no figure
KINDS = ("tp", "tn", "fp", "fn")
# How else witnesses are ranked, the same for every model; docs/reproducing.md explains it.
ALIKE = ("i_auroc_by_score", "i_ap_by_score", "i_auroc_one_hot", "i_ap_one_hot", "i_top1")
# Where claims are judged all at once: heading, task, and the tier if it is not the one asked for.
GROUNDS = (
    ("QMNIST", "qmnist", None),
    ("QMNIST, frozen backbone", "qmnist", "frozen"),
    ("signatures", "signature", None),
    ("FEVER, development set", "fever-dev", None),
)


@dataclass(frozen=True)
class Table:
    """A table of texts; the first column names the rows."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def markdown(self) -> str:
        """The table without its title."""
        lines = [self.headings, ["---", *["---:"] * (len(self.headings) - 1)], *self.rows]
        text = "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
        return f"{text}\n\n{self.note}" if self.note else text


@dataclass(frozen=True)
class Section:
    """A part of a report; the last three are for its plots, if it is about an experiment."""

    title: str
    key: str  # of its plots
    remarks: list[str]  # what a reader must know
    tables: list[Table]
    document: dict[str, Any] = field(repr=False)  # everything as plain values, for JSON
    experiment: Experiment | None = field(default=None, repr=False)
    evidence: CellEvidence | None = field(default=None, repr=False)
    figures: list[Comparison] = field(default_factory=list, repr=False)

    def markdown(self, plots: Sequence[str] = ()) -> str:
        """The section; ``plots`` are addresses of pictures."""
        parts = [f"## {self.title}", *(f"> {remark}" for remark in self.remarks)]
        parts += [f"### {table.title}\n\n{table.markdown()}" for table in self.tables]
        parts += [f"![plot {number}]({address})" for number, address in enumerate(plots, start=1)]
        return "\n\n".join(parts) + "\n"


def build_section(experiment: Experiment, evidence: CellEvidence) -> Section:
    """The report of an experiment from its finished cells."""
    figures, tests = compare_figures(experiment, evidence), paired_tests(experiment, evidence)
    claims = judge_claims(experiment.name, evidence)
    alike = _score_alike(experiment, evidence)
    if experiment.name == "size_study":
        tables = _size_tables(figures)
    else:
        tables = [figure_table(experiment, evidence, figures)]
        tables += [_paired_table(experiment, evidence, tests)] if tests else []
    if experiment.name == "per_digit":
        tables += _digit_table(evidence.of(experiment.rows[0].setup), with_paper=evidence.may_compare_figures)
    if alike:
        scored = replace(experiment, metrics=tuple(dict.fromkeys(figure.metric for figure in alike)))
        tests_of = (result.document["test"] for row in experiment.rows for result in evidence.of(row.setup))
        chance: dict[str, float] = next((test["chance"] for test in tests_of if test["chance"]), {})
        note = f"A random order gives i-AP {chance['i_ap']:.3f} and i-top1 {chance['i_top1']:.3f}." if chance else ""
        tables.append(replace(figure_table(scored, evidence, alike), title="Witnesses ranked alike", note=note))
    tables += [claim_table({"": claims})] if claims else []
    remarks = evidence.tier.remarks(experiment.task) + _remarks(experiment, evidence)
    document = {
        "task": experiment.task,
        "experiment": experiment.name,
        "source": experiment.source,
        "tier": evidence.tier_name,
        "twin": evidence.tier.is_twin,
        "remarks": remarks,
        "figures": [_figure_document(figure) for figure in figures],
        "paired_tests": [_paired_document(test) for test in tests],
        "scored_alike": [_figure_document(figure) for figure in alike],
        "claims": [claim.document() for claim in claims],
    }
    title = f"{experiment.title} ({experiment.source}), tier {evidence.tier_name}"
    key = f"{experiment.task}-{experiment.name}"
    return Section(title, key, remarks, tables, document, experiment, evidence, figures)


def conclude(results: Path, tier: str, rounds: Sequence[int]) -> Section:
    """All claims on all grounds, from finished cells."""
    verdicts = {}
    for heading, task, other in GROUNDS:
        evidence = CellEvidence(task, other or tier, tuple(rounds), results)
        if evidence.tier.takes(task) and evidence.may_judge:
            verdicts[heading] = [judge(claim, evidence) for claim in claims_of(task)]
    grounds = {name: {verdict.claim.name: verdict.document() for verdict in some} for name, some in verdicts.items()}
    return Section("The paper's claims", "conclusions", [], [claim_table(verdicts)], {"grounds": grounds})


def claim_table(verdicts: Mapping[str, Sequence[Verdict]]) -> Table:
    """One row per claim; for each ground the word, the weakest effect, its 95 % interval and what it is of."""
    names = list(dict.fromkeys(verdict.claim.name for some in verdicts.values() for verdict in some))
    by_name = {heading: {verdict.claim.name: verdict for verdict in some} for heading, some in verdicts.items()}
    rows = [[name, *(_verdict(some.get(name)) for some in by_name.values())] for name in names]
    headings = ["claim", *(heading or "verdict" for heading in verdicts)]
    note = "The effect is the weakest difference of a claim, with its 95 % interval and, in brackets, what it is of."
    return Table("The paper's claims", headings, rows, note)


def _verdict(verdict: Verdict | None) -> str:
    if verdict is None or verdict.effect is None:
        return NOTHING if verdict is None else verdict.word
    low, high = verdict.effect.interval
    return f"{verdict.word}: {verdict.effect.value:+.3f} [{low:+.3f}, {high:+.3f}] ({verdict.weakest})"


def label(row: Row) -> str:
    """A row in words."""
    return f"{row.model} {row.variant}".strip()


def whose_figures(task: str) -> str:
    """The source of the figures beside ours."""
    return "the paper's on FEVER" if task in STANDS_IN else "the paper's"


def figure_table(experiment: Experiment, evidence: CellEvidence, figures: Sequence[Comparison]) -> Table:
    """Our figures by model and metric, with the paper's in brackets and how they compare."""
    title = "Our figures"
    if any(figure.paper for figure in figures):
        title += f", with {whose_figures(experiment.task)} in brackets"
    if evidence.tier.is_twin:
        title = "On the synthetic twin, not the paper's data"
    rows = []
    for row in experiment.rows:
        cells = [figure for figure in figures if figure.row is row]
        rounds = max((cell.ours.rounds for cell in cells if cell.ours), default=0)
        rows.append([label(row), str(rounds), *map(_figure, cells)])
    note = ""
    if any(figure.ours is not None and figure.ours.rounds == 1 for figure in figures):
        note = "A figure with * comes from one round: its error is over exemplars, not over trainings."
    return Table(title, ["model", "rounds", *(TITLES[metric] for metric in experiment.metrics)], rows, note)


def _figure(figure: Comparison) -> str:
    if figure.ours is None:
        return NOTHING
    paper = f" ({figure.paper.mean:.3f})" if figure.paper else ""
    return estimate_text(figure.ours) + paper + (f" {figure.word}" if figure.word else "")


def estimate_text(value: Estimate, sign: str = "") -> str:
    """A figure and its standard error; ``*`` for one round."""
    error = f"{value.standard_error:.3f}" if math.isfinite(value.standard_error) else "?"
    return f"{value.value:{sign}.3f} ± {error}{'*' * (value.rounds == 1)}"


def _paired_table(experiment: Experiment, evidence: CellEvidence, tests: Sequence[PairedTest]) -> Table:
    ablation = experiment.name == "ablation"
    rows: dict[str, dict[str, str]] = {}
    for test in tests:
        name = label(test.row) if ablation else f"{label(test.row)} − {label(test.reference)}"
        step = published_step(experiment.task, test.row.model, test.row.variant, test.metric) if ablation else None
        paper = f" (paper {step:+.3f})" if step is not None and evidence.may_judge else ""
        rows.setdefault(name, {})[test.metric] = f"{estimate_text(test.difference, '+')}{paper}, {_p_text(test.p)}"
    metrics = [metric for metric in experiment.metrics if any(metric in cells for cells in rows.values())]
    note = "p is the larger of those over exemplars and over rounds, with Holm's correction within a column."
    if any(test.difference.over_exemplars is None for test in tests):
        note += " Where the predictions of both models were not on one machine, p is over rounds only."
    return Table(
        "What each step adds" if ablation else "Paired differences",
        ["step" if ablation else "difference", *(TITLES[metric] for metric in metrics)],
        [[name, *(cells.get(metric, NOTHING) for metric in metrics)] for name, cells in rows.items()],
        note,
    )


def _p_text(p: float) -> str:
    return "p unknown" if math.isnan(p) else "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def _score_alike(experiment: Experiment, evidence: CellEvidence) -> list[Comparison]:
    """The figures of witnesses ranked alike; empty if no cell has any."""
    if not set(WITNESSES) <= set(experiment.metrics) or experiment.name == "size_study":
        return []
    figures = compare_figures(replace(experiment, metrics=ALIKE), evidence)
    metrics = {figure.metric for figure in figures if figure.ours}
    return [figure for figure in figures if figure.metric in metrics]


def _size_tables(figures: Sequence[Comparison]) -> list[Table]:
    """For each mean bag size and metric, the models by train size."""
    ours = {(figure.row.model, figure.row.variant, figure.metric): figure.ours for figure in figures}
    models = list(dict.fromkeys(figure.row.model for figure in figures))
    tables = []
    for bag, counts in SIZES.items():
        for metric in FOUR:
            rows = []
            for model in models:
                values = [ours.get((model, f"bag_{bag}_exemplars_{count}", metric)) for count in counts]
                rows.append([model, *(NOTHING if value is None else estimate_text(value) for value in values)])
            headings = ["model", *(f"{count:,} exemplars" for count in counts)]
            tables.append(Table(f"{TITLES[metric]}, bags of {bag} on average", headings, rows))
    return tables


def _digit_table(results: Sequence[Result], *, with_paper: bool) -> list[Table]:
    """The paper's Table 3, from one of its rounds, beside our means over rounds; none if nothing is computed."""
    shares: dict[str, list[list[float]]] = {}
    for result in results:
        for digit, counts in (result.document["test"]["groups"] or {}).items():
            shares.setdefault(digit, []).append([count / sum(counts) for count in counts])
    rows = []
    for digit, some in shares.items():
        ours = [fmean(column) for column in zip(*some, strict=True)]
        paper = [published_digit(digit, kind) or 0.0 for kind in KINDS]
        pairs = zip([*ours, ours[0] + ours[1]], [*paper, paper[0] + paper[1]], strict=True)
        rows.append([digit, *(f"{our:.3f}" + (f" ({their:.3f})" if with_paper else "") for our, their in pairs)])
    title = "Shares by digit" + (", with the paper's in brackets" if with_paper else "")
    return [Table(title, ["digit", *(kind.upper() for kind in KINDS), "accuracy"], rows)] if rows else []


def _remarks(experiment: Experiment, evidence: CellEvidence) -> list[str]:
    setups = {row.setup.name: row.setup for row in experiment.rows}
    done, wanted = sum(len(evidence.of(setup)) for setup in setups.values()), len(evidence.rounds) * len(setups)
    common = ", ".join(map(str, evidence.common_rounds(experiment.rows))) or "none"
    shared = f"; figures use the rounds that all computed rows share: {common}" if experiment.is_stepwise else ""
    return [f"{done} of {wanted} cells are done{shared}."] if done < wanted else []


def _figure_document(figure: Comparison) -> dict[str, Any]:
    ours, paper = figure.ours, figure.paper
    over = None if ours is None else "exemplars" if ours.over_rounds is None else "rounds"
    document = {
        "model": figure.row.model,
        "variant": figure.row.variant,
        "metric": figure.metric,
        "ours": ours and ours.value,
        "standard_error": ours and ours.standard_error,
        "error_over": over,
        "rounds": 0 if ours is None else ours.rounds,
        "paper": paper and paper.mean,
        "paper_standard_error": paper and paper.standard_error,
        "difference": None if ours is None or paper is None else ours.value - paper.mean,
        "verdict": figure.word or None,
    }
    return _finite(document)


def _paired_document(test: PairedTest) -> dict[str, Any]:
    document = {
        "row": label(test.row),
        "against": label(test.reference),
        "metric": test.metric,
        "difference": test.difference.value,
        "standard_error_over_exemplars": test.difference.over_exemplars,
        "standard_error_over_rounds": test.difference.over_rounds,
        "rounds": test.difference.rounds,
        "p_holm": test.p,
    }
    return _finite(document)


def _finite(document: dict[str, Any]) -> dict[str, Any]:
    """The document with ``None`` for what is not a number."""
    odd = {name for name, value in document.items() if isinstance(value, float) and not math.isfinite(value)}
    return document | dict.fromkeys(odd)


def markdown(sections: Sequence[Section], plots: Mapping[str, Sequence[Path]], folder: Path) -> str:
    """The report with links to its plots, relative to ``folder``."""
    links = {key: [Path(os.path.relpath(path, folder)).as_posix() for path in paths] for key, paths in plots.items()}
    return "\n".join(section.markdown(links.get(section.key, ())) for section in sections)


# Our figures with their errors next to the paper's, as one picture per experiment: PNG and SVG.


def plot_files(tier: str, task: str, experiment: str) -> list[str]:
    """The names of the files that ``write_plots`` writes for an experiment."""
    return [f"{tier}-{Path(task).name}-{experiment}-figures.{suffix}" for suffix in ("png", "svg")]


def write_plots(section: Section, folder: Path) -> list[Path]:
    """Draw each metric by model, and return the SVG file; nothing if nothing is computed."""
    experiment, evidence = section.experiment, section.evidence
    if experiment is None or evidence is None or not any(figure.ours for figure in section.figures):
        return []
    path = folder / plot_files(evidence.tier_name, experiment.task, experiment.name)[0].removesuffix(".png")
    whose = "synthetic twin" if evidence.tier.is_twin else "ours"
    with picture(path, panels=len(experiment.metrics), size=(4.6, 1.2 + 0.36 * len(experiment.rows))) as axes:
        for panel, metric in zip(axes, experiment.metrics, strict=True):
            column = [figure for figure in section.figures if figure.metric == metric]
            for place, figure in enumerate(column):
                if figure.ours is not None:
                    error = np.nan_to_num(figure.ours.standard_error)
                    panel.errorbar(figure.ours.value, place - 0.12, xerr=error, fmt="o", capsize=2, label=whose,
                                   color=line_styles(1)[0]["color"])  # fmt: skip
                if figure.paper is not None:
                    panel.errorbar(figure.paper.mean, place + 0.12, xerr=figure.paper.standard_error or 0.0, fmt="s",
                                   markerfacecolor="none", capsize=2, color=QUIET,
                                   label=whose_figures(experiment.task))  # fmt: skip
            stars = [" (1 round)" * (figure.ours is not None and figure.ours.rounds == 1) for figure in column]
            names = [label(figure.row) + star for figure, star in zip(column, stars, strict=True)]
            panel.set_yticks(range(len(column)), names)
            panel.invert_yaxis()
            panel.set_title(TITLES[metric])
            handles, labels = panel.get_legend_handles_labels()
            once = dict(zip(labels, handles, strict=True))
            panel.legend(once.values(), once.keys(), fontsize=8)
    return [folder / f"{path.name}.svg"]
