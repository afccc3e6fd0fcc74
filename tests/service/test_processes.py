"""``miv serve`` in its own processes: logs, workers that die, and stopping."""

import json
import signal
import time
from pathlib import Path

import httpx
import pytest

from miv.errors import MIVError
from tests.cli.running import run_command
from tests.service.serving import serving, vector_exemplars, vectors_folder


def test_a_service_logs_no_content_and_stops_cleanly(tmp_path: Path) -> None:
    secret, token = "SECRET-CONTENT", "a-token-of-some-length"
    folder = vectors_folder(tmp_path)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    (tmp_path / "token").write_text(f"{token}\n")
    options = ("--token-file", str(tmp_path / "token"))
    with serving(tmp_path, str(folder), *options, TMPDIR=str(temporary)) as served:
        headers = {"Authorization": f"Bearer {token}", "X-Secret": secret}
        with httpx.Client(base_url=served.address, headers=headers, timeout=60) as client:
            body = {"exemplars": vector_exemplars(1)}
            assert client.post("/v1/verify", json=body).status_code == 200
            client.get(f"/v1/samples/{secret}")
            client.post("/v1/verify", json={**body, "model": secret})
            client.post("/v1/verify", files={"query": (f"{secret}.png", secret), "bag": ("b", b"x")})
            client.post(f"/{secret}?q={secret}", json={secret: secret})
            client.request(secret, "/v1/models")
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(60) == 0
        lines = [json.loads(line) for line in served.lines.splitlines()]
    assert secret not in served.lines
    assert token not in served.lines
    requests = [line for line in lines if line["event"] == "request" and line["route"] == "/v1/verify"]
    assert [line["status"] for line in requests] == [200, 404, 422]
    assert requests[0].keys() >= {"time", "request", "method", "ms", "received", "sent", "model"}
    assert requests[0]["model"] == "vectors"
    assert list(temporary.iterdir()) == []
    listening, ready = (next(line for line in lines if line["event"] == event) for event in ("listening", "ready"))
    assert lines.index(listening) < lines.index(ready)
    assert (ready["address"], ready["models"]) == (served.address, [str(folder)])
    assert ready["seconds"] > 0


@pytest.mark.slow
def test_workers_end_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    with serving(tmp_path, str(vectors_folder(tmp_path)), "--workers", "2", TMPDIR=str(temporary)) as served:
        assert [path.name.startswith("miv-metrics-") for path in temporary.iterdir()] == [True]  # in use
        assert "miv_requests_total" in httpx.get(f"{served.address}/metrics", timeout=60).text
        served.process.kill()
        served.process.wait(60)
        until = time.monotonic() + 60
        while _listens(served.address) or list(temporary.iterdir()):
            assert time.monotonic() < until
            time.sleep(0.2)


def _listens(address: str) -> bool:
    try:
        httpx.get(f"{address}/healthz", timeout=10)
    except httpx.TransportError as error:
        return not isinstance(error, httpx.ConnectError)
    return True


def test_a_model_that_cannot_be_loaded_ends_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = vectors_folder(tmp_path)
    (folder / "model.safetensors").write_bytes(b"damaged")
    monkeypatch.setattr("miv.service.process.configure_logs", lambda: None)  # those of this process stay
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
