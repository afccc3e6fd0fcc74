"""What a report is made of: the exemplars of one split, and what each run answered for them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.data import ExemplarSet, load_splits
from miv.decisions.operating_point import OperatingPoint
from miv.decisions.witness_rules import ConformalRule
from miv.errors import MIVError, unknown_name
from miv.evaluation import Predictions
from miv.reference import Figures, Reference
from miv.runtime.progress import Progress, SilentProgress
from miv.tasks import build_once, list_tasks
from miv.training.run_folder import RunFolder, refuse_unfinished


@dataclass(frozen=True, eq=False)
class ReportModel:
    """One run's verifier and its answers.

    Args:
        name: what it is called in the report.
        answers: for every exemplar of the split.
        point: where it says yes, and which instances it takes for witnesses.
        config: the settings that it was trained with; empty where not known.
        about: seed, versions and time of the run; empty where not known.
        history: the CSV file of its metrics by epoch, where there is one.
        verifier: its folder, by which an audit of it is known; where there is none, it can have no audit.
        reference: what plain methods reach on the same features; empty where they were not scored.
    """

    name: str
    answers: Predictions
    point: OperatingPoint
    config: dict[str, Any]
    about: dict[str, Any]
    history: Path | None
    verifier: Path | None = None
    reference: Mapping[str, Figures] = field(default_factory=dict)

    @property
    def probability(self) -> NDArray[np.float64]:
        """``(E,)``, calibrated where the verifier is."""
        return self.point.probability(self.answers.logit)

    @property
    def verdict(self) -> NDArray[np.bool_]:
        """``(E,)``."""
        return self.point.verdict(self.probability)

    @property
    def found(self) -> NDArray[np.bool_] | None:
        """``(T,)`` what it takes for witnesses by attention; ``None`` where it has none, or decides by other shares."""
        rule = self.point.witness_rule
        if self.answers.attention is None or (isinstance(rule, ConformalRule) and rule.by != "attention"):
            return None
        return self.point.witnesses(self.probability, self.answers.attention, self.answers.ptr)


@dataclass(frozen=True, eq=False)
class ReportSource:
    """The exemplars of a split, and the models that answered for all of them."""

    data: str
    split: str
    exemplars: ExemplarSet
    models: list[ReportModel]

    def __post_init__(self) -> None:
        if not self.models:
            raise MIVError("There is no model to report on. Expected at least one run.")
        for model in self.models:
            answers = model.answers
            same = len(answers) == len(self.exemplars) and np.array_equal(answers.ptr, self.exemplars.bag_ptr)
            if not same or not np.array_equal(answers.label, self.exemplars.label):
                raise MIVError(
                    f"The answers of {model.name} are for other exemplars than those of {self.data}, split "
                    f"{self.split}. Expected runs that were evaluated on the same data."
                )


def open_runs(
    paths: list[Path],
    *,
    split: str = "test",
    data: Path | None = None,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> ReportSource:
    """Open runs of ``miv train`` that were evaluated on the same split.

    Args:
        paths: the folders of the runs.
        split: whose answers are reported.
        data: the folder of splits; where it is not given, what the first run says of its data is looked for.
        cache: where sets of tasks were built.
        progress: is told where a set has to be built again.
    """
    runs = [RunFolder(path) for path in paths]
    for run in runs:
        if not run.exists():
            raise MIVError(f"{run.path} is not a run of `miv train`: it has no run.json.")
        refuse_unfinished(run.path)
        if not run.predictions(split).is_file():
            known = [file.stem for file in run.predictions(split).parent.glob("*.parquet")]
            raise unknown_name(f"split with answers in {run.path}", split, known)
    abouts = [run.read() for run in runs]
    wanted = [about["data"]["fingerprints"].get(split) for about in abouts]
    for run, fingerprint in zip(runs, wanted, strict=True):
        if fingerprint != wanted[0]:
            raise MIVError(f"{run.path} and {runs[0].path} were evaluated on other data. Report on each by itself.")
    told = abouts[0]["data"]
    exemplars = _find_exemplars(told, split, data, cache, progress or SilentProgress())
    if exemplars.fingerprint != wanted[0]:
        raise MIVError(
            f"The split {split!r} of {data or told['name']} is not what {runs[0].path} was evaluated on; it was "
            "changed or built anew. Give the folder of the same data: --data DIR."
        )
    models = [
        ReportModel(name, Predictions.load(run.predictions(split)), OperatingPoint.load(run.verifier),
                    run.read_config(), about, run.metrics if run.metrics.is_file() else None, run.verifier,
                    _reference(run, split))
        for name, run, about in zip(_names(runs), runs, abouts, strict=True)
    ]  # fmt: skip
    return ReportSource(Path(str(told["name"])).name or "data", split, exemplars, models)


def _reference(run: RunFolder, split: str) -> Mapping[str, Figures]:
    return Reference.load(run.reference).splits.get(split, {}) if run.reference.is_file() else {}


def _names(runs: list[RunFolder]) -> list[str]:
    """What tells the runs apart, in few letters: the pooling, or the folder's name, or its whole path."""
    poolings = [str(run.read_config().get("pooling")) for run in runs]
    folders = [run.path.resolve().name for run in runs]
    for names in (poolings, folders):
        if len(set(names)) == len(runs):
            return names
    return [str(run.path) for run in runs]


def _find_exemplars(
    told: dict[str, Any], split: str, data: Path | None, cache: Path | None, progress: Progress
) -> ExemplarSet:
    name = str(told["name"])
    folder = data if data is not None else Path(name)
    if data is None and (not name or not folder.is_dir()):
        if name not in list_tasks() or cache is None:
            raise MIVError(
                f"The data of the run, {name or 'without a name'}, are not there. Say where they are: --data DIR."
            )
        options = {key: Path(value) if key == "raw" else value for key, value in told.get("options", {}).items()}
        folder = build_once(name, options, cache / "sets", progress)
    sets = load_splits(folder)
    if split not in sets:
        raise unknown_name(f"split in {folder}", split, sets)
    return sets[split]
