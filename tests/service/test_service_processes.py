"""The service in processes of its own: what a stop, a kill and too many requests do."""

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.serve_load import Load, put_under_load
from benchmarks.serve_process import Service, serving
from benchmarks.serve_requests import RawClient, request_bytes

from miv import Verifier

CHANNELS = 16


def vectors(count: int, seed: int) -> Any:
    return np.random.default_rng(seed).normal(size=(count, CHANNELS)).round(3).tolist()


def verify(bag: Any, **more: Any) -> bytes:
    return request_bytes("POST", "/v1/verify", {"exemplars": [{"query": vectors(1, 7)[0], "bag": bag}], **more})


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("models") / "vectors"
    Verifier("cap_vema", channels=CHANNELS).save_pretrained(folder)
    return str(folder)


@pytest.mark.slow
def test_sigterm_finishes_what_is_running(model: str, tmp_path: Path) -> None:
    heavy = verify(vectors(60, 1), witnesses="shapley")
    answers: list[tuple[int, bytes]] = []
    with serving(model, "--keep", str(tmp_path)) as service:

        def ask() -> None:
            with RawClient(service.host, service.port) as client:
                status, _, body = client.send(heavy)
                answers.append((status, body))

        for _ in range(20):  # on a busy machine, all may be answered before the question whether any waits
            answers.clear()
            threads = [threading.Thread(target=ask) for _ in range(4)]
            for thread in threads:
                thread.start()
            wait_for(lambda: any_waiting(service) or len(answers) == 4)
            if not answers:
                break
            for thread in threads:
                thread.join(60)
        assert not answers  # otherwise this shows nothing
        service.process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join(60)
        service.process.wait(60)
    assert [status for status, _ in answers] == [200] * 4
    assert all(json.loads(body)["verdicts"][0]["size"] == 60 for _, body in answers)
    with pytest.raises(OSError, match="refused"):
        RawClient(service.host, service.port)


@pytest.mark.slow
def test_a_killed_worker_loses_nothing_that_was_kept_and_the_others_go_on(model: str, tmp_path: Path) -> None:
    with serving(model, "--keep", str(tmp_path), "--workers", "2", "--threads", "1") as service:
        wait_for(lambda: len(service.workers()) == 2)
        kept: list[str] = []
        stop = threading.Event()
        keeping = [threading.Thread(target=keep_until, args=(service, stop, kept, seed)) for seed in range(3)]
        for thread in keeping:
            thread.start()
        killed = service.workers()[0]
        found: list[Load] = []
        asking = threading.Thread(
            target=lambda: found.append(put_under_load(service, 6, 6, lambda *_: verify(vectors(5, 2)), reconnect=True))
        )
        asking.start()
        time.sleep(1.5)
        os.kill(killed, signal.SIGKILL)
        asking.join()
        stop.set()
        for thread in keeping:
            thread.join()
        assert not found[0].failed, found[0].problems
        assert found[0].answered > 5
        wait_for(lambda: len(service.workers()) == 2 and killed not in service.workers())
        assert len(kept) > 1
        with RawClient(service.host, service.port) as client:
            for name in kept:
                client.answered(request_bytes("GET", f"/v1/bags/{name}"))
            client.answered(verify({"kept": kept[-1]}))
        assert not list(tmp_path.glob(".*.part"))
    with serving(model, "--keep", str(tmp_path)) as again, RawClient(again.host, again.port) as client:
        assert client.send(verify({"kept": kept[0]}))[0] == 200


@pytest.mark.slow
def test_overload_is_refused_with_retry_after_instead_of_growth(model: str, tmp_path: Path) -> None:
    heavy = verify(vectors(40, 1), witnesses="shapley")
    memory: list[int] = []
    arguments = (model, "--keep", str(tmp_path), "--threads", "1", "--max-waiting", "3")
    with serving(*arguments) as service:
        load = put_under_load(service, 16, 6, lambda *_: heavy, lambda _: memory.append(service.memory()))
        assert not load.failed, load.problems
        assert load.refused > 1
        assert load.answered > 1
        assert memory[-1] < 1.3 * memory[1]
        with RawClient(service.host, service.port) as client:  # it recovers
            assert client.send(verify(vectors(5, 2)))[0] == 200


@pytest.mark.slow
def test_a_short_load_has_no_failed_request(tmp_path: Path) -> None:
    from benchmarks.serve import load

    found = load(9, tmp_path)
    assert found["failed_requests"] == 0, found
    assert found["answered_requests"] > 20
    assert found["memory_growth"] < 0.3  # a short run has hardly warmed up; benchmarks/serve.py measures it


def wait_for(condition: Any, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def any_waiting(service: Service) -> bool:
    """Whether requests wait behind one that runs."""
    with RawClient(service.host, service.port) as client:
        text = client.send(request_bytes("GET", "/metrics"))[2].decode()
    lines = [line for line in text.splitlines() if line.startswith("miv_waiting_requests")]
    return any(float(line.rpartition(" ")[2]) >= 1 for line in lines)


def keep_until(service: Service, stop: threading.Event, kept: list[str], seed: int) -> None:
    """Keep bags; every id that the service answered with must be there later."""
    number = 0
    client = RawClient(service.host, service.port)
    while not stop.is_set():
        number += 1
        bag = {"bag": vectors(4, 10_000 * seed + number)}
        try:
            status, _, body = client.send(request_bytes("POST", "/v1/bags", bag))
        except OSError:  # its worker was killed
            client = RawClient(service.host, service.port)
            continue
        if status == 201:
            kept.append(json.loads(body)["id"])
        time.sleep(0.02)
