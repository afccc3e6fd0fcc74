"""A service in processes of its own, with what it costs: for ``serve.py`` and for tests."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.serve_requests import RawClient, request_bytes


@dataclass
class Service:
    """A running ``miv serve``.

    Args:
        process: the process that was started; with several workers, their supervisor.
        host: address.
        port: port.
        ready_s: seconds from the start of the process to the first answer of /readyz with 200.
        log: lines of its log.
    """

    process: "subprocess.Popen[str]"
    host: str
    port: int
    ready_s: float = 0.0
    log: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def workers(self) -> list[int]:
        """Process ids of the workers: those that load models, or the process itself."""
        found = [pid for pid in _children(self.process.pid) if "resource_tracker" not in _command(pid)]
        return found or [self.process.pid]

    def memory(self) -> int:
        """Resident bytes of the process and all its workers."""
        pids = {self.process.pid, *self.workers()}
        return sum(_resident(pid) for pid in pids)


@contextmanager
def serving(*arguments: str, python: str = sys.executable) -> Iterator[Service]:
    """Run ``miv serve`` with these arguments on a free port, until it is ready; it gets SIGTERM at the end."""
    start = time.monotonic()
    process = subprocess.Popen(
        [python, "-m", "miv", "serve", *arguments, "--port", "0", "--log", "-"],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    log: list[str] = []
    service = None
    try:
        for line in process.stderr:
            log.append(line)
            if '"listening"' in line:
                address = json.loads(line)["address"].removeprefix("http://")
                host, _, port = address.rpartition(":")
                service = Service(process, host, int(port), log=log)
                break
        assert service is not None, "".join(log)
        reader = threading.Thread(target=lambda: log.extend(process.stderr or ()), daemon=True)
        reader.start()
        while True:
            assert process.poll() is None, "".join(log)
            assert time.monotonic() - start < 300, "".join(log)
            with suppress(OSError), RawClient(service.host, service.port) as client:
                if client.send(request_bytes("GET", "/readyz"))[0] == 200:
                    break
            time.sleep(0.02)
        service.ready_s = time.monotonic() - start
        yield service
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(40)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def processor_seconds(pid: int) -> float:
    """Processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # it ended
        return 0


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return "resource_tracker"


def _children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return sorted(found)
