"""Every table and figure of the paper: as a grid of cells (which models, on which data), and as published."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from miv.errors import MIVError, unknown_name
from miv.poolings import POOLINGS

MODELS = ("baseline", "gabmil", "pma", "msa", "mi_net", "bi_lstm", "cap_vema", "cap_dba_l1", "cap_dba_l2")
BENCHMARKS = ("gabmil", "pma", "msa", "mi_net", "bi_lstm")
CAP = ("cap_vema", "cap_dba_l1", "cap_dba_l2")
UNTRAINED = "nearest"  # the cosine of query and nearest target, in every table: what the features alone can do
ROUNDS = 3

CLASSIFICATION = ("auroc", "accuracy", "precision", "recall", "f1")
WITNESSES = ("i_auroc", "i_ap")
FOUR = ("auroc", "accuracy", "i_auroc", "i_ap")


@dataclass(frozen=True)
class Setup:
    """A model with its options, and the data if they are not the main ones, where they differ from the defaults."""

    name: str  # of its folder among the results; two setups with the same name are the same
    pooling: str  # a name from `miv poolings`; the tier sets its heads unless they are among the options
    pooling_options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    task_options: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Cell:
    """One training: a setup on one draw of a task's data. Cells are shared: no experiment owns one."""

    task: str
    setup: Setup
    round: int

    def __str__(self) -> str:
        return f"{self.task} {self.setup.name} round {self.round}"


@dataclass(frozen=True)
class Row:
    """A row of a table: ``model`` and ``variant`` as in the published results, and the setup to train."""

    model: str
    variant: str
    setup: Setup


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper."""

    task: str
    name: str  # in `miv reproduce`
    title: str
    source: str  # where it is in the paper
    metrics: tuple[str, ...]  # its columns
    rows: tuple[Row, ...]

    @property
    def is_stepwise(self) -> bool:
        """Whether rows are steps from one to the next, so that all figures must come from the same rounds."""
        return self.name in ("ablation", "headed", "layernorm", "size_study")

    def cells(self, rounds: Iterable[int] = range(ROUNDS)) -> list[Cell]:
        """The cells, each once, round by round, so that the whole table is complete as early as possible."""
        setups = {row.setup.name: row.setup for row in self.rows}
        return [Cell(self.task, setup, number) for number in rounds for setup in setups.values()]

    def takes(self, model: str) -> bool:
        """Whether the model has a row or can be added; a table of key instances takes only models with attention."""
        has_attention = POOLINGS[model].make.has_attention  # a name that is none is refused first of all
        others = self.name == "classification" or (self.name == "key_instance" and has_attention)
        return others or any(row.model == model for row in self.rows)

    def reference_of(self, row: Row) -> Row | None:
        """The row to compare a row with: the baseline, the step before, or the plain model; ``None`` for these."""
        if self.name == "ablation":
            ladder = [step for step in self.rows if step.model == row.model]
            place = ladder.index(row)
            return ladder[place - 1] if place else None
        if self.name in ("headed", "layernorm"):
            plain = next(variant for variant in self.rows if variant.model == row.model)
            return None if plain is row else plain
        same = (other for other in self.rows if other.model == "baseline" and other.variant == row.variant)
        baseline = next(same, None)
        return None if baseline is row else baseline

    def only(self, models: Sequence[str]) -> "Experiment":
        """The experiment with only these models; a pooling that is not in the paper's table gets its own row."""
        known = list(dict.fromkeys(row.model for row in self.rows))
        lacking = [model for model in models if not self.takes(model)]
        if lacking:
            raise MIVError(f"{self.task} {self.name} has no row of {', '.join(lacking)}. It has {', '.join(known)}.")
        rows = [row for row in self.rows if row.model in models]
        options = self.rows[0].setup.task_options
        added = [Row(model, "", Setup(model, model, task_options=options)) for model in models if model not in known]
        return replace(self, rows=(*rows, *added))


# The paper's ladder, from the attention function alone to full CAP; heads that are not said here are the tier's.
LADDER: dict[str, dict[str, Any]] = {
    "+attention": {"heads": 1, "projection": False, "co_excitation": False, "norm": "none"},
    "+multi_head": {"co_excitation": False, "norm": "none"},
    "+co_excitation": {"gate_reads": "projected_query", "norm": "none"},
    "+pre_layernorm": {},
}
LAYERNORM: dict[str, dict[str, Any]] = {
    "pre_aggregation": {},
    "post_aggregation": {"norm": "post"},
    "none": {"norm": "none"},
}
HEADED: dict[str, dict[str, Any]] = {"multi_head": {}, "non_headed": {"heads": 1, "projection": False}}

SIZES = {10: (8_000, 16_000, 24_000, 32_000, 40_000), 20: (8_000, 16_000, 24_000), 50: (8_000, 16_000, 24_000)}
# The paper shows all but CAP-DBA with L2, the fourth of the models that lead its main table.
SIZE_MODELS = ("baseline", "gabmil", "pma", "msa", "cap_vema", "cap_dba_l1", "cap_dba_l2")

# Where each is in the paper: classification, key instances, ablation, headed, LayerNorm.
_OF_FEVER = ("Table 8", "Table 9", "Table 12", "Figure 12", "Table 15")
_SOURCES = {
    "qmnist": ("Table 2", "Table 4", "Table 10", "Figure 10", "Table 13"),
    "signature": ("Table 6", "Table 7", "Table 11", "Figure 11", "Table 14"),
    "fever": _OF_FEVER,
    "fever-dev": tuple(f"{place}, of FEVER" for place in _OF_FEVER),
    "claims": tuple(f"{place}, of FEVER" for place in _OF_FEVER),
}
_MODELS = {"qmnist": MODELS, "signature": MODELS[:-1], "fever": MODELS[:-1], "fever-dev": MODELS, "claims": MODELS}
# Fool Me Twice: train on the one file, of which a share of the pages becomes validation, test on the other.
_TASK_OPTIONS: dict[str, dict[str, Any]] = {"claims": {"train_file": "dev.jsonl", "test_file": "test.jsonl"}}
_DATA = {
    "qmnist": "QMNIST",
    "signature": "SigComp2011",
    "fever": "FEVER",
    "fever-dev": "FEVER's development set",
    "claims": "Fool Me Twice",
}


OF_PAPER = tuple(_DATA)
"""The tasks with experiments in the package; any other is the folder of your own splits."""


def _setup(task: str, pooling: str, suffix: str = "", options: Mapping[str, Any] | None = None) -> Setup:
    name = f"{pooling}-{suffix}" if options else pooling  # without options it is the plain model, whatever it is called
    return Setup(name, pooling, dict(options or {}), _TASK_OPTIONS.get(task, {}))


def _experiments(task: str) -> Iterable[Experiment]:
    data = _DATA.get(task, Path(task).name)
    sources = _SOURCES.get(task) or tuple(f"as {place}" for place in _SOURCES["qmnist"])
    table, witness_table, ablation, headed, layernorm = sources
    plain = {model: Row(model, "", _setup(task, model)) for model in (*_MODELS.get(task, MODELS), UNTRAINED)}
    untrained = plain[UNTRAINED]
    yield Experiment(task, "classification", f"{data}: classification", table, CLASSIFICATION, tuple(plain.values()))
    with_attention = tuple(row for model, row in plain.items() if model not in ("msa", "mi_net", "bi_lstm"))
    yield Experiment(task, "key_instance", f"{data}: key instances", witness_table, WITNESSES, with_attention)
    if task == "qmnist":
        by_digit = f"{data}: answers of CAP-VEMA by digit"
        yield Experiment(task, "per_digit", by_digit, "Table 3", ("accuracy",), (plain["cap_vema"],))
        sizes = tuple(
            Row(
                model,
                f"bag_{bag}_exemplars_{count}",
                Setup(f"{model}-bag_{bag}-exemplars_{count}", model, {}, {"mean_bag": bag, "exemplars": count}),
            )
            for bag, counts in SIZES.items()
            for count in counts
            for model in (*SIZE_MODELS, UNTRAINED)
        )
        yield Experiment(task, "size_study", f"{data}: train size and mean bag size", "Figures 6, 8, 9", FOUR, sizes)
    steps = []
    for model in ("cap_vema", "cap_dba_l1"):
        steps.append(Row(model, "baseline", _setup(task, "baseline")))
        steps += [Row(model, step, _setup(task, model, step.strip("+"), options)) for step, options in LADDER.items()]
    yield Experiment(task, "ablation", f"{data}: building CAP from the baseline", ablation, FOUR, (*steps, untrained))
    for name, title, source, variants in (
        ("headed", "with and without multi-head projections", headed, HEADED),
        ("layernorm", "place of the LayerNorm", layernorm, LAYERNORM),
    ):
        suffixes = {"post_aggregation": "post_norm", "none": "no_norm"}
        rows = tuple(
            Row(model, variant, _setup(task, model, suffixes.get(variant, variant), options))
            for model in ("cap_vema", "cap_dba_l1")
            for variant, options in variants.items()
        )
        yield Experiment(task, name, f"{data}: {title}", source, FOUR, (*rows, untrained))


EXPERIMENTS: dict[str, dict[str, Experiment]] = {
    task: {experiment.name: experiment for experiment in _experiments(task)} for task in _DATA
}


@cache
def experiments_of(task: str) -> dict[str, Experiment]:
    """The experiments of a task by name, or of the splits in a folder."""
    if task not in EXPERIMENTS and not Path(task).is_dir():
        error = unknown_name("task with experiments", task, EXPERIMENTS)
        raise MIVError(f"{error} For a set of your own, give the folder of its splits.")
    return EXPERIMENTS.get(task) or {experiment.name: experiment for experiment in _experiments(task)}


def find_experiments(task: str, name: str | None = None) -> list[Experiment]:
    """The experiments of a task, or only the named one."""
    known, name = experiments_of(task), "key_instance" if name == "witnesses" else name
    if name is not None and name not in known:
        raise unknown_name(f"experiment of {task}", name, known)
    return [experiment for experiment in known.values() if name in (None, experiment.name)]


def find_setup(task: str, name: str) -> Setup:
    """The setup of that name in the tables of a task, or a pooling of that name with its default options."""
    rows = [row for experiment in experiments_of(task).values() for row in experiment.rows]
    setups = {row.setup.name: row.setup for row in rows}
    return setups.get(name) or Setup(name, name, task_options=_TASK_OPTIONS.get(task, {}))


# Every number in the paper's tables, from the file that comes with the package.

# A figure with three decimals is off by up to half of the last one: the deviation of that.
ROUNDING = 0.001 / 12**0.5
# Which task's figures stand beside ours.
STANDS_IN = {"claims": "fever", "fever-dev": "fever"}


@dataclass(frozen=True)
class Published:
    """A figure of the paper: mean over three rounds, and its standard error if the paper gives one."""

    mean: float
    standard_error: float | None


@cache
def read_published() -> dict[tuple[str, str, str, str, str], Published]:
    """All published figures by table, task, model, variant and metric."""
    text = (files("miv.reproduction") / "published_results.csv").read_text(encoding="utf-8")
    figures = {}
    for row in csv.DictReader(text.splitlines()):
        key = (row["table"], row["task"], row["model"], row["variant"], row["metric"])
        error = row["standard_error"]
        figures[key] = Published(float(row["mean"]), float(error) if error else None)
    return figures


def published(experiment: Experiment, row: Row, metric: str) -> Published | None:
    """The paper's figure for a row; ``None`` if the paper has none.

    The plain model is in several tables of the paper, but only the main ones have its errors. For an ablation step the
    paper gives what it adds; the figure is then the sum up to that step, and its error is unknown.
    """
    figures = read_published()
    task = STANDS_IN.get(experiment.task, experiment.task)
    if not row.setup.pooling_options and experiment.name != "size_study":
        table = "key_instance" if metric in WITNESSES else "classification"
        return figures.get((table, task, row.setup.pooling, "", metric))
    if experiment.name == "ablation":
        steps = list(LADDER)[: list(LADDER).index(row.variant) + 1]
        parts = [figures.get(("ablation", task, row.model, step, metric)) for step in ("baseline", *steps)]
        return Published(round(sum(part.mean for part in parts if part), 3), None) if all(parts) else None
    return figures.get((experiment.name, task, row.model, row.variant, metric))


def published_step(task: str, model: str, step: str, metric: str) -> float | None:
    """What a step of the ablation adds, as the paper prints it."""
    figure = read_published().get(("ablation", STANDS_IN.get(task, task), model, step, metric))
    return figure.mean if figure else None


def published_digit(digit: str, kind: str) -> float | None:
    """The share of ``tp``, ``tn``, ``fp`` or ``fn`` among the exemplars of a digit."""
    figure = read_published().get(("per_digit", "qmnist", "cap_vema", f"digit_{digit}", kind))
    return figure.mean if figure else None
