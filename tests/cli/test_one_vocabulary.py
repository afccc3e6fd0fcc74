"""The names of options are the same on the command line, in a file of settings and in Python."""

import inspect
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import miv
from miv.cli.app import app
from miv.training.config import TrainingConfig, read_settings

SETTINGS = {one.name for one in fields(TrainingConfig)}
OF_COMMANDS = {"json", "out", "overwrite", "help"}  # what is printed and written, which a function returns


def flags(*command: str) -> set[str]:
    """The first spelling of every option, as a name of Python."""
    found: Any = get_command(app)
    for word in command:
        found = found.commands[word]
    spelt = [[name for name in one.opts if name.startswith("--")] for one in found.params]
    return {names[0][2:].replace("-", "_") for names in spelt if names}


def arguments(function: Callable[..., Any]) -> set[str]:
    return {one.name for one in inspect.signature(function).parameters.values() if one.kind is one.KEYWORD_ONLY}


@pytest.mark.parametrize(
    ("command", "function", "only_flags", "only_arguments"),
    [
        # raw is one of the task's options; a command has nothing to hold out, and is never silent.
        (["train"], miv.train, {"raw", "task_option"}, {"task_options", "validation_fraction", "verbose"}),
        (["evaluate"], miv.evaluate, set(), {"verbose"}),
    ],
)
def test_flags_are_arguments(
    command: list[str], function: Callable[..., Any], only_flags: set[str], only_arguments: set[str]
) -> None:
    as_flags = flags(*command) - SETTINGS - OF_COMMANDS if command == ["train"] else flags(*command) - OF_COMMANDS
    assert as_flags - only_flags == arguments(function) - only_arguments - OF_COMMANDS
    assert flags("train") >= SETTINGS


def test_a_file_takes_the_spelling_of_flags(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text('max-epochs = 5\nlearning-rates = "0:1e-4,5:5e-5"\npooling_options = "norm=post"\nheads = 2\n')
    settled = TrainingConfig().changed(read_settings(path))
    assert (settled.max_epochs, settled.heads) == (5, 2)
    assert settled.learning_rates == ((0, 1e-4), (5, 5e-5))
    assert settled.pooling_options == {"norm": "post"}
