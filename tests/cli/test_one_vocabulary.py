"""The names of options are the same on the command line, in a file of settings and in Python."""

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
from typer.main import get_command

import miv
from miv.cli.app import app
from miv.training.config import TrainingConfig

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
