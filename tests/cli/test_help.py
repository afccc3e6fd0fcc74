"""What a newcomer sees of the command line."""

import re
import sys
from typing import Any

import pytest
import typer

from miv.cli.app import app
from miv.cli.help import HEADINGS, USUAL
from tests.fence.interface import run_miv


def test_every_command_stands_under_a_heading() -> None:
    listed = [name for names in HEADINGS.values() for name in names]
    group: Any = typer.main.get_command(app)
    assert set(group.commands) <= set(listed)
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize("path", ["train", "data from-folder", "data build qmnist"])
def test_help_shows_the_usual_options_and_help_all_every_one(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["miv"])
    code, short, _ = run_miv(*path.split(), "--help")
    assert code == 0
    assert "more options: --help-all" in short
    assert 5 < len(_options(short)) <= 15
    code, long, _ = run_miv(*path.split(), "--help-all")
    assert code == 0
    assert _options(long) > _options(short)


def _options(text: str) -> set[str]:
    return {match.group(1) for match in re.finditer(r"^│ [ *]*--([\w-]+)", text, re.M)}


def test_the_usual_options_exist() -> None:
    group: Any = typer.main.get_command(app)
    for path, names in USUAL.items():
        if " " not in path:
            known = {option.name for option in group.commands[path].params}
            assert set(names) <= known, path
