"""What the service says when it starts: which models it loads, when they are ready, and where people reach it."""

import logging
import socket
import sys

from miv.service.service_settings import ServiceSettings

logger = logging.getLogger(__name__)
_ELSEWHERE = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}  # reserved for documentation


def web_address(listening: socket.socket, *, everywhere: bool) -> str:
    """The address to open in a browser: of a service on all addresses, the one that other machines use."""
    host, port = listening.getsockname()[:2]
    if everywhere:
        host = _own_address(listening.family)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def say_loading(settings: ServiceSettings, address: str) -> None:
    """Say what is being loaded."""
    logger.info("listening", extra={"fields": {"address": address, "models": settings.models}})
    _print(f"Loading {', '.join(settings.models)}…")


def say_ready(settings: ServiceSettings, address: str, seconds: float) -> None:
    """Say that all models are loaded, and where to ask them."""
    fields = {"address": address, "models": settings.models, "seconds": round(seconds, 1)}
    logger.info("ready", extra={"fields": fields})
    models = ", ".join(settings.models)
    _print(f"Ready: {models} ({seconds:.1f} s). Open {address} in a browser; Ctrl-C stops the service.")


def _print(words: str) -> None:
    """Print for a person; programs read the log."""
    if sys.stderr.isatty():
        print(words, file=sys.stderr, flush=True)


def _own_address(family: int) -> str:
    """This machine's address in its network; nothing is sent."""
    elsewhere = _ELSEWHERE[socket.AddressFamily(family)]
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((elsewhere, 9))
            return str(probe.getsockname()[0])
    except OSError:  # no network
        return "127.0.0.1" if family == socket.AF_INET else "::1"
