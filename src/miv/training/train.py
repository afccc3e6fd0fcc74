"""``miv.train``: from exemplars to a verifier and its metrics, like the command."""

import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import torch

from miv.data import ExemplarSet
from miv.data.samples import save_samples
from miv.errors import MIVError, StoppedByUser
from miv.evaluation import Evaluation, Predictions
from miv.evaluation.baselines import Baselines
from miv.evaluation.model_card import advice, check_card, write_card
from miv.evaluation.plain_methods import score_baselines
from miv.evaluation.runs import RunFolder, refuse_if_locked
from miv.files.cache import cache_folder
from miv.files.instances import check_name
from miv.files.weights import CONFIG_NAME, read_config
from miv.runtime import RichProgress, SilentProgress, interruption_of
from miv.tasks.opening import Exemplars, open_splits
from miv.training.auto import HEAD, OF_EPOCHS, choose, preset as settings_of_preset
from miv.training.config import AUTO, TrainingConfig, read_settings
from miv.training.new_verifier import EarlierVerifier
from miv.verifier.network import Verifier


@dataclass(frozen=True, eq=False, repr=False)
class TrainingRun:
    """A finished training run.

    ``miv report``, ``miv runs`` and ``Verifier.from_pretrained`` take it like its folder.
    """

    folder: Path  # without ``out``, it is temporary and removed together with this object
    config: TrainingConfig  # all settings, including those chosen by ``auto``
    evaluations: Mapping[str, Evaluation]  # the metrics on ``validation`` and ``test``, by split
    reference: Baselines | None  # scores of plain methods on the same features, if they were scored
    reason: str = ""  # what the preset ``auto`` chose and why, or that all settings were given

    def __repr__(self) -> str:
        aurocs = {split: found.classification["auroc"] for split, found in self.evaluations.items()}
        measured = ", ".join(f"{split} AUROC {auroc:.3f}" for split, auroc in aurocs.items())
        return f"TrainingRun({str(self.folder)!r}, pooling {_pooling_of(RunFolder(self.folder))}, {measured})"

    def __fspath__(self) -> str:
        """The folder, so that a run can be passed wherever a path to one can."""
        return str(self.folder)

    @cached_property
    def verifier(self) -> "Verifier":
        """The final verifier, ready to use."""
        return Verifier.from_pretrained(self.folder)

    def predictions(self, split: str = "test") -> Predictions:
        """The answers of the verifier for a split."""
        return Predictions.load(RunFolder(self.folder).predictions(split))

    @property
    def advice(self) -> str:
        """What to do if the verifier is below the baselines; empty if all is well."""
        return "" if self.reference is None else advice(self.evaluations, self.reference, RunFolder(self.folder))

    def document(self) -> dict[str, Any]:
        """Folder, metrics and reference as plain values, for JSON."""
        metrics = {split: found.document() for split, found in self.evaluations.items()}
        reference = None if self.reference is None else self.reference.document()
        recipes = RunFolder(self.folder).read().get("recipes")
        return {"run": str(self.folder), **metrics, "reference": reference, "recipes": recipes}

    def text(self) -> str:
        """The metrics as readable tables."""
        return "\n\n".join(f"{split}: {found.text()}" for split, found in self.evaluations.items())

    __str__ = text


def train(
    exemplars: Exemplars,
    *,
    out: str | PathLike[str] | None = None,
    preset: str = AUTO,
    config: TrainingConfig | Mapping[str, Any] | str | PathLike[str] | None = None,
    start_from: str | PathLike[str] | Verifier | None = None,
    task_options: Mapping[str, Any] | None = None,
    validation_fraction: float = 0.2,
    resume: bool = False,
    accelerator: str = "auto",
    threads: int = 0,
    cache: str | PathLike[str] | None = None,
    baselines: bool = True,
    samples: bool = True,
    verbose: bool = True,
    **settings: Any,
) -> TrainingRun:
    """Train a verifier and evaluate it on validation and test, like ``miv train``.

    Args:
        exemplars: an ``ExemplarSet``; a dict of them with ``train``, ``validation`` and perhaps ``test``; a folder of
            splits; or the name of a task, such as ``digits-twin``, which is built first.
        out: folder of the run. By default a temporary folder, which is removed together with the returned object.
        preset: settings to start from: ``auto`` (chosen for the data), ``best``, ``qmnist``, ``signature``, ``fever``.
        config: settings that override the preset: a dict, a ``.toml`` file, or the ``config.json`` of a run. A
            ``TrainingConfig`` is complete, so it replaces the preset, and nothing is chosen for the data.
        start_from: start from the weights of this verifier, and keep its pooling and backbone: a ``Verifier``, a run,
            the folder of a verifier, a name on the hub, or ``miv/digits``.
        task_options: options of the task, such as ``{"raw": "data/qmnist"}``.
        validation_fraction: share of a single ``ExemplarSet`` that is held out as ``validation``, by class or query.
        resume: continue the run in ``out``, or begin it if there is none.
        accelerator: ``cpu``, ``gpu`` or ``auto``.
        threads: number of threads; 0 leaves the choice to PyTorch.
        cache: folder of features and built sets, by default ``MIV_CACHE_DIR`` or ``~/.cache/miv``.
        baselines: whether to also score plain methods on the same features.
        samples: whether to store two exemplars in the run, to try it with in the page of ``miv serve``.
        verbose: whether to show progress on standard error.
        settings: fields of ``TrainingConfig``, such as ``pooling="cap_vema"``; they override ``config``.
    """
    # Not before a training: they need the libraries of miv[train], and `from miv import *` does not.
    from miv.training.fitting import trains_by_epochs
    from miv.training.run import Machine, run_training

    from_file, where = _as_settings(config)
    is_complete = from_file.keys() == {one.name for one in fields(TrainingConfig)}
    if "pooling" in settings and from_file.get("pooling", settings["pooling"]) != settings["pooling"]:
        from_file.pop("pooling_options", None)  # they belong to the pooling of the file
    given = from_file | settings
    if isinstance(config, TrainingConfig):
        if preset != AUTO:
            raise MIVError(f"preset is {preset!r}, and config, a TrainingConfig, replaces it. Pass only one of them.")
        given = config.changes() | settings
    first = TrainingConfig().changed(HEAD) if preset == AUTO else settings_of_preset(preset)
    settled = first.changed(from_file, where).changed(settings)  # what is wrong is refused before the data are read
    if out is None and resume:
        raise MIVError("resume is true, and out is missing. Pass the folder of the run as out.")
    if out is not None:
        check_name(Path(out))
        if not resume:  # before the data are read and settings chosen
            refuse_if_locked(Path(out))
            RunFolder(Path(out)).refuse_existing()
    start = None if start_from is None else EarlierVerifier.of(start_from)
    kept = cache_folder() if cache is None else Path(cache)
    progress = RichProgress() if verbose else SilentProgress()
    options = dict(task_options or {})
    sets = open_splits(
        exemplars, options, kept / "sets", progress, validation_fraction=validation_fraction, seed=settled.seed
    )
    reason = ""
    if preset == AUTO and is_complete:
        chosen = first
        reason = f"All settings come from {where.removeprefix(' in ')}. Nothing is chosen for the data."
    elif preset == AUTO and resume and out is not None and RunFolder(Path(out)).exists():
        chosen = TrainingConfig().changed(read_settings(RunFolder(Path(out)).config))  # perhaps chosen with more cores
    elif preset == AUTO:
        known = {} if start is None else {"backbone": start.verifier.configuration["backbone"]}
        choice = choose(sets, given | known, is_trained=start is not None, cache=kept / "features", progress=progress)
        chosen, reason = choice.config, choice.reason
    else:
        chosen = settings_of_preset(preset, given.get("pooling"))
    chosen = chosen.changed(from_file, where).changed(settings)
    if start is not None:
        chosen = start.adopted(chosen, given)
    chosen_by_user = settings if is_complete else given
    ignored = [name for name in OF_EPOCHS if chosen_by_user.get(name) not in (None, False)]
    if ignored and not chosen.contrast_epochs and not trains_by_epochs(chosen):
        raise MIVError(
            f"{ignored[0]} is {chosen_by_user[ignored[0]]!r}, and recipe is {chosen.recipe!r}, which has no epochs. "
            f"Remove {ignored[0]}, or set recipe to 'epochs'."
        )
    if verbose and reason:
        print(reason, file=sys.stderr, flush=True)
    if threads:
        torch.set_num_threads(threads)
    machine = Machine(kept / "features", accelerator, quiet=not verbose)
    folder = Path(tempfile.mkdtemp(prefix="miv-train-")) if out is None else Path(out)
    held, run, plain = ExitStack(), RunFolder(folder), None
    try:  # another process must not begin to resume before all files are written
        if resume:  # a new run has no card yet
            check_card(run.verifier)
        data = "" if isinstance(exemplars, ExemplarSet | Mapping) else os.fspath(exemplars)
        where_from: dict[str, Any] = {"data": data, "data_options": options, "start_from": start, "resume": resume}
        evaluations = run_training(sets, chosen, folder, machine, progress=progress, held=held, **where_from)
        if baselines:
            backbone = Verifier.from_pretrained(folder).to(machine.find_device()).backbone
            plain = score_baselines(sets, backbone, cache=machine.cache, progress=progress)
            plain = replace(plain, backbone=run.read_config().get("backbone"))
            plain.save(run.reference)
        if samples:
            split = next(name for name in ("test", "validation", "train") if name in sets)
            save_samples(sets[split], split, folder)
        write_card(run.verifier, _pooling_of(run), evaluations, plain, run.read().get("recipes"))
    except BaseException as error:
        if out is None:
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, StoppedByUser):  # there is no run to continue
                raise interruption_of(error) from None
        raise
    finally:
        held.close()
    done = TrainingRun(folder, chosen, evaluations, plain, reason)
    if out is None:
        weakref.finalize(done, shutil.rmtree, folder, ignore_errors=True)
    return done


def _as_settings(config: TrainingConfig | Mapping[str, Any] | str | PathLike[str] | None) -> tuple[dict[str, Any], str]:
    """The given settings, and their source for errors."""
    if config is None:
        return {}, ""
    if isinstance(config, TrainingConfig):
        return config.document(), " in config (a TrainingConfig)"
    if isinstance(config, Mapping):
        return dict(config), " in config"
    return read_settings(Path(config)), f" in {os.fspath(config)}"


def _pooling_of(run: RunFolder) -> str:
    """The pooling of the finished verifier, which is `nearest` if the selected recipe needs no attention."""
    return str(read_config(run.verifier / CONFIG_NAME)["pooling"])
