"""The container file and the systemd unit: what can be tested without an engine and without root."""

import json
import re
import shutil
import subprocess
import urllib.request
from pathlib import Path

import pytest
from benchmarks.serve_process import serving
from benchmarks.serve_requests import RawClient, request_bytes
from typer.testing import CliRunner

from miv.cli.app import app
from tests.cli.packing import ROOT

CONTAINERFILE = (ROOT / "deploy" / "Containerfile").read_text()
UNIT = (ROOT / "deploy" / "miv.service").read_text()
systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


def instructions(name: str) -> list[str]:
    joined = CONTAINERFILE.replace("\\\n", " ")
    return [line.partition(" ")[2] for line in joined.splitlines() if line.startswith(f"{name} ")]


def options(text: str) -> set[str]:
    return set(re.findall(r"(?<!\S)--[a-z-]+", text.replace('"', " ").replace(",", " ")))


def known_options() -> set[str]:
    import typer

    command = typer.main.get_command(app)
    serve = command.get_command(None, "serve")  # type: ignore[attr-defined]
    return {name for one in serve.params for name in one.opts}


def test_the_container_starts_the_service_with_options_that_exist() -> None:
    entry = json.loads(instructions("ENTRYPOINT")[0])
    assert entry[:2] == ["miv", "serve"]
    assert options(" ".join(entry)) <= known_options()
    assert {"--keep", "--galleries", "--host"} <= options(" ".join(entry))
    assert CliRunner().invoke(app, ["serve", "--help"]).exit_code == 0


def test_the_container_is_slim_and_not_root_and_says_whether_it_is_healthy() -> None:
    assert {line.split()[0] for line in instructions("FROM")} == {"python:3.11-slim"}
    assert instructions("USER") == ["miv"]
    assert CONTAINERFILE.index("\nUSER miv") < CONTAINERFILE.index("\nENTRYPOINT")
    assert "/readyz" in instructions("HEALTHCHECK")[0]
    assert "train" not in " ".join(instructions("ARG"))
    assert all("--constraint constraints.txt" in line for line in instructions("RUN") if "pip install" in line)


def test_everything_that_the_container_copies_exists() -> None:
    for line in instructions("COPY"):
        if not line.startswith("--from"):
            *sources, _ = line.split()
            assert all((ROOT / one).exists() for one in sources)


def test_the_unit_starts_the_service_with_options_that_exist() -> None:
    [line] = re.findall(r"^ExecStart=(.*)$", UNIT.replace("\\\n", " "), re.MULTILINE)
    assert line.startswith("/opt/miv/bin/miv serve ")
    assert options(line) <= known_options()


@systemd
def test_systemd_takes_the_unit_and_finds_it_hardened(tmp_path: Path) -> None:
    unit = tmp_path / "miv.service"
    unit.write_text(UNIT.replace("/opt/miv/bin/miv", shutil.which("true") or "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    if "--offline" not in subprocess.run(["systemd-analyze", "--help"], capture_output=True, text=True).stdout:
        pytest.skip("This version of systemd-analyze cannot judge a file.")
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=20", str(unit)]  # 2.0 of 10
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-500:]


@pytest.mark.slow
def test_the_health_check_of_the_container_follows_the_service(tmp_path: Path) -> None:
    check = json.loads(instructions("HEALTHCHECK")[0].partition("CMD ")[2])
    assert check[:2] == ["python", "-c"]
    with serving("miv/digits", "--keep", str(tmp_path)) as service:
        code = check[2].replace(":8000", f":{service.port}")
        exec(code, {})
        with RawClient(service.host, service.port) as client:
            assert client.send(request_bytes("GET", "/readyz"))[0] == 200
    with pytest.raises(urllib.request.URLError):  # type: ignore[attr-defined]
        exec(code, {})
