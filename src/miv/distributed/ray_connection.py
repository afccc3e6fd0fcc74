"""Connect to a Ray cluster, or start one on this machine."""

import logging
import os
import platform
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from threading import Event
from typing import Any

from miv.errors import MIVError, needs_extra

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
