"""A service in processes of its own, and clients that cost little: for ``serve.py`` and for tests."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


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
        [python, "-m", "miv", "serve", *arguments, "--port", "0"],
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


def request_bytes(method: str, path: str, body: Any = None) -> bytes:
    """A whole HTTP request, so that a client only has to send it."""
    content = b"" if body is None else json.dumps(body).encode()
    kind = "Content-Type: application/json\r\n" if body is not None else ""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{kind}Content-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


class RawClient:
    """One connection that stays open. ``send`` returns status, headers and body."""

    def __init__(self, host: str, port: int, timeout: float = 60) -> None:
        self._socket = socket.create_connection((host, port), timeout=timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._left = b""

    def __enter__(self) -> "RawClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, request: bytes) -> tuple[int, bytes, bytes]:
        self._socket.sendall(request)
        data = self._left
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._more()
        head = data[:end].lower()
        status = int(head[9:12])
        place = head.find(b"content-length:")
        length = int(head[place + 15 :].split(b"\r\n", 1)[0]) if place >= 0 else 0
        while len(data) < end + 4 + length:
            data += self._more()
        self._left = data[end + 4 + length :]
        return status, head, data[end + 4 : end + 4 + length]

    def answered(self, request: bytes) -> Any:
        """The JSON of the answer; a worker that is still loading its models, or is busy, is asked again."""
        for _ in range(300):
            status, _, body = self.send(request)
            if status != 503:
                break
            time.sleep(0.2)
        assert 200 <= status < 300, body
        return json.loads(body)

    def _more(self) -> bytes:
        got = self._socket.recv(1 << 16)
        if not got:
            raise ConnectionResetError("The service closed the connection.")
        return got


@dataclass
class Load:
    """What clients saw.

    Args:
        answered: requests with an answer of 2xx.
        refused: answers of 503 with Retry-After, which the clients honoured.
        failed: everything else, such as lost connections.
        problems: the first failures in words.
    """

    answered: int = 0
    refused: int = 0
    failed: int = 0
    problems: list[str] = field(default_factory=list)


def put_under_load(
    service: Service,
    clients: int,
    seconds: float,
    requests: Callable[[int, int], bytes],
    each_second: Callable[[float], None] | None = None,
    reconnect: bool = False,
) -> Load:
    """Let clients send requests one after the other, each on a connection of its own.

    Args:
        service: the service.
        clients: number of clients, each in a thread.
        seconds: for so long.
        requests: given the numbers of client and request, the request to send.
        each_second: called with the seconds since the start.
        reconnect: whether a lost connection is opened again instead of counted as failed, as when a worker is killed.
    """
    load, lock, until = Load(), threading.Lock(), time.monotonic() + seconds

    def count(what: str, problem: str = "") -> None:
        with lock:
            setattr(load, what, getattr(load, what) + 1)
            if problem and len(load.problems) < 5:
                load.problems.append(problem)

    def work(number: int) -> None:
        client, sent = RawClient(service.host, service.port), 0
        while time.monotonic() < until:
            try:
                status, head, body = client.send(requests(number, sent))
            except OSError as error:
                if not reconnect:
                    count("failed", repr(error))
                client = RawClient(service.host, service.port)
                continue
            sent += 1
            if status == 503 and b"retry-after:" in head:
                count("refused")
                time.sleep(min(1.0, max(0.0, until - time.monotonic())))
            elif 200 <= status < 300:
                count("answered")
            else:
                count("failed", f"{status} {body[:200]!r}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for second in range(1, int(seconds) + 1):
        time.sleep(max(0.0, start + second - time.monotonic()))
        if each_second is not None:
            each_second(time.monotonic() - start)
    for thread in threads:
        thread.join()
    return load


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
