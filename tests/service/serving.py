"""Services for tests in this process. ``benchmarks.serve_process`` has those in processes of their own."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import torch
import uvicorn
from fastapi.testclient import TestClient

from miv.service import Client, ServiceSettings, create_app
from miv.verifier.network import Verifier

CHANNELS = 8


def vectors_folder(parent: Path, name: str = "vectors", channels: int = CHANNELS) -> Path:
    """A small verifier of vectors, saved."""
    torch.manual_seed(0)
    Verifier("cap_dba_l2", channels=channels, pooling_options={"heads": min(2, channels)}).save_pretrained(
        parent / name
    )
    return parent / name


def vectors(count: int, seed: int, channels: int = 4) -> Any:
    """Vectors with few digits."""
    return np.random.default_rng(seed).normal(size=(count, channels)).round(3).astype(np.float32)


def vector_lists(count: int, seed: int) -> Any:
    return vectors(count, seed).tolist()


def vector_exemplars(count: int, size: int = 5, seed: int = 0) -> list[dict[str, Any]]:
    """Exemplars of vectors as JSON."""
    rows = vectors(count * (size + 1), seed, CHANNELS).reshape(count, size + 1, CHANNELS).tolist()
    return [{"query": query, "bag": bag} for query, *bag in rows]


@contextmanager
def ready_client(*models: str | Path, **settings: Any) -> Iterator[TestClient]:
    """A client of a service in this process, with its models loaded. One thread, so that numbers are reproducible."""
    app = create_app(ServiceSettings(tuple(map(str, models)), **{"threads": 1, **settings}))
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        wait_until_ready(client)
        yield client


def wait_until_ready(client: Any, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while True:
        try:
            if client.get("/readyz").status_code == 200:
                return
        except httpx.TransportError:  # it does not listen yet
            pass
        assert time.monotonic() < until, "The models were not loaded in time."
        time.sleep(0.02)


# A service on a port of this machine, in a thread of the test process.


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
        with Client(url, settings.get("token"), patience=180) as client:
            client.models()  # waits until they are loaded
        yield url
