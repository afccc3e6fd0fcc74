"""The share of the cores of each of several processes."""

import pytest

from miv import runtime


@pytest.mark.parametrize(
    ("allowed", "processes", "threads"),
    [("", 2, 4), ("3", 2, 3), ("6", 2, 4), ("1", 1, 1), ("0", 2, 4), ("2,1", 2, 4), ("", 20, 1)],
)
def test_no_process_has_more_threads_than_are_allowed(
    allowed: str, processes: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "available_cores", lambda: 8)
    monkeypatch.setenv("OMP_NUM_THREADS", allowed)
    assert runtime.threads_of_each(processes) == threads
