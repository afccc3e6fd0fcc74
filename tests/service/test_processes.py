"""``miv serve`` in its own processes: logs, and what a stop and a kill do."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from benchmarks.serve_load import Load, put_under_load
from benchmarks.serve_process import Service, serving
from benchmarks.serve_requests import RawClient, request_bytes

from miv import Gallery
from miv.errors import MIVError
from tests.cli.running import run_command
from tests.service.serving import vectors, vectors_folder


def exemplar(bag: Any, **more: Any) -> dict[str, Any]:
    return {"exemplars": [{"query": vectors(1, 7)[0].tolist(), "bag": bag}], **more}


def verify(bag: Any, **more: Any) -> bytes:
    return request_bytes("POST", "/v1/verify", exemplar(bag, **more))


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files of the service."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    return tmp_path / "tmp"


def test_a_service_logs_no_content_and_stops_cleanly(model: str, tmp_path: Path, temporary: Path) -> None:
    secret, token = "SECRET-CONTENT", "a-token-of-some-length"
    (tmp_path / "token").write_text(f"{token}\n")
    with serving(model, "--token-file", str(tmp_path / "token")) as service:
        headers = {"Authorization": f"Bearer {token}", "X-Secret": secret}
        with httpx.Client(base_url=service.url, headers=headers, timeout=60) as client:
            body = exemplar(vectors(5, 1).tolist())
            assert client.post("/v1/verify", json=body).status_code == 200
            client.get(f"/v1/samples/{secret}")
            client.post("/v1/verify", json={**body, "model": secret})
            client.post("/v1/verify", json=exemplar([{"image": secret, "name": secret}]))
            client.post(f"/{secret}?q={secret}", json={secret: secret})
            client.request(secret, "/v1/models")
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(60) == 0
        wait_for(lambda: '"stopped"' in service.log[-1])
    lines = [json.loads(line) for line in service.log]
    assert secret not in str(lines)
    assert token not in str(lines)
    requests = [line for line in lines if line["event"] == "request" and line["route"] == "/v1/verify"]
    assert [line["status"] for line in requests] == [200, 404, 422]
    assert requests[0].keys() >= {"time", "request", "method", "ms", "received", "sent", "model"}
    assert requests[0]["model"] == "vectors"
    assert list(temporary.iterdir()) == []
    listening, ready = (next(line for line in lines if line["event"] == event) for event in ("listening", "ready"))
    assert lines.index(listening) < lines.index(ready)
    assert (ready["address"], ready["models"]) == (service.url, [model])
    assert ready["seconds"] >= 0


def test_a_person_reads_one_line_when_it_is_ready_and_a_file_has_the_log(model: str, tmp_path: Path) -> None:
    for options in ([], ["--log", str(tmp_path / "log")]):
        command = [sys.executable, "-m", "miv", "serve", model, "--port", "0", *options]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            if options:
                wait_for(lambda: (tmp_path / "log").exists() and '"ready"' in (tmp_path / "log").read_text())
            else:
                assert process.stderr is not None
                line = process.stderr.readline()
                httpx.get(f"http://{line.split('http://')[1].split()[0]}/v1/none", timeout=60)
            process.send_signal(signal.SIGTERM)
            _, rest = process.communicate(timeout=60)
        assert (process.returncode, rest) == (0, "")
    assert line.startswith("Ready: ")
    assert [json.loads(one)["event"] for one in (tmp_path / "log").read_text().splitlines()][-1] == "stopped"


@pytest.mark.slow
def test_workers_end_when_their_supervisor_is_killed(model: str, temporary: Path) -> None:
    with serving(model, "--workers", "2") as service:
        assert [path.name.startswith("miv-metrics-") for path in temporary.iterdir()] == [True]  # in use
        assert "miv_requests_total" in httpx.get(f"{service.url}/metrics", timeout=60).text
        service.process.kill()
        service.process.wait(60)
        wait_for(lambda: not _listens(service.url) and not list(temporary.iterdir()))


def _listens(address: str) -> bool:
    try:
        httpx.get(f"{address}/healthz", timeout=10)
    except httpx.TransportError as error:
        return not isinstance(error, httpx.ConnectError)
    return True


def test_a_model_that_cannot_be_loaded_ends_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = vectors_folder(tmp_path)
    (folder / "model.safetensors").write_bytes(b"damaged")
    monkeypatch.setattr("miv.service.process.configure_logs", lambda file: None)  # those of this process stay
    with pytest.raises(MIVError, match=r"model\.safetensors"):
        run_command("serve", str(folder), "--port", "0")


def test_the_token_of_the_command_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MIV_TOKEN", raising=False)
    for words, *options in (
        ("--token-file", "--host", "0.0.0.0"),
        ("none", "--token-file", str(tmp_path / "none.txt")),
    ):
        with pytest.raises(MIVError, match=words):
            run_command("serve", "miv/digits", *options)
    monkeypatch.setenv("MIV_TOKEN", "short")
    with pytest.raises(MIVError, match="16"):
        run_command("serve", "miv/digits", "--host", "0.0.0.0")


@pytest.mark.slow
def test_sigterm_finishes_what_is_running(model: str) -> None:
    heavy = verify(vectors(60, 1).tolist(), witnesses="leave_one_out")
    answers: list[tuple[int, bytes]] = []
    with serving(model) as service:

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
def test_a_killed_worker_loses_nothing_that_was_stored_and_the_others_go_on(model: str, tmp_path: Path) -> None:
    with serving(model, "--galleries", str(tmp_path), "--workers", "2", "--threads", "1") as service:
        wait_for(lambda: len(service.workers()) == 2)
        with RawClient(service.host, service.port) as client:
            client.answered(request_bytes("POST", "/v1/galleries", {"name": "archive"}))
        stored: list[str] = []
        stop = threading.Event()
        storing = [threading.Thread(target=store_until, args=(service, stop, stored, seed)) for seed in range(3)]
        for thread in storing:
            thread.start()
        killed = service.workers()[0]
        found: list[Load] = []
        asking = threading.Thread(
            target=lambda: found.append(
                put_under_load(service, 6, 6, lambda *_: verify(vectors(5, 2).tolist()), reconnect=True)
            )
        )
        asking.start()
        time.sleep(1.5)
        os.kill(killed, signal.SIGKILL)
        asking.join()
        stop.set()
        for thread in storing:
            thread.join()
        assert not found[0].failed, found[0].problems
        assert found[0].answered > 5
        wait_for(lambda: len(service.workers()) == 2 and killed not in service.workers())
        assert len(stored) > 1
        with RawClient(service.host, service.port) as client:
            about = client.answered(request_bytes("GET", "/v1/galleries/archive"))
    assert set(about["names"]) >= set(stored)
    assert not Gallery.check(tmp_path / "archive").problems


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


def store_until(service: Service, stop: threading.Event, stored: list[str], seed: int) -> None:
    """Store bags; every one that the service answered for must be there later."""
    number = 0
    client = RawClient(service.host, service.port)
    while not stop.is_set():
        number += 1
        bag = {"bag": vectors(4, 10_000 * seed + number).tolist()}
        try:
            status, _, _ = client.send(request_bytes("PUT", f"/v1/galleries/archive/bags/{seed}-{number}", bag))
        except OSError:  # its worker was killed
            client = RawClient(service.host, service.port)
            continue
        if status == 200:
            stored.append(f"{seed}-{number}")
        time.sleep(0.02)
