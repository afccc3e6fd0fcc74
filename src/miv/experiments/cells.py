"""Compute one cell: build its data once, train or resume training, and return the files to keep."""

import os
import platform
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from miv.backbones.cache import embed_pool
from miv.data import ExemplarSet, InstancePool
from miv.evaluation import Predictions
from miv.evaluation.predicting import with_contributions
from miv.evaluation.runs import RunFolder
from miv.experiments.jobs import Job, JobFolders
from miv.experiments.raw_files import raw_folder
from miv.experiments.results import METRICS, PREDICTIONS, RESULT, result_document
from miv.models.verifier import Verifier
from miv.runtime import Progress, source_commit
from miv.tasks import build_once
from miv.training.config import TrainingConfig
from miv.training.new_verifier import EarlierVerifier, create_verifier
from miv.training.run import Machine, train
from miv.training.stages import FROZEN


def compute(job: Job, places: JobFolders, progress: Progress) -> dict[str, bytes]:
    """Train or resume the cell, and return the files of the finished cell by name."""
    sets = _open_sets(job, places, progress)
    run = RunFolder(job.work_folder(places.work))
    if not run.is_done():
        machine = Machine(places.cache / "features", accelerator="auto")
        task, name = job.description["data"]["task"], job.tier.backbone_of(job.cell.task)
        start = None if name is None else new_pooling_on(name, job.settings, sets["train"].pool)
        train(sets, job.settings, run.path, machine, data=task, start_from=start, resume=True, progress=progress)
    files = {PREDICTIONS: _answers(run, sets["test"], places, progress), METRICS: run.metrics.read_bytes()}
    about, measured = run.read(), run.read_evaluation()
    return {RESULT: result_document(job, about, measured, _machine(), files, source_commit()), **files}


def new_pooling_on(name: str, settings: TrainingConfig, pool: InstancePool) -> EarlierVerifier:
    """A new pooling on the backbone of the verifier ``name``, to start from; the settings must have that backbone."""
    verifier = create_verifier(settings, pool)
    verifier.backbone.load_state_dict(Verifier.from_pretrained(name).backbone.state_dict())
    return replace(EarlierVerifier.of(verifier), name=f"a new pooling on the backbone of {name}")


def _answers(run: RunFolder, test: ExemplarSet, places: JobFolders, progress: Progress) -> bytes:
    """The answers on test, with what each instance adds to the logit: weights are not kept, so it is now or never."""
    verifier = Verifier.from_pretrained(run.verifier)
    if test.witness is None or not verifier.pooling.has_attention:
        return run.predictions("test").read_bytes()
    features = None
    if run.read()["best"]["stage"] == FROZEN:  # the cache has the features of a frozen backbone
        features = embed_pool(verifier.backbone, test.pool, places.cache / "features", progress)
    answers = Predictions.load(run.predictions("test"))
    with TemporaryDirectory() as folder:
        path = Path(folder) / PREDICTIONS
        with_contributions(verifier, test, answers, features, progress).save(path)
        return path.read_bytes()


def _open_sets(job: Job, places: JobFolders, progress: Progress) -> dict[str, ExemplarSet]:
    task, options = job.tier.data(job.cell)
    raw = raw_folder(job, places.raw)
    return build_once(task, {**options, **({} if raw is None else {"raw": raw})}, places.cache / "sets", progress)


def _machine() -> dict[str, object]:
    import torch

    return {
        "system": platform.system(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "accelerator": "gpu" if torch.cuda.is_available() else "cpu",
    }
