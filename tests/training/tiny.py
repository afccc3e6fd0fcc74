"""Sets and settings so small that a whole training takes a second."""

import csv
import multiprocessing
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from miv.data import ExemplarSet, InstancePool
from miv.evaluation.runs import RunFolder
from miv.training.config import TrainingConfig
from miv.training.run import Machine, run_training
from miv.training.stages import StageTraining
from miv.verifier.network import Verifier

KILLED = 9

IMAGES = TrainingConfig(
    batch_size=12,
    optimiser="adamw",
    learning_rates=((0, 3e-3),),
    max_epochs=4,
    patience=4,
    frozen_patience=1,
    augmentation="affine",
)
FEATURES = TrainingConfig(batch_size=32, learning_rates=((0, 1e-2), (5, 3e-3)), max_epochs=20, patience=4)

SIMILAR: dict[str, Any] = {  # epochs from the selected recipe
    "start": "similar",
    "recipe": "epochs",
    "heads": 1,
    "pooling_options": {"norm": "none"},
    "optimiser": "adamw",
    "select_by": "auroc",
    "pull": 1.0,
    "learning_rates": ((0, 1e-3),),
    "max_epochs": 3,
    "patience": 3,
}


def tiny_sets(kind: str, exemplars: int | None = None) -> dict[str, ExemplarSet]:
    """Classes are directions (features) or places of a bright spot (images); a bag holds 2 to 5."""
    exemplars = exemplars or (400 if kind == "features" else 44)
    return {split: _tiny_set(kind, exemplars, seed) for seed, split in enumerate(("train", "validation", "test"))}


def _tiny_set(kind: str, exemplars: int, seed: int) -> ExemplarSet:
    random = np.random.default_rng(seed)
    classes = np.arange(40) % 8
    if kind == "features":
        values = np.eye(8, dtype=np.float32)[classes] + 0.1 * random.normal(size=(40, 8)).astype(np.float32)
        pool = InstancePool("features", values.astype(np.float32), classes.astype(str))
    else:
        images = random.integers(0, 60, (40, 8, 8))
        images[np.arange(40), classes, 2:6] = 250
        pool = InstancePool("image", images.astype(np.uint8), classes.astype(str))
    queries, bags, labels, witnesses = [], [], [], []
    for number in range(exemplars):
        query = int(random.integers(40))
        others = random.permutation(np.flatnonzero(classes != classes[query]))[: random.integers(2, 5)]
        own = np.flatnonzero((classes == classes[query]) & (np.arange(40) != query))[:1]
        bag = np.concatenate([others, own]) if number % 2 else others
        queries.append(query)
        bags.append(bag)
        labels.append(number % 2)
        witnesses.append(classes[bag] == classes[query])
    groups = [str(number % 3) for number in range(exemplars)]
    return ExemplarSet.from_lists(pool, queries, bags, labels, witnesses, groups)


def run_tiny(kind: str, out: Path, **settings: object) -> dict[str, float]:
    """Train, or go on with it; what matters is that a process of its own can be started with it."""
    torch.set_num_threads(1)
    config = (FEATURES if kind == "features" else IMAGES).changed(settings)
    return run_training(tiny_sets(kind), config, out, Machine(out.parent / "cache"), resume=True)["test"].metrics


def rows(run: Path) -> list[dict[str, str]]:
    with (run / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def assert_same_run(one: Path, other: Path) -> None:
    for name in ("metrics.csv", "evaluation.json", "config.json", "verifier/model.safetensors"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def start_tiny(kind: str, out: Path, die_at: str = "", **settings: object) -> multiprocessing.process.BaseProcess:
    """Start a training in a process of its own, which has imported everything already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["miv.training.run"])
    process = context.Process(target=_run_or_die, args=(kind, out, die_at, settings))
    process.start()
    return process


def _run_or_die(kind: str, out: Path, die_at: str, settings: dict[str, object]) -> None:
    """Run; as a kill does, end at a moment without any cleaning up."""
    saves = 0
    save, save_verifier = StageTraining.save, Verifier._save_pretrained

    def die_around_checkpoint(training: StageTraining, folder: Path) -> None:
        nonlocal saves
        saves += 1
        if die_at == f"before checkpoint {saves}":
            os._exit(KILLED)
        save(training, folder)
        if die_at == f"after checkpoint {saves}":
            os._exit(KILLED)

    def die_in_final_verifier(verifier: Verifier, folder: Path) -> None:
        if die_at == "final verifier" and "checkpoints" not in folder.parts:
            (folder / "model.safetensors").write_bytes(b"half of it")
            os._exit(KILLED)
        save_verifier(verifier, folder)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(StageTraining, "save", die_around_checkpoint)
        patched.setattr(Verifier, "_save_pretrained", die_in_final_verifier)
        if die_at == "begin":  # config.json is written, run.json is not
            patched.setattr("miv.evaluation.runs._versions", lambda: os._exit(KILLED))
        if die_at == "finish":
            patched.setattr(RunFolder, "finish", lambda *_: os._exit(KILLED))
        run_tiny(kind, out, **settings)
