"""A service inside the test process."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fastapi.testclient import TestClient

from miv.service import ServiceSettings, create_app


@contextmanager
def ready_client(*models: str, **settings: Any) -> Iterator[TestClient]:
    """A client of a service whose models are loaded."""
    app = create_app(ServiceSettings(models, **settings))
    with TestClient(app, base_url="http://localhost") as client:
        wait_until_ready(client)
        yield client


def wait_until_ready(client: Any, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while client.get("/readyz").status_code != 200:
        assert time.monotonic() < until, "The models were not loaded in time."
        time.sleep(0.02)
