"""A service on a port of this machine, in a thread of the test process."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from miv.service import Client, ServiceSettings, create_app


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def running(app: Any) -> Iterator[str]:
    """The address of an app that runs."""
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until = time.monotonic() + 60
        while not server.started:
            assert time.monotonic() < until
            time.sleep(0.01)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def served(*models: str, **settings: Any) -> Iterator[str]:
    """The address of a service whose models are loaded."""
    with running(create_app(ServiceSettings(models, threads=1, **settings))) as url:
        with Client(url, patience=180) as client:
            client.models()  # waits until they are loaded
        yield url
