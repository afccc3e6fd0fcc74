"""The fuzzer in ``benchmarks/fuzz.py``, for a few hundred of its cases."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "fuzz.py"


@pytest.mark.slow
def test_damaged_files_end_in_one_kind_of_error_and_a_stopped_run_goes_on(tmp_path: Path) -> None:
    for cases in (150, 400):  # the second goes on after the first
        words = [sys.executable, str(SCRIPT), "--cases", str(cases), "--seed", "1", "--folder", str(tmp_path)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        result = json.loads(done.stdout.splitlines()[-1])
        assert (result["cases"], result["tracebacks"], result["timeouts"]) == (cases, 0, 0), done.stdout
        assert result["refused"] > cases // 4
        assert result["read"] > cases // 20
