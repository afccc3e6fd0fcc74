"""Work on a Ray cluster, or on one started on this machine: partitions of a table, and parts of one giant bag."""

import copy
import logging
import os
import platform
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, replace
from functools import partial
from os import PathLike
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from miv.backbones.descriptors import Features
from miv.errors import MIVError, needs_extra
from miv.runtime import Progress, SilentProgress
from miv.scoring.partitions import Partition, PartitionScorer, ScoreSettings
from miv.verifier.chunks import NumpyFile, check_chunk, vector_features
from miv.verifier.network import Verifier
from miv.verifier.streaming import StreamingPass
from miv.verifier.verdict import Verdict

LOCAL = "local"  # as an address: this machine alone
_REACH_SECONDS = 10.0
_uses_own_token = Event()  # Ray reads a token once per process, and sends it to every cluster from then on
_STARTS = 3  # on a busy machine, Ray gives up on its own start after 30 seconds
_LOCAL_STORE = 200 << 20  # bytes shared between the processes of this machine; large results are written to files
_FORMS = "host:port or ray://host:port of one started by `ray start --head`, auto for one that runs here, or local"

Say = Callable[[str], None]


def import_ray(purpose: str, address: str | None) -> Any:
    """Import the library; an error says what to install and for what.

    Ray uses the token of the environment only if it is told so before it is imported. The token that Ray keeps for the
    cluster of this machine is never sent to an address.
    """
    if address is not None and ":" in address and _uses_own_token.is_set():
        raise MIVError(f"Ray would send the token of this machine to {address!r} too. Connect from a new process.")
    if any(os.environ.get(name) for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")):
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    with needs_extra("ray", purpose, "Ray"):
        import ray
        import ray.exceptions
    return ray


def check_address(address: str) -> None:
    """Raise an error if no cluster answers at the address; Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon:  # local, auto, or a name that Ray knows
        return
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH_SECONDS):
            pass
    except (OSError, ValueError, OverflowError) as error:
        raise MIVError(f"Cannot reach a Ray cluster at {address!r}: {error}. Expected {_FORMS}.") from error


@contextmanager
def connected(ray: Any, address: str, say: Say, cores: int | None = None) -> Iterator[None]:
    """Connect for the length of the block, unless this process is connected already; ``cores`` are for ``LOCAL``."""
    if ray.is_initialized():
        yield
        return
    check_address(address)
    say(f"Connecting to Ray at {address}.")
    here = {"num_cpus": cores, "include_dashboard": False, "object_store_memory": _LOCAL_STORE}
    logging.getLogger("ray").setLevel(logging.ERROR)
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # its C++ half writes notes on every start to the terminal
    is_asked_for = "RAY_AUTH_MODE" in os.environ
    for left in reversed(range(_STARTS if address == LOCAL else 1)):
        try:
            options = here if address == LOCAL else {}
            ray.init(address=address, log_to_driver=False, configure_logging=False, **options)
            break
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            ray.shutdown()
            if left:
                continue
            reason = " ".join(str(error).split()).rstrip(".")
            if address == LOCAL:
                raise MIVError(f"Ray did not start on this machine: {reason}.") from error
            raise MIVError(
                f"Cannot connect to a Ray cluster at {address!r}: {reason}. Expected {_FORMS}, with Ray "
                f"{ray.__version__} and Python {platform.python_version()}, as here. If it asks for a token, set "
                "RAY_AUTH_TOKEN, or RAY_AUTH_TOKEN_PATH to a file with it."
            ) from error
    if not is_asked_for and os.environ.get("RAY_AUTH_MODE") == "token":  # Ray found or made its own
        _uses_own_token.set()
    try:
        yield
    finally:
        ray.shutdown()


RAY_PURPOSE = "Scoring with --workers or --address"
_WAITING = 2  # partitions per worker that are sent ahead; more would only make a restart repeat more
_MOST_BLOCKS = 10_000  # pieces that Ray keeps an account of


class RayScorer:
    """A worker of the pool; it reports errors, as Ray would start a worker that fails to load again and again."""

    def __init__(self, settings: ScoreSettings) -> None:
        self._settings = settings
        self._scorer: PartitionScorer | None = None  # loaded once

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """Score a partition."""
        import ray

        exemplars, problem = 0, ""
        try:
            self._scorer = self._scorer or PartitionScorer(self._settings)
            exemplars = self._scorer.score(Partition(**row)).exemplars
        except MIVError as error:
            problem = str(error)
        return {"node": ray.get_runtime_context().get_node_id(), "exemplars": exemplars, "error": problem}


def score_on_ray(
    partitions: list[Partition], settings: ScoreSettings, workers: int | None, address: str | None, say: Say
) -> Iterator[dict[str, Any]]:
    """Score partitions on a cluster, and yield a report on each; if its worker dies, another writes it anew."""
    ray, cores = import_ray(RAY_PURPOSE, address), settings.cores or 1
    # Ray prints notes, and standard output is for results.
    with redirect_stdout(sys.stderr), connected(ray, address or LOCAL, say, workers and workers * cores):
        room = room_for([node["Resources"] for node in ray.nodes() if node["Alive"]], cores, settings.gpus)
        if not room:
            raise MIVError(f"No machine of the cluster has {cores} cores and {settings.gpus:g} GPUs. Ask for less.")
        workers = min(workers or room, room, len(partitions))
        say(f"{len(partitions):,} partitions go to {workers} workers.")
        from ray.data import ActorPoolStrategy, DataContext

        DataContext.get_current().enable_progress_bars = False
        for name in [name for name in logging.root.manager.loggerDict if name.startswith("ray.data")]:
            logging.getLogger(name).setLevel(logging.ERROR)  # our own progress is enough
        rows = ray.data.from_items(
            [asdict(partition) for partition in partitions], override_num_blocks=min(len(partitions), _MOST_BLOCKS)
        )
        reports = rows.map(
            RayScorer,
            fn_constructor_args=(replace(settings, cores=cores),),
            compute=ActorPoolStrategy(size=workers, max_tasks_in_flight_per_actor=_WAITING),
            num_cpus=cores,
            num_gpus=settings.gpus,
        )
        for report in reports.iter_rows():
            if report["error"]:
                raise MIVError(report["error"])
            yield report


def room_for(machines: list[dict[str, float]], cores: int, gpus: float) -> int:
    """Number of workers that fit on the machines.

    >>> room_for([{"CPU": 8.0, "GPU": 1.0}, {"CPU": 3.0}], 2, 0), room_for([{"CPU": 8.0, "GPU": 1.0}], 2, 0.5)
    (5, 2)
    """
    needed = [(name, count) for name, count in (("CPU", cores), ("GPU", gpus)) if count]
    return sum(min(int(machine.get(name, 0) / count) for name, count in needed) for machine in machines)


ROWS = 250_000  # targets per part: 400 MB of 384 float32 numbers


class BagPart(NamedTuple):
    """Consecutive rows of a ``.npy`` file; ``place`` is that of the first of them in the bag."""

    path: str
    first: int
    last: int
    place: int


def pool_giant(
    verifier: Verifier | str | Path,
    queries: ArrayLike,
    bag: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    top: int = 10,
    workers: int | None = 1,
    address: str | None = None,
    rows: int = ROWS,
    progress: Progress | None = None,
    say: Say = lambda text: None,
) -> list[Verdict]:
    r"""Verify queries with one bag of features that need not fit in memory, exactly.

    Attention is a softmax over the bag, so each part :math:`p` needs only its greatest logit :math:`m_p`, and the sums
    :math:`\sum_n e^{l_n - m_p}` and :math:`\sum_n e^{l_n - m_p} v_n`, which are merged by scaling.

    Args:
        verifier: the verifier, a run, a verifier folder, or a name.
        queries: features ``(R, C)`` of the queries, which share the pass.
        bag: one or several ``.npy`` files of features ``(N, C)``, float16 or float32, or a folder of them.
        top: number of targets to name per query.
        workers: number of workers; ``None``: as many as fit. One without an address is this process.
        address: address of a Ray cluster; by default this machine alone.
        rows: targets per part.
        progress: reports the progress.
        say: receives lines on what is going on.
    """
    if not isinstance(verifier, Verifier):
        verifier = Verifier.from_pretrained(verifier)
    parts = _parts(bag, verifier.pooling.channels, rows)
    if not isinstance(verifier.backbone, Features):  # features need no encoder, and little is sent around
        light = copy.copy(verifier)
        light._modules = dict(verifier._modules)
        light.backbone = Features(verifier.backbone.channels)
        verifier = light
    asked = vector_features(verifier, np.atleast_2d(np.asarray(queries, np.float32)))
    progress = progress or SilentProgress()
    if workers == 1 and address is None:
        return _pooled(verifier, asked, parts, top, progress, lambda work, some: map(work, some))
    ray = import_ray("Several workers", address)
    with connected(ray, address or LOCAL, say, workers):
        run = ray.remote(num_cpus=1, max_retries=3)(_run_on_worker)

        def on_ray(work: Callable[[BagPart], StreamingPass], some: list[BagPart]) -> Iterator[StreamingPass]:
            shared, most = ray.put(work), workers or int(ray.cluster_resources().get("CPU", 1))
            sent: list[Any] = []
            for number, _ in enumerate(some):  # in order, so that the result does not depend on who was faster
                while len(sent) < min(len(some), number + most):
                    sent.append(run.remote(shared, some[len(sent)]))
                result = ray.get(sent[number])
                if isinstance(result, MIVError):
                    raise result
                yield result
                sent[number] = None

        return _pooled(verifier, asked, parts, top, progress, on_ray)


def _pooled(
    verifier: Verifier,
    queries: NDArray[np.float32],
    parts: list[BagPart],
    top: int,
    progress: Progress,
    spread: Callable[..., Any],
) -> list[Verdict]:
    """Pool in one pass, and in a second one that names targets if the pooling has several heads."""

    def run(empty: Callable[[], StreamingPass], text: str) -> StreamingPass:
        whole = empty()
        with progress.step(text, total=sum(part.last - part.first for part in parts)) as advance:
            for part, result in zip(parts, spread(partial(_over_part, verifier, empty), parts), strict=True):
                whole.merge(result)
                advance(part.last - part.first)
        return whole

    empty = partial(StreamingPass, verifier, queries, top)
    whole = run(empty, "Pooling")
    if whole.needs_second_pass:
        whole = run(partial(empty, whole.log_sums), "Naming targets")
    return whole.finish()


def _run_on_worker(work: Callable[[BagPart], Any], part: BagPart) -> Any:
    """What a part of the work gives; its error is returned as well, because Ray puts a traceback into raised ones."""
    torch.set_num_threads(1)
    try:
        return work(part)
    except MIVError as error:
        return MIVError(str(error))


def _over_part(verifier: Verifier, empty: Callable[[], StreamingPass], part: BagPart) -> StreamingPass:
    state, place = empty(), part.place
    for rows in NumpyFile(Path(part.path)).chunks(part.first, part.last):
        features = vector_features(verifier, rows)
        check_chunk(features, verifier.pooling.channels, place)
        state.update(features, place)
        place += len(features)
    return state


def _parts(bag: str | PathLike[str] | Sequence[str | PathLike[str]], channels: int, rows: int) -> list[BagPart]:
    if rows < 1:
        raise MIVError(f"rows is {rows}. Expected 1 or more.")
    paths = [Path(bag)] if isinstance(bag, str | PathLike) else [Path(path) for path in bag]
    files = [file for path in paths for file in (sorted(path.glob("*.npy")) if path.is_dir() else [path])]
    parts: list[BagPart] = []
    place = 0
    for file in files:
        array = NumpyFile(file)
        if array.shape[1:] != (channels,) or array.dtype not in (np.float16, np.float32):
            raise MIVError(f"{file} is {array.dtype} {array.shape}. Expected float16 or float32 (N, {channels}).")
        for first in range(0, array.shape[0], rows):
            last = min(first + rows, array.shape[0])
            parts.append(BagPart(str(file.absolute()), first, last, place + first))
        place += array.shape[0]
    if not parts:
        raise MIVError("The bag is empty. Expected at least one .npy file with at least one row.")
    return parts
