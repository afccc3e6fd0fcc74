"""Time and peak memory of one piece of work in a process of its own."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_RESET = "5"  # sets the peak to what is resident now; see proc(5), clear_refs


def cost(work: Callable[[], object]) -> dict[str, float]:
    """Seconds, and megabytes at the peak above those resident before, of some work in this process.

    The peak is that of ``/proc/self/status``. The one of ``getrusage`` would not do: a process begins with the peak of
    its parent, so whatever stays below that counts as nothing.
    """
    Path("/proc/self/clear_refs").write_text(_RESET, encoding="ascii")
    before, since = _kilobytes("VmRSS"), (time.perf_counter(), time.process_time())
    work()
    seconds, processor = time.perf_counter() - since[0], time.process_time() - since[1]
    return {
        "seconds": round(seconds, 4),
        "processor_seconds": round(processor, 4),
        "megabytes": round((_kilobytes("VmHWM") - before) / 1024, 1),
    }


def in_new_process(script: str, *words: object) -> dict[str, Any]:
    """The JSON object in the last line that a script prints; its standard error stays visible."""
    command = [sys.executable, script, *map(str, words)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _kilobytes(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))
