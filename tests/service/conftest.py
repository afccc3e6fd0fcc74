"""A model for all tests of the service. Tests that are coroutines run in the event loop of the service."""

import pytest

from miv import Verifier


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A verifier of vectors of 4 numbers, named ``vectors``."""
    folder = tmp_path_factory.mktemp("models") / "vectors"
    Verifier("cap_vema", channels=4).save_pretrained(folder)
    return str(folder)
