"""The input of a report: the exemplars of one split, and each run's answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from miv.backbones.cache import embed_exemplars
from miv.data import ExemplarSet, load_splits
from miv.errors import MIVError, unknown_name
from miv.evaluation.baselines import Baselines, Figures
from miv.evaluation.predicting import withheld
from miv.evaluation.predictions import Predictions
from miv.evaluation.runs import RunFolder, refuse_unfinished
from miv.files.arrays import Floats, Mask
from miv.files.cache import feature_folder
from miv.runtime import Progress, SilentProgress
from miv.tasks import build_once, list_tasks
from miv.verifier.decisions import ConformalRule, OperatingPoint
from miv.verifier.network import Verifier
from miv.verifier.out_of_distribution import LIMIT_NAME


@dataclass(frozen=True, eq=False)
class ReportModel:
    """One run's verifier and its answers.

    Args:
        name: its name in the report.
        answers: the answers for every exemplar of the split.
        point: its operating point, which decides verdicts and witnesses.
        config: its training settings; empty if unknown.
        about: seed, versions and time of the run; empty if unknown.
        history: the CSV file of its metrics by epoch, if any.
        verifier: its folder, which identifies it in an audit; without it there can be no audit.
        reference: results of the baselines on the same features; empty if not scored.
        withheld: ``(E,)``, the exemplars that are unsure because they are out of distribution; ``None`` if the
            verifier has no such check.
    """

    name: str
    answers: Predictions
    point: OperatingPoint
    config: dict[str, Any]
    about: dict[str, Any]
    history: Path | None
    verifier: Path | None = None
    reference: Mapping[str, Figures] = field(default_factory=dict)
    withheld: Mask | None = None

    @property
    def probability(self) -> Floats:
        """``(E,)``, calibrated if the verifier is."""
        return self.point.probability(self.answers.logit)

    @property
    def verdict(self) -> Mask:
        """``(E,)`` where the decision is yes."""
        return self._decided(self.point.verdict(self.probability))

    @property
    def rejected(self) -> Mask:
        """``(E,)`` where the decision is no; an unsure one is neither accepted nor rejected."""
        return self._decided(self.point.rejected(self.probability))

    def _decided(self, mask: Mask) -> Mask:
        return mask if self.withheld is None else mask & ~self.withheld

    @property
    def can_be_unsure(self) -> bool:
        """Whether it has two thresholds, or an out-of-distribution check."""
        return self.point.lower_threshold is not None or self.withheld is not None

    @property
    def unsure(self) -> Mask:
        """``(E,)`` where the decision is unsure."""
        return ~self.verdict & ~self.rejected

    @property
    def wrong(self) -> Mask:
        """``(E,)`` where the decision is yes or no, and wrong."""
        return np.where(self.answers.label == 1, self.rejected, self.verdict)

    @property
    def witnesses(self) -> Mask | None:
        """Its witnesses ``(T,)`` by attention; ``None`` without attention, or if it uses other shares."""
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
            raise MIVError("There are no models to report on. Expected at least one run.")
        for model in self.models:
            answers = model.answers
            same = len(answers) == len(self.exemplars) and np.array_equal(answers.ptr, self.exemplars.bag_ptr)
            if not same or not np.array_equal(answers.label, self.exemplars.label):
                raise MIVError(
                    f"The answers of {model.name} are not for the exemplars of {self.data}, split "
                    f"{self.split}. Expected runs evaluated on the same data."
                )


def open_runs(
    paths: list[Path],
    *,
    split: str = "test",
    data: Path | None = None,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> ReportSource:
    """Open runs of ``miv train`` evaluated on the same split.

    ``data`` is the folder of splits, by default the data recorded in the first run. ``cache`` has the built sets of
    tasks, and features, which a verifier with an out-of-distribution check needs again.
    """
    progress = progress or SilentProgress()
    runs = [RunFolder(path) for path in paths]
    for run in runs:
        if not run.exists():
            problem = "it has no run.json" if run.path.exists() else "there is no such folder"
            raise MIVError(f"{run.path} is not a run of `miv train`: {problem}. `miv runs list` lists runs.")
        refuse_unfinished(run.path)
        if not run.predictions(split).is_file():
            splits = [file.stem for file in run.predictions(split).parent.glob("*.parquet")]
            raise unknown_name(f"split with answers in {run.path}", split, splits)
    abouts = [run.read() for run in runs]
    fingerprints = [about["data"]["fingerprints"].get(split) for about in abouts]
    for run, fingerprint in zip(runs, fingerprints, strict=True):
        if fingerprint != fingerprints[0]:
            raise MIVError(
                f"{run.path} and {runs[0].path} were evaluated on different data. Report on each separately."
            )
    recorded = abouts[0]["data"]
    exemplars = _find_exemplars(recorded, split, data, cache, progress)
    if exemplars.fingerprint != fingerprints[0]:
        raise MIVError(
            f"The split {split!r} of {data or recorded['name']} is not the data of {runs[0].path}; it was "
            "changed or rebuilt. Pass the folder of the original data: --data DIR."
        )
    models = [
        ReportModel(
            name,
            Predictions.load(run.predictions(split)),
            OperatingPoint.load(run.verifier),
            run.read_config(),
            about,
            run.metrics if run.metrics.is_file() else None,
            run.verifier,
            Baselines.load(run.reference).splits.get(split, {}) if run.reference.is_file() else {},
            _withheld(run.verifier, exemplars, cache, progress),
        )
        for name, run, about in zip(_names(runs), runs, abouts, strict=True)
    ]
    return ReportSource(Path(str(recorded["name"])).name or "data", split, exemplars, models)


def _withheld(folder: Path, exemplars: ExemplarSet, cache: Path | None, progress: Progress) -> Mask | None:
    """Computed here, because the answers of a run are older than the limit of its verifier."""
    if not (folder / LIMIT_NAME).is_file():
        return None
    verifier = Verifier.from_pretrained(folder)
    features_in = None if cache is None else feature_folder(cache)
    features = embed_exemplars(verifier.backbone, exemplars, features_in, progress)
    return withheld(verifier, exemplars, features, progress)


def _names(runs: list[RunFolder]) -> list[str]:
    """The shortest names that distinguish the runs: the pooling, the folder's name, or its whole path."""
    poolings = [str(run.read_config().get("pooling")) for run in runs]
    folders = [run.path.resolve().name for run in runs]
    for names in (poolings, folders):
        if len(set(names)) == len(runs):
            return names
    return [str(run.path) for run in runs]


def _find_exemplars(
    recorded: dict[str, Any], split: str, data: Path | None, cache: Path | None, progress: Progress
) -> ExemplarSet:
    name = str(recorded["name"])
    folder = data if data is not None else Path(name)
    if data is None and (not name or not folder.is_dir()):
        if name not in list_tasks() or cache is None:
            raise MIVError(f"The data of the run, {name or 'without a name'}, is missing. Pass its folder: --data DIR.")
        options = recorded.get("options") or {}
        options = {key: Path(value) if key == "raw" else value for key, value in options.items()}
        sets = build_once(name, options, cache / "sets", progress)
    else:
        sets = load_splits(folder, verify=True)
    if split not in sets:
        raise unknown_name(f"split in {folder}", split, sets)
    return sets[split]
