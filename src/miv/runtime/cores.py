"""Number of available cores, and their share for each of several processes."""

import os


def available_cores() -> int:
    """Number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads_of_each(processes: int) -> int:
    """Threads of one of several processes: its share of the cores, and no more than ``OMP_NUM_THREADS`` allows."""
    share = max(1, available_cores() // processes)
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    return min(share, int(allowed)) if allowed.isdecimal() and int(allowed) else share
