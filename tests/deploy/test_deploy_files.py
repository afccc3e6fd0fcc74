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


def test_the_github_action_fails_if_a_sentence_is_not_backed(tmp_path: Path) -> None:
    """Its last step, run as GitHub does, with a stand-in for ``miv`` that prints its arguments."""
    yaml = pytest.importorskip("yaml")
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    *_, install, check = action["runs"]["steps"]
    assert "constraints.txt" in install["run"]
    inputs = {"answer": "my answer.md", "sources": "docs/*.md\none $(touch pwned).txt\n", "html": "page.html"}
    inputs = {name: str(entry.get("default", "")) for name, entry in action["inputs"].items()} | inputs
    (tmp_path / "docs").mkdir()
    for name in ("docs/a.md", "docs/b.md"):
        (tmp_path / name).write_text("A source.")
    fake = tmp_path / "miv"
    fake.write_text('#!/bin/sh\nfor one in "$@"; do echo "$one"; done\nexit $FAKE_CODE\n')
    fake.chmod(0o755)
    for code, options in ((0, "--threshold=0.5\n--citations=1\n"), (1, "")):
        given = inputs | {"options": options}
        variables = {name: given[re.findall(r"inputs\.([\w-]+)", value)[0]] for name, value in check["env"].items()}
        variables |= {"PATH": f"{tmp_path}:/usr/bin:/bin", "GITHUB_STEP_SUMMARY": "summary", "FAKE_CODE": str(code)}
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", check["run"]]
        done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
        arguments = ["check", "--fail-unsupported", "--model=miv/judge", "--html=page.html", *options.split(), "--"]
        arguments += ["my answer.md", "docs/a.md", "docs/b.md", "one $(touch pwned).txt"]
        assert (done.returncode, done.stdout.splitlines()) == (code, arguments)
    assert not (tmp_path / "pwned").exists()
    assert "my answer.md" in (tmp_path / "summary").read_text()
