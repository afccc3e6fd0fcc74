"""Compute cells in parallel, each in a process of its own: build its data, train or resume, and measure."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock

import miv
from miv.data import InstancePool
from miv.errors import MIVError, StoppedByUser
from miv.evaluation import Predictions, evaluate
from miv.evaluation.runs import RunFolder
from miv.evaluation.witnesses import RANKED_METRICS, influence
from miv.files.arrays import Floats
from miv.reproduction.grids import WITNESSES, Cell, find_setup
from miv.reproduction.jobs import OWN, Job, JobFolders, raw_folder, sets_of_round
from miv.reproduction.results import FORMAT, VERSION, Result, find_result, write_result
from miv.runtime import (
    CTRL_C,
    TERMINATED,
    Progress,
    RichProgress,
    Terminated,
    keep_memory,
    raising_on_terminate,
    threads_of_each,
)
from miv.tasks import build_once
from miv.training.config import TrainingConfig
from miv.training.new_verifier import EarlierVerifier, create_verifier
from miv.training.run import Machine, run_training
from miv.verifier.network import Verifier

DONE, FAILED = 0, 1  # exit codes, besides CTRL_C and TERMINATED
_LOOK_SECONDS = 0.2  # between looks at the processes
Say = Callable[[str], None]
Process = subprocess.Popen[bytes]
Influences = dict[str, Floats]  # of each exemplar, by metric


def compute(job: Job, places: JobFolders, progress: Progress) -> dict[str, Any]:
    """Train or resume the cell, and return the document of the finished cell."""
    task, options = job.tier.data(job.cell)
    if task == OWN:
        sets = sets_of_round(job.cell)
    else:
        raw = raw_folder(job, places.raw)
        sets = build_once(task, {**options, **({} if raw is None else {"raw": raw})}, places.cache / "sets", progress)
    run = RunFolder(job.work_folder(places.work))
    if not run.is_done():
        machine, name = Machine(places.cache / "features", accelerator="auto"), job.tier.backbone_of(job.cell.task)
        start = None if name is None else new_pooling_on(name, job.settings, sets["train"].pool)
        run_training(sets, job.settings, run.path, machine, data=task, start_from=start, resume=True, progress=progress)
    answers = Predictions.load(run.predictions("test"))
    return cell_document(job, run.read(), run.read_evaluation()["validation"], answers, places.work)


def cell_document(
    job: Job, about: dict[str, Any], validation: dict[str, Any], answers: Predictions, work: Path
) -> dict[str, Any]:
    """The document of a finished cell; ``work`` has the predictions of other cells."""
    measured = evaluate(answers).document()
    figures, groups, witnesses = _figures(measured), measured["groups"], measured["witnesses"] or {}
    influences = {metric: influence(answers, metric) for metric in figures}
    asked = dict(job.description)
    return {
        "format": FORMAT,
        "version": VERSION,
        "hash": job.digest,
        "config": asked.pop("config"),
        "description": asked,
        "twin": job.tier.is_twin,
        "best": about["best"],
        "seconds": about["seconds"],
        "stage_seconds": about.get("stage_seconds"),  # a run that ended before these were kept has none
        "seed": about["seed"],
        "data": about["data"]["fingerprints"],
        "start": about.get("start"),  # the verifier whose weights training began with, and their hash
        "versions": about["versions"],
        "code": source_commit(),
        "validation": validation["classification"]
        | {name: value for name, value in (validation["witnesses"] or {}).items() if name in WITNESSES},
        "test": {
            "exemplars": measured["exemplars"],
            "positives": measured["positives"],
            "figures": figures,
            "errors": {metric: _norm(some) for metric, some in influences.items()},
            "chance": {name.removesuffix("_chance"): witnesses[name] for name in witnesses if name.endswith("_chance")},
            "groups": groups and {row["group"]: [row[kind] for kind in ("tp", "tn", "fp", "fn")] for row in groups},
        },
        "paired": _paired(job, about["data"]["fingerprints"]["test"], influences, work),
    }


def _figures(measured: dict[str, Any]) -> dict[str, float]:
    """The figures of an evaluation: classification, and witnesses by every ranking that the predictions allow."""
    figures, ranked = dict(measured["classification"]), measured["rankings"] or {}
    figures |= {name: ranked[by][metric] for name, (by, metric) in RANKED_METRICS.items() if by in ranked}
    return {name: value for name, value in figures.items() if value is not None and math.isfinite(value)}


def _paired(job: Job, test: str, influences: Influences, work: Path) -> dict[str, dict[str, float | None]]:
    """By each other finished cell of the round, the standard errors of the differences over exemplars."""
    paired: dict[str, dict[str, float | None]] = {}
    task, number = job.cell.task, job.cell.round
    for path in sorted(job.work_folder(work).parent.parent.glob(f"*/round-{number}")):
        name, run = path.parent.name.rpartition("-")[0], RunFolder(path)
        partner = Job(Cell(task, find_setup(task, name), number), job.tier_name, job.encoder)
        is_other = name != job.cell.setup.name and partner.work_folder(work) == path  # with the settings of today
        if is_other and run.is_done() and run.read()["data"]["fingerprints"]["test"] == test:
            answers = Predictions.load(run.predictions("test"))
            common = [metric for metric in _figures(evaluate(answers).document()) if metric in influences]
            paired[name] = {metric: _norm(influences[metric] - influence(answers, metric)) for metric in common}
    return paired


def _norm(influences: Floats) -> float | None:
    error = float(np.linalg.norm(influences))
    return error if math.isfinite(error) else None


def new_pooling_on(name: str, settings: TrainingConfig, pool: InstancePool) -> EarlierVerifier:
    """A new pooling on the backbone of the verifier ``name``; the settings must have that backbone."""
    verifier = create_verifier(settings, pool)
    verifier.backbone.load_state_dict(Verifier.from_pretrained(name).backbone.state_dict())
    return replace(EarlierVerifier.of(verifier), name=f"a new pooling on the backbone of {name}")


# The commit of the code that runs, if it runs from a clone.


@cache
def source_commit(package: Path = Path(miv.__file__).parent) -> dict[str, str | bool] | None:
    """The commit of the clone that holds a package, and whether its files differ from it; ``None`` outside a clone."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(package), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.strip()  # noqa: S603

    try:
        git("ls-files", "--error-unmatch", "__init__.py")  # an environment inside a clone is not part of it
        return {"commit": git("rev-parse", "HEAD"), "changed": bool(git("status", "--porcelain", "--", "."))}
    except (OSError, subprocess.SubprocessError):
        return None


def command(job: Job, places: JobFolders, threads: int) -> list[str]:
    """The command that computes a job in its own process."""
    paths = {name: None if path is None else str(path) for name, path in vars(places).items()}
    document = {"job": job.document(), "places": paths, "threads": threads}
    return [sys.executable, "-m", "miv.reproduction.cells", json.dumps(document)]


def split_jobs(jobs: Sequence[Job], results: Path) -> tuple[list[Result], list[Job]]:
    """The existing results, and the jobs that have none; a result with different settings is an error."""
    by_job = {job: find_result(job, results) for job in jobs}
    done = [result for result in by_job.values() if result is not None]
    return done, [job for job, result in by_job.items() if result is None]


@raising_on_terminate()
def run_jobs(jobs: Sequence[Job], places: JobFolders, parallel: int, say: Say) -> dict[Job, str]:
    """Compute the missing cells, ``parallel`` at a time, and return those that failed, with the reason.

    With Ctrl-C or SIGTERM each training saves; the same call resumes, also after a kill.
    """
    done, waiting = split_jobs(jobs, places.results)
    if not waiting:
        return {}
    say(f"{len(done)} of {len(jobs)} cells are done; computing {len(waiting)}.")
    threads = threads_of_each(parallel)
    running: dict[Job, Process] = {}
    began: dict[Job, float] = {}
    failures: dict[Job, str] = {}
    try:
        while waiting or running:
            while waiting and len(running) < parallel:
                job = waiting.pop(0)
                running[job], began[job] = _start(job, places, threads), time.monotonic()
                say(f"Started {job}; log: {job.log(places.work)}.")
            time.sleep(_LOOK_SECONDS)
            ended = {job: code for job, process in running.items() if (code := process.poll()) is not None}
            for job, code in ended.items():
                del running[job]
                if code == DONE:
                    took = time.monotonic() - began[job]
                    say(f"{_outcome(job, places.results, took)}; {len(waiting) + len(running)} to go.")
                elif code in (CTRL_C, -signal.SIGINT):
                    raise KeyboardInterrupt
                elif code in (TERMINATED, -signal.SIGTERM):
                    raise Terminated
                else:
                    failures[job] = _last_words(job.log(places.work), code)
                    say(f"FAILED  {job}: {failures[job]}")
    except (KeyboardInterrupt, Terminated) as stop:
        code = TERMINATED if isinstance(stop, Terminated) else CTRL_C
        raise StoppedByUser("Stopped; everything is saved. Run the same command to resume.", code) from None
    finally:
        _stop(running, say)
    return failures


def _outcome(job: Job, results: Path, seconds: float) -> str:
    result = find_result(job, results)
    if result is None:
        raise MIVError(f"{job} succeeded, but {job.result_file(results)} does not have it. Was it removed?")
    figures = "  ".join(f"{name} {result.metrics[name]:.3f}" for name in ("auroc", "i_auroc") if name in result.metrics)
    return f"Done    {job}: {figures}  in {seconds / 60:.1f} minutes"


def _start(job: Job, places: JobFolders, threads: int) -> Process:
    log = job.log(places.work)
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    with log.open("ab") as file:
        # A session of its own: Ctrl-C reaches it through this process alone, once.
        return subprocess.Popen(  # noqa: S603 - our own module
            command(job, places, threads), stdout=file, stderr=file, env=environment, start_new_session=True
        )


def _last_words(log: Path, code: int) -> str:
    if code < 0:  # it had no time for words
        return f"ended by signal {-code}"
    with suppress(OSError):
        lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
        return next((line[:500] for line in reversed(lines) if line), f"ended with code {code}")
    return f"ended with code {code}"


def _stop(running: dict[Job, Process], say: Say) -> None:
    """Ask all processes to save and stop; a second Ctrl-C ends them at once, without saving."""
    if not running:
        return
    say("Stopping: each training saves after the current step. Press Ctrl-C again to stop at once.")
    for process in running.values():
        process.terminate()  # unlike Ctrl-C, never ignored: a process may still be importing
    try:
        for process in running.values():
            process.wait()
    except KeyboardInterrupt:
        for process in running.values():
            process.kill()


def main(document: dict[str, Any]) -> int:
    """Compute the job unless it is done; if another process is computing it, wait."""
    job = Job.of(document["job"])
    places = JobFolders(**{name: path and Path(path) for name, path in document["places"].items()})
    lock = job.lock(places.work)
    lock.parent.mkdir(parents=True, exist_ok=True)
    try:
        with raising_on_terminate(), FileLock(lock):
            if find_result(job, places.results) is None:
                keep_memory()
                torch.set_num_threads(document["threads"])
                write_result(job, places.results, compute(job, places, RichProgress()))
            return DONE
    except StoppedByUser as stopped:
        print(stopped, file=sys.stderr)
        return stopped.exit_code
    except MIVError as error:
        print(f"Error: {error}", file=sys.stderr)
        return FAILED
    except (KeyboardInterrupt, Terminated) as stop:
        return TERMINATED if isinstance(stop, Terminated) else CTRL_C


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
