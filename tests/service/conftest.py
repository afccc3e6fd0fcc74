"""Tests that are coroutines run in the event loop of the service."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
