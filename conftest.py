"""What holds for every test, those in docstrings and in the README included."""

from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes says more of a machine's other work than of the code; benchmarks/ measure speed.
settings.register_profile("miv", deadline=None)
settings.load_profile("miv")


@pytest.fixture(autouse=True)
def _examples_write_elsewhere(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if isinstance(request.node, pytest.DoctestItem):
        monkeypatch.chdir(tmp_path)
