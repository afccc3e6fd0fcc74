"""Which workers the supervisor replaces, with processes that only pretend."""

from typing import Any

import pytest
import uvicorn
from uvicorn.supervisors import multiprocess

from miv.service import process


class FakeWorker:
    """A worker that answers its supervisor when the test says so; it is its own process and pipe."""

    made: "list[FakeWorker]"

    def __init__(self, *_: Any) -> None:
        self.made.append(self)
        self.pid = len(self.made)
        self.runs = self.answers = True
        self.has_started = False
        self.process = self.parent_conn = self
        self.exitcode: int | None = None
        self._owed = 0

    def send(self, _: bytes) -> None:
        self._owed += 1

    def poll(self, _: float) -> bool:
        return self.answers and self._owed > 0

    def recv(self) -> bool:
        self._owed -= 1
        return self.has_started

    def is_alive(self, timeout: float | None = None) -> bool:
        """Whether the process runs; with a timeout, as uvicorn asks, whether it also answers."""
        return self.runs and (timeout is None or self.answers)

    def kill(self) -> None:
        self.runs = False

    def start(self) -> None: ...

    def join(self) -> None: ...


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(multiprocess, "Process", FakeWorker)
    monkeypatch.setattr(multiprocess, "SIGNALS", {})
    monkeypatch.setattr(process, "mark_process_dead", lambda _: None)
    monkeypatch.setattr(FakeWorker, "made", [], raising=False)
    found = process._Supervisor(uvicorn.Config("no:app", workers=2, log_config=None), [])
    found.init_processes()
    return found


def pids(supervisor: Any) -> list[int]:
    return sorted(worker.pid for worker in supervisor.processes)


def test_workers_that_start_slowly_are_not_killed(supervisor: Any) -> None:
    slow, loading = FakeWorker.made
    slow.answers = False  # it imports its libraries
    for _ in range(100):
        supervisor.keep_subprocess_alive()
    assert pids(supervisor) == [1, 2]
    assert slow._owed == 1  # answers that wait in the pipe would hide later that it hangs
    slow.answers = slow.has_started = loading.has_started = True
    for _ in range(3):
        supervisor.keep_subprocess_alive()
    assert pids(supervisor) == [1, 2]


def test_a_started_worker_that_hangs_is_replaced(supervisor: Any) -> None:
    hanging, other = FakeWorker.made
    hanging.has_started = other.has_started = True
    supervisor.keep_subprocess_alive()
    hanging.answers = False
    supervisor.keep_subprocess_alive()
    assert pids(supervisor) == [2, 3]
    assert not hanging.runs
    supervisor.keep_subprocess_alive()  # its successor starts
    assert pids(supervisor) == [2, 3]


def test_a_worker_that_dies_while_it_starts_is_replaced(supervisor: Any) -> None:
    FakeWorker.made[0].runs = False
    supervisor.keep_subprocess_alive()
    assert pids(supervisor) == [2, 3]
