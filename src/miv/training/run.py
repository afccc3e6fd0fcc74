"""A complete training run, and the files it saves."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from miv.backbones.cut_texts import warn_of_cut_texts
from miv.backbones.feature_cache import embed_pool
from miv.backbones.features import Features
from miv.data import ExemplarSet
from miv.errors import MIVError, StoppedByUser
from miv.evaluation import Evaluation, Predictions, evaluate
from miv.inference.prediction import predict
from miv.io.json_files import write_json
from miv.io.whole_files import whole_folder
from miv.models.verifier import Verifier
from miv.runtime.processes import ProcessShare
from miv.runtime.progress import Progress, SilentProgress
from miv.training.config import TrainingConfig
from miv.training.earlier_verifier import EarlierVerifier
from miv.training.fine_tuning import settle_backbone_rate
from miv.training.keeper import BEST
from miv.training.machine import Machine, is_first_process, set_threads
from miv.training.new_verifier import complete, create_verifier
from miv.training.pilot import ENOUGH
from miv.training.planned_stages import VERIFIER_STAGES, planned_stages, run_stages
from miv.training.precision import settle_precision
from miv.training.reference_fit import fit_reference_rule
from miv.training.run_folder import TRIAL, RunFolder
from miv.training.run_lock import locked, refuse_if_locked
from miv.training.softening import can_soften, soften
from miv.training.stage_state import START, StageState
from miv.training.stages import FROZEN
from miv.training.warnings_of_runs import warn_of_run

__all__ = ["Machine", "StoppedByUser", "is_first_process", "set_threads", "train"]


def train(
    sets: dict[str, ExemplarSet],
    config: TrainingConfig,
    out: Path,
    machine: Machine,
    *,
    data: str = "",
    data_options: dict[str, Any] | None = None,
    start_from: str | Path | EarlierVerifier | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    held: ExitStack | None = None,
) -> dict[str, Evaluation]:
    """Train on ``train`` and ``validation``, and evaluate the best weights on every other split and ``validation``.

    Args:
        sets: the exemplars by split.
        config: the settings.
        out: the folder of the run; see ``miv.training.run_folder``.
        machine: what to run on.
        data: name of the data, for the record.
        data_options: options the data were built with, if ``data`` is a task.
        start_from: verifier to start from: a run, a verifier folder, a name on the hub, or one that ships with the
            package such as ``miv/digits``. Pooling, backbone and their options then come
            from this verifier. By default weights are random, or those of a pretrained backbone.
        resume: resume the run in ``out``, or start it if there is none.
        progress: receives the progress of embedding.
        held: keeps the lock on the folder of the run; by default the lock ends with this call.
    """
    with ExitStack() as until_return:
        lock, progress = held or until_return, progress or SilentProgress()
        return _train(sets, config, out, machine, lock, data, data_options or {}, start_from, resume, progress)


def _train(
    sets: dict[str, ExemplarSet],
    config: TrainingConfig,
    out: Path,
    machine: Machine,
    held: ExitStack,
    data: str,
    data_options: dict[str, Any],
    start_from: str | Path | EarlierVerifier | None,
    resume: bool,
    progress: Progress,
) -> dict[str, Evaluation]:
    """Train; the lock on the folder of the run is entered into ``held``."""
    for split in ("train", "validation"):
        if split not in sets:
            raise MIVError(f"The split {split!r} is missing. Training needs train and validation.")
        label = sets[split].label
        # If validation is small, a trial on halves of train chooses the epochs instead.
        chooses = split == "train" or len(label) >= ENOUGH
        if config.start == "similar" and chooses and label.min() == label.max():
            raise MIVError(
                f"All {len(label):,} exemplars of {split} have the label {int(label[0])}. Training needs bags that "
                "contain something of the query's class, and bags that do not."
            )
    # As in align, each process could compute whole batches. But here that includes the backbone, so nothing is gained,
    # and the one that has the lock on the cached stage would wait for the others, which wait for the lock.
    if config.contrast_epochs and machine.processes > 1:
        raise MIVError(
            f"contrast_epochs is {config.contrast_epochs} with {machine.processes} processes. That stage compares "
            "every query with all bags of its batch, so processes cannot divide a batch and would gain nothing. "
            "Expected one process: remove --devices and --nodes, or set contrast_epochs to 0."
        )
    device = machine.find_device()
    start = EarlierVerifier.read(start_from) if isinstance(start_from, str | Path) else start_from
    config = complete(config if start is None else start.adopted(config), sets["train"].pool)
    config = settle_backbone_rate(config, is_trained=start is not None)
    config = settle_precision(config, device, quiet=machine.quiet or not is_first_process())
    started = None if start is None else start.document()
    run = RunFolder(out)
    settings, defaults = config.document(), TrainingConfig().document()
    if is_first_process():
        refuse_if_locked(run.path)
        run.check(settings, sets, data, started, defaults=defaults, resume=resume)
    verifier = (create_verifier(config, sets["train"].pool) if start is None else start.copy()).to(device)
    if start is None and isinstance(verifier.backbone, Features) and verifier.backbone.standardise:
        verifier.backbone.fit(sets["train"].pool.values[sets["train"].used])
    verifier.backbone.train_only_last(config.trainable_layers)
    for exemplars in sets.values():
        (verifier.backbone if start is None else start).check(exemplars.pool)
    if is_first_process():  # features may come from the cache, and a stage that embeds in batches does not report them
        warn_of_cut_texts(verifier.backbone, [exemplars.pool for exemplars in sets.values()])
    if is_first_process():  # not earlier: invalid settings must leave no files behind
        held.enter_context(locked(run.path))
        run.check(
            settings, sets, data, started, defaults=defaults, resume=resume
        )  # another process may have begun in the meantime
        run.begin_or_go_on(settings, sets, data, data_options, started)
    if run.is_done():
        if is_first_process() and not machine.quiet:
            told = f"The run in {out} is finished, so nothing is trained. Evaluating its verifier again."
            print(told, file=sys.stderr, flush=True)
        cache = machine.cache if (run.read().get("best") or {}).get("stage") == FROZEN else None
        return _evaluate(Verifier.from_pretrained(run.verifier).to(device), sets, run, progress, cache)
    stages, trial_seconds = planned_stages(config, verifier, sets, run, machine, progress)
    states = run_stages(stages, verifier, config, sets, run, machine, progress)
    # Ties go to the earlier stage. Stages before these make features, not a verifier.
    best = max((name for name in states if name in VERIFIER_STAGES), key=lambda name: states[name].best_value)
    verifier = Verifier.from_pretrained(run.checkpoints(best) / BEST).to(device)
    # The cache may already have the features of the first stage's backbone, from another run.
    cache = machine.cache if best == FROZEN else None
    _soften(verifier, sets, cache, machine, progress)
    _fit_references(verifier, sets, cache, progress)
    evaluations = _evaluate(verifier, sets, run, progress, cache)
    if ProcessShare.of_this_process().rank == 0:
        with whole_folder(run.verifier) as temporary:
            verifier.save_pretrained(temporary)
        trial = {} if trial_seconds is None else {TRIAL: trial_seconds}
        seconds = trial | {name: state.seconds for name, state in states.items()}
        run.finish(seconds, {"stage": best, "epoch": _best_epoch(states, best)})
        of_verifiers = {name: state for name, state in states.items() if name in VERIFIER_STAGES}
        answers = Predictions.load(run.predictions("validation"))
        warn_of_run(of_verifiers, evaluations["validation"], sets["validation"], answers.logit)
    return evaluations


def _soften(
    verifier: Verifier, sets: dict[str, ExemplarSet], cache: Path | None, machine: Machine, progress: Progress
) -> None:
    """Lower the logits if validation shows that they are too sure."""
    validation = sets["validation"]
    if validation is sets["train"] or not can_soften(verifier, validation):  # the first: nothing is held out
        return
    known = None if cache is None else embed_pool(verifier.backbone, validation.pool, cache, progress)
    logit = predict(verifier, validation.by_reference(), known, progress).logit
    temperature = soften(verifier, validation, logit)
    if temperature is not None and is_first_process() and not machine.quiet:
        told = f"Answers to validation were too sure, so logits are divided by {temperature:.2f}; verdicts stay."
        print(told, file=sys.stderr, flush=True)


def _fit_references(verifier: Verifier, sets: dict[str, ExemplarSet], cache: Path | None, progress: Progress) -> None:
    """Fit the rule for several references, on validation, or on train if validation has single queries only."""
    exemplars = sets["validation"] if sets["validation"].has_references else sets["train"]
    if exemplars.has_references:
        known = None if cache is None else embed_pool(verifier.backbone, exemplars.pool, cache, progress)
        fit_reference_rule(verifier, exemplars, known, progress)


def _evaluate(
    verifier: Verifier, sets: dict[str, ExemplarSet], run: RunFolder, progress: Progress, cache: Path | None = None
) -> dict[str, Evaluation]:
    """Predict every split but ``train``, and save predictions and metrics; with a cache, reuse its features."""
    evaluations = {}
    for split in [split for split in sets if split != "train"]:
        known = None if cache is None else embed_pool(verifier.backbone, sets[split].pool, cache, progress)
        predictions = predict(verifier, sets[split], known, progress)
        evaluations[split] = evaluate(predictions)
        if ProcessShare.of_this_process().rank == 0:
            predictions.save(run.predictions(split))
    if ProcessShare.of_this_process().rank == 0:
        write_json(run.evaluation, {split: found.document() for split, found in evaluations.items()})
    return evaluations


def _best_epoch(states: dict[str, StageState], stage: str) -> int:
    """The best epoch of a stage, counted from 1 over all stages; 0 is the start of the stage."""
    names = list(states)
    before = sum(states[name].epoch for name in names[: names.index(stage)])
    best = states[stage].best
    return 0 if best is None or best == START else before + best + 1
