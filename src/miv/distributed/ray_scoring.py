"""Score partitions with Ray Data: a pool of workers, each with a loaded verifier, that Ray restarts if they die."""

import logging
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from miv.distributed.exemplar_partitions import Partition
from miv.distributed.partition_scoring import PartitionScorer, ScoreSettings
from miv.distributed.ray_connection import LOCAL, Say, connected, import_ray, living_machines
from miv.errors import MIVError

_WAITING = 2  # partitions per worker that are sent ahead; more would only make a restart repeat more
_MOST_BLOCKS = 10_000  # pieces that Ray keeps an account of


class RayScorer:
    """A worker of the pool: takes partitions as rows, and returns a report on each."""

    def __init__(self, settings: ScoreSettings) -> None:
        self._scorer = PartitionScorer(settings)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Score a batch of partitions."""
        import ray

        reports = []
        for row in range(len(batch["number"])):
            partition = Partition(**{name: column[row] for name, column in _plain(batch).items()})
            where = {"node": ray.get_runtime_context().get_node_id(), "process": os.getpid()}
            reports.append({"number": partition.number, **where, **self._scorer.score(partition)})
        return {name: np.array([report[name] for report in reports]) for name in reports[0]}


def _plain(batch: dict[str, Any]) -> dict[str, list[Any]]:
    return {name: np.asarray(column).tolist() for name, column in batch.items()}


def score_on_ray(
    partitions: list[Partition],
    settings: ScoreSettings,
    workers: int | None,
    address: str | None,
    report: Callable[[dict[str, Any]], None],
    say: Say,
) -> None:
    """Score partitions on a cluster. Each is written by one worker; if the worker dies, another writes it anew.

    Args:
        partitions: what is left to score.
        settings: what to do with it.
        workers: number of workers; by default as many as the cluster has room for.
        address: of the cluster; ``None`` starts one on this machine.
        report: receives a report on each finished partition: its number, counts, seconds, node and process.
        say: receives lines on what is going on.
    """
    with redirect_stdout(sys.stderr):  # Ray prints notes, and standard output is for results
        _score_on_ray(partitions, settings, workers, address, report, say)


def _score_on_ray(
    partitions: list[Partition],
    settings: ScoreSettings,
    workers: int | None,
    address: str | None,
    report: Callable[[dict[str, Any]], None],
    say: Say,
) -> None:
    ray = import_ray("--workers and --address")
    settings = replace(settings, cores=settings.cores or 1)
    cores = settings.cores or 1
    needed = None if workers is None else workers * cores
    with connected(ray, address or LOCAL, say, needed):
        room = room_for(living_machines(ray), cores, settings.gpus)
        if not room:
            raise MIVError(f"No machine of the cluster has {cores} cores and {settings.gpus:g} GPUs. Ask for less.")
        workers = min(workers or room, room, len(partitions))
        say(f"{len(partitions):,} partitions go to {workers} workers.")
        _run(ray, partitions, settings, workers, report)


def room_for(machines: list[dict[str, float]], cores: int, gpus: float) -> int:
    """Number of workers that fit on the machines.

    >>> room_for([{"CPU": 8.0, "GPU": 1.0}, {"CPU": 3.0}], 2, 0), room_for([{"CPU": 8.0, "GPU": 1.0}], 2, 0.5)
    (5, 2)
    """
    by_cores = [int(machine.get("CPU", 0.0)) // cores for machine in machines]
    by_gpus = [
        int(machine.get("GPU", 0.0) / gpus) if gpus else rooms
        for machine, rooms in zip(machines, by_cores, strict=True)
    ]
    return sum(min(pair) for pair in zip(by_cores, by_gpus, strict=True))


def _run(
    ray: Any,
    partitions: list[Partition],
    settings: ScoreSettings,
    workers: int,
    report: Callable[[dict[str, Any]], None],
) -> None:
    from ray.data import ActorPoolStrategy, DataContext

    DataContext.get_current().enable_progress_bars = False
    for name in [name for name in logging.root.manager.loggerDict if name.startswith("ray.data")]:
        logging.getLogger(name).setLevel(logging.ERROR)  # our own progress is enough
    rows = ray.data.from_items(
        [asdict(partition) for partition in partitions], override_num_blocks=min(len(partitions), _MOST_BLOCKS)
    )
    reports = rows.map_batches(
        RayScorer,
        fn_constructor_args=(settings,),
        batch_size=1,
        compute=ActorPoolStrategy(size=workers, max_tasks_in_flight_per_actor=_WAITING),
        num_cpus=settings.cores,
        num_gpus=settings.gpus,
    )
    try:
        for row in reports.iter_rows():
            report(row)
    except Exception as error:  # Ray wraps errors of workers in its own
        raise _own_error(error) or error from None


def _own_error(error: BaseException | None) -> MIVError | None:
    """The error of this package that a worker raised, if that is what happened."""
    while error is not None:
        if isinstance(error, MIVError):
            return MIVError(str(error.args[-1]) if type(error) is not MIVError and error.args else str(error))
        error = getattr(error, "cause", None) or error.__cause__
    return None
