"""Connect to a Ray cluster, or start one on this machine, and score partitions there."""

import logging
import os
import platform
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, replace
from ipaddress import ip_address
from pathlib import Path
from threading import Event
from typing import Any

from miv.errors import MIVError, needs_extra
from miv.scoring.folder import PartitionScorer, ScoreSettings
from miv.scoring.partitions import Partition

LOCAL = "local"  # as an address: this machine alone
_REACH_SECONDS = 10.0
_ANY_PORT = 9
_TOKEN_FILE = Path("~/.ray/auth_token")  # where Ray keeps a token
_sends_home_token = Event()  # Ray reads a token once per process, and sends it to every cluster from then on
_STARTS = 3  # on a busy machine, Ray gives up on its own start after 30 seconds
_LOCAL_STORE = 200 << 20  # bytes shared between the processes of this machine; large results are written to files
_FORMS = (
    "host:port or ray://host:port of one started by `ray start --head`, auto for the one on this machine, or local to "
    "start one here"
)

Say = Callable[[str], None]


def import_ray(purpose: str, address: str | None) -> Any:
    """Import the library, ready for the address; an error says what to install and for what."""
    if address is not None:
        _choose_token(address)
    with needs_extra("ray", purpose, "Ray"):
        import ray
        import ray.exceptions
    return ray


def _choose_token(address: str) -> None:
    """Let Ray send a token if there is one that the user means for the cluster; one without tokens accepts it as well.

    Ray itself uses tokens only for ``auto`` and what it starts. The file in the home folder may be that of another
    cluster, so it is sent only to this machine.
    """
    host, colon, _ = address.removeprefix("ray://").rpartition(":")
    host = host.strip("[]")
    if _sends_home_token.is_set() and colon and not _is_here(host):
        raise MIVError(
            f"This process has used the token of this machine, {_TOKEN_FILE}, which Ray would send to {address!r} as "
            "well. Connect to it from a new process."
        )
    if "RAY_AUTH_MODE" in os.environ:
        return
    if _is_token_given():
        os.environ["RAY_AUTH_MODE"] = "token"  # Ray reads it once, when it is imported
    elif colon and _TOKEN_FILE.expanduser().is_file() and _is_here(host):
        os.environ["RAY_AUTH_MODE"] = "token"
        _sends_home_token.set()


def _is_token_given() -> bool:
    return any(os.environ.get(name) for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"))


def _is_here(host: str) -> bool:
    """Whether a host is this machine: what goes to its own addresses comes from them too. Nothing is sent."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, _ANY_PORT, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(place)
            return probe.getsockname()[0] == place[0] or ip_address(place[0]).is_loopback
    except (OSError, ValueError):
        return False


def check_address(address: str) -> None:
    """Raise an error if no cluster answers at the address; Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon:  # local, auto, or a name that Ray knows
        return
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH_SECONDS):
            pass
    except (OSError, ValueError, OverflowError) as error:
        raise _unreachable(address, str(error)) from error


@contextmanager
def connected(ray: Any, address: str, say: Say, cores: int | None = None) -> Iterator[None]:
    """Connect for the length of the block, unless this process is connected already.

    Args:
        ray: the library.
        address: host:port, ``auto``, or ``LOCAL`` to start one here.
        say: receives a line that names the address.
        cores: with ``LOCAL``, number of cores to use; by default all.
    """
    if ray.is_initialized():
        yield
        return
    check_address(address)
    say(f"Connecting to Ray at {address}.")
    here = {"num_cpus": cores, "include_dashboard": False, "object_store_memory": _LOCAL_STORE}
    logging.getLogger("ray").setLevel(logging.ERROR)
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # its C++ half writes notes on every start to the terminal
    is_asked_for = "RAY_AUTH_MODE" in os.environ or _is_token_given()
    for left in reversed(range(_STARTS if address == LOCAL else 1)):
        try:
            ray.init(
                address=address, log_to_driver=False, configure_logging=False, **(here if address == LOCAL else {})
            )
            break
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            ray.shutdown()
            if not left:
                raise _refused(address, " ".join(str(error).split()).rstrip("."), ray.__version__) from error
    if not is_asked_for and os.environ.get("RAY_AUTH_MODE") == "token":  # Ray found or made the file
        _sends_home_token.set()
    try:
        yield
    finally:
        ray.shutdown()


def living_machines(ray: Any) -> list[dict[str, float]]:
    """The resources of each machine of the cluster."""
    return [one["Resources"] for one in ray.nodes() if one["Alive"]]


def _unreachable(address: str, reason: str) -> MIVError:
    return MIVError(f"Cannot reach a Ray cluster at {address!r}: {reason}. Expected {_FORMS}.")


def _refused(address: str, reason: str, version: str) -> MIVError:
    """The error for a failed connection; where something answers, it is most often another version or a token."""
    if address == LOCAL:
        return MIVError(f"Ray did not start on this machine: {reason}.")
    return MIVError(
        f"Cannot connect to a Ray cluster at {address!r}: {reason}. Expected {_FORMS}. It needs Ray {version} and "
        f"Python {platform.python_version()}, as here. If it asks for a token, set RAY_AUTH_TOKEN to it, or "
        "RAY_AUTH_TOKEN_PATH to a file with it, and run the command again."
    )


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
    ray = import_ray(RAY_PURPOSE, address)
    settings = replace(settings, cores=settings.cores or 1)
    cores = settings.cores or 1
    needed = None if workers is None else workers * cores
    # Ray prints notes, and standard output is for results.
    with redirect_stdout(sys.stderr), connected(ray, address or LOCAL, say, needed):
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
