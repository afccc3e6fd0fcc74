"""Tasks as commands of ``miv data build``: one flag per task option, with its help."""

from dataclasses import replace
from functools import partial
from typing import Any

from typer.core import TyperGroup

from miv.cli.set_building import building_command
from miv.runtime import Option, as_sentence


class TaskGroup(TyperGroup):
    """A group with one command per registered task, loaded on demand.

    This keeps ``miv --help`` from importing the libraries that tasks need.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all tasks."""
        from miv.tasks import list_tasks

        return list_tasks()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of a task; the error for an unknown name suggests the nearest one."""
        from miv.tasks import create_task, task_help, task_options

        options = [_stated(option) for option in task_options(cmd_name)]
        return building_command(cmd_name, task_help(cmd_name), options, partial(create_task, cmd_name))


def _stated(option: Option) -> Option:
    """The option with its choices in its help, because ``create_task`` checks them and suggests the nearest."""
    if not option.choices:
        return option
    help_text = f"{as_sentence(option.help, option.choices)} One of: {', '.join(option.choices)}."
    return replace(option, type=str, help=help_text)
