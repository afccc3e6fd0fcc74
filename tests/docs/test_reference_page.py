"""The commands and the example of docs/reference.md, as a user runs them."""

import re
import shlex
from pathlib import Path

import pytest

from miv.reference import METHODS
from tests.cli.running import run_command as run

PAGE = (Path(__file__).parents[2] / "docs" / "reference.md").read_text("utf-8")


def test_the_commands_and_the_example_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MIV_CACHE_DIR", str(tmp_path / "cache"))
    commands = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)[0]
    for line in commands.splitlines():
        assert run(*shlex.split(line, comments=True)[1:])
    example = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)[0]
    exec(example, {})
    assert re.fullmatch(r"\w+ 0\.\d+\n", capsys.readouterr().out)


def test_the_page_has_every_method() -> None:
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == list(METHODS)
