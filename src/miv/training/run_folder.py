"""The folder of a run: what was asked for, what came out, and where to go on.

- ``config.json``: the settings; ``miv train --config`` takes it.
- ``run.json``: versions, seed, data and the verifier it started from with their hashes, and whether the run is done.
- ``metrics.csv``: the metrics by epoch. ``tensorboard/``: the same for TensorBoard.
- ``checkpoints/<stage>/``: ``last.ckpt`` to go on from, ``best/`` the verifier of the best epoch.
- ``verifier/``: the final verifier, of the best epoch of all.
- ``predictions/<split>.parquet`` and ``evaluation.json``: its answers and their metrics.
- ``reference.json``: what plain methods reach on the same features, which ``miv train`` scores.
- ``curves/``: metrics by epoch, ROC and precision-recall as pictures, which ``miv train`` draws.
"""

import json
import platform
import shlex
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from miv import __version__
from miv.data import ExemplarSet
from miv.errors import MIVError
from miv.io.json_files import read_json_object, write_json
from miv.io.model_files import RUN_NAME, VERIFIER_NAME
from miv.io.whole_files import remove_unfinished
from miv.training.config import TrainingConfig

FORMAT = "miv-run"
_DAMAGED = "The run is damaged; train again with another --out."
_LIBRARIES = ("torch", "lightning", "numpy", "transformers", "timm")


@dataclass(frozen=True)
class RunFolder:
    """Names within the folder of a run."""

    path: Path

    @property
    def config(self) -> Path:
        return self.path / "config.json"

    @property
    def about(self) -> Path:
        return self.path / RUN_NAME

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.csv"

    @property
    def verifier(self) -> Path:
        return self.path / VERIFIER_NAME

    @property
    def evaluation(self) -> Path:
        return self.path / "evaluation.json"

    @property
    def reference(self) -> Path:
        return self.path / "reference.json"

    @property
    def curves(self) -> Path:
        return self.path / "curves"

    def checkpoints(self, stage: str) -> Path:
        return self.path / "checkpoints" / stage

    @property
    def pilot(self) -> "RunFolder":
        """Where a trial on halves of train keeps what it needs to go on."""
        return RunFolder(self.path / "checkpoints" / "pilot")

    def predictions(self, split: str) -> Path:
        return self.path / "predictions" / f"{split}.parquet"

    def exists(self) -> bool:
        """Whether a run was begun here."""
        return self.about.is_file()

    def is_done(self) -> bool:
        """Whether a run was begun here and came to its end."""
        return self.exists() and self.read()["done"] is True

    def begin_or_go_on(
        self,
        config: TrainingConfig,
        sets: dict[str, ExemplarSet],
        data: str,
        options: dict[str, Any],
        start: dict[str, str] | None = None,
    ) -> None:
        """Write what the run is, or clear away what a killed process had begun to write."""
        if self.exists():
            remove_unfinished(self.path)
            return
        write_json(self.config, config.document())
        about = {
            "format": FORMAT,
            "version": 1,
            "done": False,
            "seed": config.seed,
            "data": {
                "name": data,
                "options": {key: str(value) if isinstance(value, Path) else value for key, value in options.items()},
                "fingerprints": _fingerprints(sets),
            },
            "start": start,
            "versions": {"miv": __version__, "python": platform.python_version(), **_versions()},
        }
        write_json(self.about, about)

    def check(
        self,
        config: TrainingConfig,
        sets: dict[str, ExemplarSet],
        data: str,
        start: dict[str, str] | None = None,
        *,
        resume: bool,
    ) -> None:
        """See that a run can begin here, or that the one that is here is the same."""
        if not self.exists():
            if self.path.exists() and any(self.path.iterdir()) and not resume:
                raise MIVError(f"{self.path} is not empty, and not a run. Choose another folder for --out.")
            return
        if not resume:
            raise MIVError(f"{self.path} holds a run. Go on with it by --resume, or choose another folder for --out.")
        about = self.read()
        self._check_start(about.get("start"), start)
        before = {**TrainingConfig().document(), **self.read_config()}  # a setting that is younger than the run
        for name, value in config.document().items():
            if before[name] != value:
                raise MIVError(
                    f"{self.path} was begun with {name} = {before[name]!r}, and now it is {value!r}. Go on with "
                    "the same settings, or choose another folder for --out."
                )
        if about["data"]["fingerprints"] != _fingerprints(sets):
            raise MIVError(f"{self.path} was begun with other data than {data}. Choose another folder for --out.")

    def _check_start(self, before: dict[str, str] | None, now: dict[str, str] | None) -> None:
        if (before or {}).get("weights") == (now or {}).get("weights"):
            return
        was = "without --from" if before is None else f"with --from {before['name']}"
        same = before is not None and now is not None and before["name"] == now["name"]
        given = "it is not given" if now is None else f"it is {now['name']}{', with other weights' if same else ''}"
        raise MIVError(
            f"{self.path} was begun {was}, and now {given}. Go on from the same start, or choose another folder for "
            "--out."
        )

    def read(self) -> dict[str, Any]:
        """What ``run.json`` says."""
        about = read_json_object(self.about, _DAMAGED)
        if about.get("format") != FORMAT:
            raise MIVError(f"{self.about} is not of a run: its format is not {FORMAT!r}.")
        lacking = [name for name in ("data", "seed", "done") if name not in about]
        if lacking:
            raise MIVError(f"{self.about} lacks {', '.join(lacking)}. {_DAMAGED}")
        return about

    def read_config(self) -> dict[str, Any]:
        """The settings."""
        return read_json_object(self.config, _DAMAGED)

    def read_evaluation(self) -> dict[str, Any]:
        """The metrics by split."""
        return read_json_object(self.evaluation, _DAMAGED)

    def command(self) -> list[str]:
        """The words of ``miv train`` with the data of the run, for the folder in which it was begun."""
        data = self.read()["data"]
        words = ["miv", "train", str(data["name"])]
        for name, value in data.get("options", {}).items():
            text = value if isinstance(value, str) else json.dumps(value)  # as --task-option reads it
            words += ["--raw", text] if name == "raw" else ["--task-option", f"{name}={text}"]
        return words

    def command_to_resume(self) -> str:
        """The command that goes on with the run."""
        start = self.read().get("start")
        words = [*self.command(), *([] if start is None else ["--from", start["name"]])]
        return shlex.join([*words, "--config", str(self.config), "--out", str(self.path), "--resume"])

    def finish(self, seconds: dict[str, float], best: dict[str, Any]) -> None:
        """Mark the run as done, after so many seconds in each stage."""
        took = {
            "seconds": round(sum(seconds.values()), 1),
            "stage_seconds": {stage: round(one, 1) for stage, one in seconds.items()},
        }
        write_json(self.about, {**self.read(), "done": True, **took, "best": best})


def refuse_unfinished(path: Path) -> None:
    """Where a path is a run that has no final verifier yet, say with which command it gets one."""
    run = RunFolder(path)
    if run.exists() and not run.verifier.is_dir():
        raise MIVError(f"The run {path} is not done. Go on with it: {run.command_to_resume()}")


def _fingerprints(sets: dict[str, ExemplarSet]) -> dict[str, str]:
    return {split: exemplars.fingerprint for split, exemplars in sets.items()}


def _versions() -> dict[str, str]:
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
