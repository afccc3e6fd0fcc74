"""What holds for every test, those in docstrings included."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

# Some virtual machines announce AMX and end a process that uses it, as products of bfloat16 do. torch reads this when
# it is imported, and processes that tests start inherit it.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

# A shell that starts the tests in the background lets them, and all that they start, ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says more of a machine's other work than of the code; benchmarks/ measure speed.
settings.register_profile("other_examples", deadline=None)
# The same examples in every run, so that a change is not blamed for the luck of a draw (CONTRIBUTING.md has the other).
settings.register_profile("miv", deadline=None, derandomize=True)
settings.load_profile("miv")


@pytest.fixture(autouse=True)
def _cache_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIV_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def _examples_write_elsewhere(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if isinstance(request.node, pytest.DoctestItem):
        monkeypatch.chdir(tmp_path)
