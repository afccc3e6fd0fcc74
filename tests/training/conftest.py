"""Runs that several files read and none may change."""

from pathlib import Path

import pytest

from tests.training.tiny import run_tiny


@pytest.fixture(scope="session")
def images_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("reference") / "images"
    run_tiny("image", run)
    return run
