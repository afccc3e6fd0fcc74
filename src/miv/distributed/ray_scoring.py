"""Score partitions with Ray Data: a pool of workers, each with a loaded verifier, that Ray restarts if they die."""

import logging
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import asdict, replace
from typing import Any

from miv.distributed.exemplar_partitions import Partition
from miv.distributed.partition_scoring import PartitionScorer, ScoreSettings
from miv.distributed.ray_connection import LOCAL, Say, connected, import_ray, living_machines
from miv.errors import MIVError

RAY_PURPOSE = "Scoring with --workers or --address"
_WAITING = 2  # partitions per worker that are sent ahead; more would only make a restart repeat more
_MOST_BLOCKS = 10_000  # pieces that Ray keeps an account of


class RayScorer:
    """A worker of the pool: takes a partition as a row, and returns a report on it.

    An error of this package is part of the report. Ray adds notes of its own to an error that a worker raises, and it
    starts a worker that cannot load its verifier again and again.
    """

    def __init__(self, settings: ScoreSettings) -> None:
        self._scorer: PartitionScorer | None = None
        self._error = ""
        try:
            self._scorer = PartitionScorer(settings)
        except MIVError as error:
            self._error = str(error)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """Score a partition."""
        import ray

        exemplars, error = 0, self._error
        if self._scorer is not None:
            try:
                exemplars = self._scorer.score(Partition(**row)).exemplars
            except MIVError as found:
                error = str(found)
        return {"node": ray.get_runtime_context().get_node_id(), "exemplars": exemplars, "error": error}


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
        report: receives a report on each finished partition: its node and its number of exemplars.
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
    ray = import_ray(RAY_PURPOSE, address)
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
    reports = rows.map(
        RayScorer,
        fn_constructor_args=(settings,),
        compute=ActorPoolStrategy(size=workers, max_tasks_in_flight_per_actor=_WAITING),
        num_cpus=settings.cores,
        num_gpus=settings.gpus,
    )
    for row in reports.iter_rows():
        if row["error"]:
            raise MIVError(row["error"])
        report(row)
