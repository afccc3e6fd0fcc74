"""Connect to a Ray cluster, or start one on this machine."""

import logging
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from miv.errors import MIVError, needs_extra

LOCAL = "local"  # as an address: this machine alone
_REACH_SECONDS = 10.0
_STARTS = 3  # on a busy machine, Ray gives up on its own start after 30 seconds
_LOCAL_STORE = 200 << 20  # bytes shared between the processes of this machine; large results are written to files

Say = Callable[[str], None]


def import_ray(purpose: str) -> Any:
    """Import the library; an error says what to install and for what."""
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
    for left in reversed(range(_STARTS if address == LOCAL else 1)):
        try:
            ray.init(
                address=address, log_to_driver=False, configure_logging=False, **(here if address == LOCAL else {})
            )
            break
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            ray.shutdown()
            if not left:
                raise _unreachable(address, str(error).strip().splitlines()[0].rstrip(".")) from error
    try:
        yield
    finally:
        ray.shutdown()


def living_machines(ray: Any) -> list[dict[str, float]]:
    """The resources of each machine of the cluster."""
    return [one["Resources"] for one in ray.nodes() if one["Alive"]]


def _unreachable(address: str, reason: str) -> MIVError:
    return MIVError(
        f"Cannot reach a Ray cluster at {address!r}: {reason}. Expected host:port or ray://host:port of one "
        "started by `ray start --head`, auto for the one on this machine, or local to start one here."
    )
