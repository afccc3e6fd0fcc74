"""A complete training run, and the files it saves."""

import time
from contextlib import ExitStack, nullcontext
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

from miv.backbones.cache import embed_pool, warn_of_cut_texts
from miv.backbones.descriptors import Features
from miv.data import ExemplarSet, csr
from miv.errors import MIVError, StoppedByUser, warn
from miv.evaluation import Evaluation, evaluate
from miv.evaluation.calibration_fits import fit_reference_rule
from miv.evaluation.metrics import auroc_within_chance
from miv.evaluation.out_of_distribution import fit_check, limit_text
from miv.evaluation.predicting import predict
from miv.evaluation.runs import RunFolder, locked, refuse_if_locked
from miv.files import parquet as parquet  # predictions need it: a missing library is an error before the work
from miv.files.arrays import Floats, Labels, Vectors
from miv.files.atomic import whole_folder
from miv.files.json import write_json
from miv.poolings.similar import ScaledProduct
from miv.runtime import Progress, SilentProgress
from miv.training.checkpoint import BEST, START
from miv.training.config import TrainingConfig
from miv.training.fitting import (
    VERIFIER_STAGES,
    fit_recipe,
    fit_temperature,
    recipes_for,
    run_stages,
    stages_of,
    tell,
)
from miv.training.new_verifier import EarlierVerifier, create_verifier, resolve
from miv.training.stages import FROZEN, Machine, Sets
from miv.verifier.decisions import OperatingPoint
from miv.verifier.network import Verifier
from miv.verifier.scalings import Temperature

__all__ = ["Machine", "StoppedByUser", "run_training"]


def warn_of_run(auroc: float, validation: ExemplarSet, *, by_epochs: bool) -> None:
    """Warn of a verifier at chance, and of a validation of one label."""
    label = validation.label
    if label.min() == label.max():
        warn(
            f"All {len(label):,} exemplars of validation have the label {int(label[0])}, so they could not show what "
            "helps, and the verifier may be worse than with both labels. Hold out bags of both labels."
        )
        return
    reach = auroc_within_chance(label)
    if auroc <= reach < 1:  # otherwise too few exemplars to tell
        remedy = "more exemplars, another backbone, or the pooling nearest, which needs no training"
        remedy = remedy if by_epochs else "another backbone"
        warn(
            f"The verifier is no better than chance: its AUROC on the {len(label):,} exemplars of validation is "
            f"{auroc:.3f}, and random answers reach up to {reach:.3f}. Try {remedy}; "
            "`miv baselines` scores plain methods on your data."
        )


def run_training(
    sets: Sets,
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
    """Train on ``train`` and ``validation``, and evaluate the best weights on every other split and ``validation``."""
    _check(sets, config)
    progress = progress or SilentProgress()
    with nullcontext(held) if held is not None else ExitStack() as lock:
        device = machine.find_device()
        start = EarlierVerifier.of(start_from) if isinstance(start_from, str | Path) else start_from
        config = resolve(config, sets["train"].pool, start)
        recipes_for(config)  # settings that leave no recipe must leave no files behind
        started = None if start is None else {"name": start.name, "weights": start.weights}
        run = RunFolder(out)
        settings = config.document()
        refuse_if_locked(run.path)
        run.check(settings, sets, data, started, resume=resume)
        verifier = create_verifier(config, sets["train"].pool) if start is None else deepcopy(start.verifier).train()
        verifier = verifier.to(device)
        if start is None and isinstance(verifier.backbone, Features) and verifier.backbone.standardise:
            verifier.backbone.fit(sets["train"].pool.values[sets["train"].used])
        verifier.backbone.train_only_last(config.trainable_layers)
        for exemplars in sets.values():
            (verifier.backbone if start is None else start).check(exemplars.pool)
        # Features may come from the cache, and a stage that embeds in batches does not report them.
        warn_of_cut_texts(verifier.backbone, [exemplars.pool for exemplars in sets.values()])
        lock.enter_context(locked(run.path))  # not earlier: invalid settings must leave no files behind
        # Again, as another process may have begun in the meantime.
        run.check(settings, sets, data, started, resume=resume)
        run.begin_or_go_on(settings, sets, data, data_options or {}, started)
        sets = {split: verifier.backbone.paired(exemplars) for split, exemplars in sets.items()}
        if run.is_done():
            machine.say(f"The run in {out} is finished, so nothing is trained. Evaluating its verifier again.")
            cache = None if (run.read().get("best") or {}).get("stage") == "all" else machine.cache
            return _evaluate(Verifier.from_pretrained(run.verifier).to(device), sets, run, progress, cache)
        stages = stages_of(config, verifier)
        states = run_stages(stages, verifier, config, sets, run, machine, progress, is_new=start is None)
        by_epochs = [name for name in states if name in VERIFIER_STAGES]
        seconds = {name: state.seconds for name, state in states.items()}
        if by_epochs:  # ties go to the earlier stage
            best = max(by_epochs, key=lambda name: states[name].best_value)
            verifier = Verifier.from_pretrained(run.checkpoints(best) / BEST).to(device)
            before = sum(states[name].epoch for name in list(states)[: list(states).index(best)])
            epoch = states[best].best  # from 0 in its stage; the outcome counts from 1 over all, 0 being the start
            epoch = 0 if epoch is None or epoch == START else before + epoch + 1
            outcome: dict[str, Any] = {"best": {"stage": best, "epoch": epoch}}
            # The cache may already have the features of the first stage's backbone, from another run.
            cache = machine.cache if best == FROZEN else None
            _calibrate_on_validation(verifier, sets, cache, machine, progress)
        else:
            began, cache = time.monotonic(), machine.cache
            verifier, selection = fit_recipe(verifier, sets, config, cache, progress)
            _set_temperature(verifier, selection.logit, selection.label, selection.weight, machine)
            outcome = {"best": {"stage": selection.recipe, "epoch": 0}, "recipes": tell(selection, machine)}
            seconds["recipes"] = time.monotonic() - began
        exemplars = sets["validation"] if sets["validation"].has_references else sets["train"]
        if exemplars.has_references:
            fit_reference_rule(verifier, exemplars, _known(verifier, exemplars, cache, progress), progress)
        evaluations = _evaluate(verifier, sets, run, progress, cache)
        try:
            verifier.unlike = fit_check(verifier, sets["train"], sets["validation"], None, cache, progress)
            machine.say(limit_text(verifier.unlike))
        except MIVError as error:  # hardly any instances
            machine.say(f"Only inputs without content are unsure. No out-of-distribution check: {error}")
        with whole_folder(run.verifier) as temporary:
            verifier.save_pretrained(temporary)
        run.finish(seconds, outcome)
        area, trained = evaluations["validation"].metrics["auroc"], any(states[name].history for name in by_epochs)
        warn_of_run(area, sets["validation"], by_epochs=trained)
        return evaluations


def _check(sets: Sets, config: TrainingConfig) -> None:
    for split in ("train", "validation"):
        if split not in sets:
            raise MIVError(f"The split {split!r} is missing. Training needs train and validation.")
        label = sets[split].label
        if config.start == "similar" and split == "train" and label.min() == label.max():
            raise MIVError(
                f"All {len(label):,} exemplars of {split} have the label {int(label[0])}. Training needs bags that "
                "contain something of the query's class, and bags that do not."
            )


def _calibrate_on_validation(
    verifier: Verifier, sets: Sets, cache: Path | None, machine: Machine, progress: Progress
) -> None:
    """Give a verifier trained by epochs from the start "similar" a temperature, if it is overconfident."""
    validation = sets["validation"]
    if validation is sets["train"] or not isinstance(verifier.pooling.similarity, ScaledProduct):
        return
    ptr = validation.all_references[0]
    answers = predict(verifier, validation.by_reference(), _known(verifier, validation, cache, progress), progress)
    weight = np.ones(len(validation)) if validation.weight is None else validation.weight / validation.weight.mean()
    owner = csr.owners(ptr)
    _set_temperature(verifier, answers.logit, validation.label[owner], (weight / np.diff(ptr))[owner], machine)


def _set_temperature(verifier: Verifier, logit: Floats, label: Labels, weight: Floats, machine: Machine) -> None:
    temperature = fit_temperature(logit, label, weight)
    if temperature is not None:
        verifier.operating_point = OperatingPoint(Temperature(temperature))
        words = f"overconfident on held-out bags; logits are divided by {temperature:.2f}"
        machine.say(f"The verifier was {words}. Verdicts do not change.")


def _evaluate(
    verifier: Verifier, sets: Sets, run: RunFolder, progress: Progress, cache: Path | None = None
) -> dict[str, Evaluation]:
    """Predict every split but ``train``, and save predictions and metrics; with a cache, reuse its features."""
    evaluations = {}
    for split in [split for split in sets if split != "train"]:
        predictions = predict(verifier, sets[split], _known(verifier, sets[split], cache, progress), progress)
        evaluations[split] = evaluate(predictions)
        predictions.save(run.predictions(split))
    write_json(run.evaluation, {split: found.document() for split, found in evaluations.items()})
    return evaluations


def _known(verifier: Verifier, exemplars: ExemplarSet, cache: Path | None, progress: Progress) -> Vectors | None:
    """The features of the pool, from the cache; ``None`` without a cache, for a backbone that has just learned."""
    return None if cache is None else embed_pool(verifier.backbone, exemplars.pool, cache, progress)
