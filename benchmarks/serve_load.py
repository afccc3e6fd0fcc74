"""Many clients at once: for ``serve.py`` and for tests."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.serve_process import Service
from benchmarks.serve_requests import RawClient


@dataclass
class Load:
    """What clients saw.

    Args:
        answered: requests with an answer of 2xx.
        refused: answers of 503 with Retry-After, which the clients honoured.
        failed: everything else, such as lost connections.
        problems: the first failures in words.
        seconds: of each answered request.
    """

    answered: int = 0
    refused: int = 0
    failed: int = 0
    problems: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


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
            start = time.perf_counter()
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
                load.seconds.append(time.perf_counter() - start)
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
