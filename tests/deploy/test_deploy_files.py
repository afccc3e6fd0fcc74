"""The container file and the systemd unit: what can be tested without an engine and without root."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

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


def test_the_container_and_the_unit_start_the_service_with_options_that_exist() -> None:
    entry = json.loads(instructions("ENTRYPOINT")[0])
    assert entry[:2] == ["miv", "serve"]
    assert instructions("USER") == ["miv"]  # not root
    [line] = re.findall(r"^ExecStart=/opt/miv/bin/miv serve (.*)$", UNIT.replace("\\\n", " "), re.MULTILINE)
    assert options(" ".join(entry)) | options(line) <= known_options()
    sources = [source for copied in instructions("COPY") if "--from" not in copied for source in copied.split()[:-1]]
    assert [source for source in sources if not (ROOT / source).exists()] == []


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
