"""The folder of a run: its settings, its results, and its checkpoints.

- ``config.json``: the settings; ``miv train --config`` accepts it.
- ``run.json``: versions, seed, data and the verifier it started from with their hashes, and whether the run is done.
- ``metrics.csv``: the metrics by epoch.
- ``checkpoints/<stage>/``: ``last.ckpt`` to resume from, ``best/`` the verifier of the best epoch.
- ``verifier/``: the final verifier, from the best epoch overall.
- ``predictions/<split>.parquet`` and ``evaluation.json``: its predictions and metrics.
- ``reference.json``: scores of plain methods on the same features, from ``miv train``.
- ``.lock``: held while a training runs.
"""

import json
import os
import platform
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from miv import __version__
from miv.data import ExemplarSet
from miv.errors import MIVError, unknown_name, warn
from miv.files.atomic import PART, bring_back, original_name, readable_disk_errors, remove_unfinished
from miv.files.json import NUMBER, RUN_NAME, VERIFIER_NAME, check_shape, read_json_object, write_json

FORMAT = "miv-run"
LOCK_NAME = ".lock"
_WORSE_RANKING = 0.01  # of i-AP: smaller differences are not mentioned
_DAMAGED = "The run is damaged. Train again with another --out."
# The shapes of run.json and, for each split, of evaluation.json; a field with "?" may be missing.
_RECIPE = {"recipe": str, "variant": str, "words": str, "*": (*NUMBER, type(None))}
_ABOUT = {
    "data": {"name": str, "options?": dict, "fingerprints": {"*": str}},
    "seed": int,
    "done": bool,
    "start?": {"name": str, "*": str},
    "versions?": {"*": str},
    "seconds?": NUMBER,
    "stage_seconds?": {"*": NUMBER},
    "best?": {"stage": str, "epoch": int},
    "recipes?": {"chosen": str, "held_out": int, "rows": [_RECIPE]},
}
_METRICS = {"classification?": {"*": (*NUMBER, type(None))}, "witnesses?": {"*": (*NUMBER, type(None))}}
Settings = dict[str, Any]
_LIBRARIES = ("torch", "numpy", "transformers")


class _Within:
    """An attribute of a run: the path of this name in its folder."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, run: "RunFolder", _owner: type) -> Path:
        return run.path / self._name


@dataclass(frozen=True)
class RunFolder:
    """Paths within the folder of a run."""

    path: Path

    config = _Within("config.json")
    about = _Within(RUN_NAME)
    metrics = _Within("metrics.csv")
    verifier = _Within(VERIFIER_NAME)
    evaluation = _Within("evaluation.json")
    reference = _Within("reference.json")

    def checkpoints(self, stage: str) -> Path:
        return self.path / "checkpoints" / stage

    def predictions(self, split: str) -> Path:
        return self.path / "predictions" / f"{split}.parquet"

    def exists(self) -> bool:
        """Whether this folder holds a run."""
        return self.about.is_file()

    def require(self) -> None:
        """Raise an error if this folder holds no run."""
        if not self.exists():
            problem = "it has no run.json" if self.path.exists() else "there is no such folder"
            raise MIVError(f"{self.path} is not a run of `miv train`: {problem}. `miv runs list` lists runs.")

    def is_done(self) -> bool:
        """Whether this folder holds a finished run."""
        return self.exists() and self.read()["done"] is True

    def begin_or_go_on(
        self,
        settings: Settings,
        sets: dict[str, ExemplarSet],
        data: str,
        options: dict[str, Any],
        start: dict[str, str] | None = None,
    ) -> None:
        """Write the description of the run, or remove partial files left by a killed process."""
        if self.exists():
            remove_unfinished(self.path)
            return
        write_json(self.config, settings)
        texts = {key: str(value) if isinstance(value, Path) else value for key, value in options.items()}
        about = {
            "format": FORMAT,
            "version": 1,
            "done": False,
            "seed": settings["seed"],
            "data": {"name": data, "options": texts, "fingerprints": _fingerprints(sets)},
            "start": start,
            "versions": _versions(),
        }
        write_json(self.about, about)

    def refuse_existing(self) -> None:
        """Raise an error if this folder holds a run."""
        if self.exists():
            raise MIVError(f"{self.path} already contains a run. Resume it with --resume, or choose another --out.")

    def check(
        self,
        settings: Settings,
        sets: dict[str, ExemplarSet],
        data: str,
        start: dict[str, str] | None = None,
        *,
        resume: bool,
    ) -> None:
        """Check that a new run can start here, or that the existing run has the same settings and may be resumed."""
        if not self.exists():
            self.refuse_foreign(settings)
            return
        if not resume:
            self.refuse_existing()
        about = self.read()
        self._check_start(about.get("start"), start)
        before = self.read_config()
        for name, value in settings.items():
            if before.get(name, value) != value:
                words = f"{self.path} was started with {name} = {before[name]!r}, but got {value!r}."
                raise MIVError(f"{words} Resume with the same settings, or choose another folder for --out.")
        if about["data"]["fingerprints"] != _fingerprints(sets):
            raise MIVError(f"{self.path} was started with other data than {data}. Choose another folder for --out.")

    def refuse_foreign(self, settings: Settings | None = None) -> None:
        """Raise an error for a folder with any file that a training killed before it began did not leave there.

        Without ``settings``, such a training may have had any settings.
        """
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise MIVError(f"{self.path} is a file. Choose another folder for --out.")
        foreign = sorted(
            path.name
            for path in self.path.iterdir()
            if path.name != LOCK_NAME
            and original_name(path.name, PART) is None
            and not (path == self.config and (settings is None or self._is_begun(settings)))
        )
        if foreign:
            words = f"{self.path} is not empty and is not a run: it contains {foreign[0]!r}."
            raise MIVError(f"{words} Choose another folder for --out.")

    def _is_begun(self, settings: Settings) -> bool:
        try:
            return self.read_config() == json.loads(json.dumps(settings))
        except MIVError:
            return False

    def _check_start(self, before: dict[str, str] | None, now: dict[str, str] | None) -> None:
        if (before or {}).get("weights") == (now or {}).get("weights"):
            return
        was = "without --from" if before is None else f"with --from {before['name']}"
        other = ", with other weights" if before and now and before["name"] == now["name"] else ""
        is_now = "--from is not given" if now is None else f"--from is {now['name']}{other}"
        words = f"{self.path} was started {was}, but now {is_now}."
        raise MIVError(f"{words} Resume from the same start, or choose another folder for --out.")

    def read(self) -> dict[str, Any]:
        """The content of ``run.json``."""
        about = read_json_object(self.about, _DAMAGED)
        if about.get("format") != FORMAT:
            raise MIVError(f"{self.about} is not the file of a run: its format is not {FORMAT!r}.")
        check_shape(about, _ABOUT, str(self.about), _DAMAGED)
        return about

    def read_config(self) -> dict[str, Any]:
        """The settings."""
        return read_json_object(self.config, _DAMAGED)

    def read_evaluation(self) -> dict[str, Any]:
        """The metrics by split."""
        evaluation = read_json_object(self.evaluation, _DAMAGED)
        check_shape(evaluation, {"*": _METRICS}, str(self.evaluation), _DAMAGED)
        return evaluation

    def command_to_resume(self) -> str:
        """The command that resumes the run, valid in the folder where it was started."""
        about = self.read()
        words = ["miv", "train", str(about["data"]["name"])]
        for name, value in (about["data"].get("options") or {}).items():
            text = value if isinstance(value, str) else json.dumps(value)  # as --task-option reads it
            words += ["--raw", text] if name == "raw" else ["--task-option", f"{name}={text}"]
        words += ["--from", about["start"]["name"]] if about.get("start") else []
        return shlex.join([*words, "--config", str(self.config), "--out", str(self.path), "--resume"])

    def finish(self, seconds: dict[str, float], outcome: dict[str, Any]) -> None:
        """Mark the run as done, with the seconds of each stage, and what was chosen: the epoch, or the recipe."""
        total, by_stage = round(sum(seconds.values()), 1), {stage: round(took, 1) for stage, took in seconds.items()}
        self.record(done=True, seconds=total, stage_seconds=by_stage, **outcome)

    def record(self, **outcome: Any) -> None:
        """Add to ``run.json``."""
        write_json(self.about, {**self.read(), **outcome})


def short_names(paths: list[str]) -> list[str]:
    """The last parts of paths where these differ.

    >>> short_names(["runs/cap", "runs/baseline"]), short_names(["a/run", "b/run"])
    (['cap', 'baseline'], ['a/run', 'b/run'])
    """
    if len(set(paths)) < len(paths):
        raise MIVError("A model is given twice. Give each model once.")
    last = [Path(path).resolve().name for path in paths]
    return [name if last.count(name) == 1 else path for name, path in zip(last, paths, strict=True)]


def refuse_unfinished(path: Path) -> None:
    """Raise an error for an unfinished run, with the command that resumes it."""
    run = RunFolder(path)
    if run.exists():
        bring_back(run.verifier)
    if run.exists() and not run.verifier.is_dir():
        raise MIVError(f"The run {path} is not finished. Resume it: {run.command_to_resume()}")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other trainings out of a folder.

    The empty file stays: removing it would allow two processes to hold locks on different files of the same name.
    """
    lock = FileLock(Path(os.path.realpath(folder)) / LOCK_NAME)
    with readable_disk_errors(folder / LOCK_NAME):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise MIVError(f"Another process is training in {folder}. Wait for it, or choose another --out.") from None
    try:
        yield
    finally:
        lock.release()


def refuse_if_locked(folder: Path) -> None:
    """Raise an error if another process trains in a folder; a folder without a lock file stays as it is."""
    if (folder / LOCK_NAME).exists():
        with locked(folder):
            pass


def _fingerprints(sets: dict[str, ExemplarSet]) -> dict[str, str]:
    return {split: exemplars.fingerprint for split, exemplars in sets.items()}


def _versions() -> dict[str, str]:
    versions = {"miv": __version__, "python": platform.python_version()}
    for name in _LIBRARIES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


# The recipes that a run compared on held-out bags.


def recipe_rows(recipes: dict[str, Any]) -> tuple[list[str], list[list[str]], str]:
    """Headings, rows and a note for what ``run.json`` records of the selection; an arrow marks the choice."""
    rows, chosen = recipes["rows"], recipes["chosen"]
    cells = [
        [
            f"{'→' if row['recipe'] == chosen else ' '} {row['recipe']}",
            f"{_figure(row['auroc'])} ± {_figure(row['error'])}",
            _figure(row["loss"]),
            _figure(row["i_ap"]),
            f"{row['seconds']:.1f}",
            row["words"] + (f" ({row['variant']})" if row["variant"] else ""),
        ]
        for row in rows
    ]
    ranks = {row["recipe"]: row["i_ap"] for row in rows if row["i_ap"] is not None}
    note = f"Chosen by loss on {recipes['held_out']:,} held-out bags: the simplest not clearly worse than the best."
    if recipes.get("forced"):
        note = f"{chosen} was asked for; figures are of {recipes['held_out']:,} held-out exemplars."
    if chosen in ranks and ranks[chosen] < max(ranks.values()) - _WORSE_RANKING:
        best = max(ranks, key=lambda name: ranks[name])
        note += f" {chosen} ranks witnesses worse than {best} (i-AP {ranks[chosen]:.3f}, {ranks[best]:.3f})."
    note += "\nAUROC: how well matches rank above others, 0.5 is chance. i-AP: how well witnesses rank above others."
    return ["  recipe", "held-out AUROC", "loss", "i-AP", "seconds", "what it does"], cells, note


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


# Tables that compare runs.

METRICS = ("auroc", "accuracy", "f1", "i_auroc", "i_ap", "i_top1")  # older runs lack the last
Summary = dict[str, Any]


def find_runs(folder: Path) -> list[Path]:
    """The runs in a folder and its subfolders, sorted by name."""
    runs = sorted(path.parent for path in folder.rglob("run.json") if RunFolder(path.parent).exists())
    if not runs:
        raise MIVError(f"{folder} contains no runs. Create one with `miv train DATA --out {folder}/NAME`.")
    return runs


def summarise(path: Path, split: str) -> Summary:
    """One run as a row: its settings, whether it is done, and its metrics on a split if available."""
    run = RunFolder(path)
    about, config = run.read(), run.read_config()
    row = {"run": str(path), "pooling": config.get("pooling"), "backbone": config.get("backbone")}
    row |= {"data": about["data"]["name"], "seed": about["seed"], "state": "done" if about["done"] else "not done"}
    row |= dict.fromkeys(METRICS)
    if about["done"]:
        metrics = run.read_evaluation().get(split) or {}  # runs on data without that split have no metrics
        measured = {**(metrics.get("classification") or {}), **(metrics.get("witnesses") or {})}
        row |= {name: measured.get(name) for name in METRICS} | {"seconds": about.get("seconds")}
        if run.verifier.is_dir():  # its recipe may need another pooling than the settings
            row["pooling"] = read_json_object(run.verifier / run.config.name, _DAMAGED).get("pooling")
    return row


def summarise_runs(paths: list[Path], split: str, *, keep_damaged: bool = False) -> list[Summary]:
    """One row per run; it is an error if none was evaluated on the split.

    A damaged run is an error too, or a row and a warning that says what is wrong.
    """
    rows = []
    for path in paths:
        try:
            rows.append(summarise(path, split))
        except MIVError as error:
            if not keep_damaged:
                raise
            warn(str(error))
            empty = dict.fromkeys(["pooling", "backbone", "data", "seed", "state", *METRICS])
            rows.append({"run": str(path), **empty, "state": "damaged"})
    done = [RunFolder(Path(row["run"])) for row in rows if row["state"] == "done"]
    splits = {name for run in done for name in run.read_evaluation()}
    if splits and split not in splits:
        raise unknown_name("split", split, splits)
    return rows
