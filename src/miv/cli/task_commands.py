"""Tasks as commands of ``miv data build``: one flag per task option, with its help."""

import inspect
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import typer
from typer.core import TyperGroup

from miv.cli.app import JsonOption
from miv.cli.set_building import build_and_save
from miv.runtime import as_sentence


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
        from miv.tasks import task_help

        alone = typer.Typer(add_completion=False)
        alone.command(cmd_name, help=task_help(cmd_name))(_command(cmd_name))
        return typer.main.get_command(alone)


def _command(name: str) -> Any:
    """Create the function from which Typer reads the flags of a task."""
    from miv.tasks import create_task, task_options

    def build(out: Path, overwrite: bool, json: bool, **options: Any) -> None:
        build_and_save(name, create_task(name, **options), out, overwrite=overwrite, json=json)

    out_help = "Output folder for the splits; must be new unless --overwrite is given."
    parameters = {
        "out": (Annotated[Path, typer.Option("--out", help=out_help, show_default=False)], ...),
        "overwrite": (
            Annotated[bool, typer.Option("--overwrite", help="Overwrite existing sets.")],
            False,
        ),
        "json": (JsonOption, False),
    }
    for option in task_options(name):
        choices = f" One of: {', '.join(option.choices)}." if option.choices else ""
        flag = typer.Option(
            help=as_sentence(option.help, option.choices or ()) + choices, show_default=option.default is not None
        )
        parameters[option.name] = (Annotated[_flag_type(option.type), flag], option.default)
    build.__annotations__ = {key: annotation for key, (annotation, _) in parameters.items()}
    build.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                key,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=annotation,
                default=inspect.Parameter.empty if default is ... else default,
            )
            for key, (annotation, default) in parameters.items()
        ]
    )
    return build


def _flag_type(given: Any) -> Any:
    """The type Typer uses to parse a flag; ``create_task`` checks ``Literal`` values."""
    parts = [part for part in get_args(given) if part is not type(None)]
    if get_origin(given) in (Union, UnionType):
        return _flag_type(parts[0]) | None if len(parts) == 1 else str | None
    if given in (str, int, float, bool, Path):
        return given
    return str
