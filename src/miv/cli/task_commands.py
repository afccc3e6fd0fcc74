"""The tasks as commands of ``miv data build``: each option of a task becomes a flag with its help."""

import inspect
from dataclasses import asdict
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import typer
from typer.core import TyperGroup

from miv.cli.app import JsonOption, print_json


class TaskGroup(TyperGroup):
    """A group whose commands are the registered tasks, looked up when they are asked for.

    So ``miv --help`` waits for none of the libraries that tasks need.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all tasks."""
        from miv.tasks import list_tasks

        return list_tasks()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of a task; an unknown name is refused with the nearest one."""
        from miv.tasks import task_help

        alone = typer.Typer(add_completion=False)
        alone.command(cmd_name, help=task_help(cmd_name))(_command(cmd_name))
        return typer.main.get_command(alone)


def _command(name: str) -> Any:
    """Write the function that Typer reads the flags of a task from."""
    from miv.tasks import task_options

    def build(out: Path, overwrite: bool, json: bool, **options: Any) -> None:
        _build(name, options, out, overwrite=overwrite, json=json)

    out_help = "Folder for the splits; it must be new, or see --overwrite."
    parameters = {
        "out": (Annotated[Path, typer.Option("--out", help=out_help, show_default=False)], ...),
        "overwrite": (
            Annotated[bool, typer.Option("--overwrite", help="Replace an older set there.")],
            False,
        ),
        "json": (JsonOption, False),
    }
    for option in task_options(name):
        choices = f" One of: {', '.join(option.choices)}." if option.choices else ""
        flag = typer.Option(
            help=option.help[:1].upper() + option.help[1:] + choices, show_default=option.default is not None
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
    """The type that Typer reads a flag with; ``create_task`` checks the words of a ``Literal``."""
    parts = [part for part in get_args(given) if part is not type(None)]
    if get_origin(given) in (Union, UnionType):
        return _flag_type(parts[0]) | None if len(parts) == 1 else str | None
    if given in (str, int, float, bool, Path):
        return given
    return str


def _build(name: str, options: dict[str, Any], out: Path, *, overwrite: bool, json: bool) -> None:
    from miv.exemplars import SPLITS, save_splits
    from miv.exemplars.folder import refuse_to_destroy
    from miv.progress import RichProgress
    from miv.tasks import create_task

    task = create_task(name, **options)
    refuse_to_destroy(out, overwrite=overwrite, splits=SPLITS)  # before the work, not after it
    sets = task.build(RichProgress())
    chosen = {key: str(value) if isinstance(value, Path) else value for key, value in asdict(task).items()}  # type: ignore[call-overload]
    save_splits(sets, out, builder=name, options=chosen, seed=task.seed, overwrite=overwrite)
    if json:
        counts = {
            split: {"exemplars": len(exemplars), "instances": len(exemplars.pool)} for split, exemplars in sets.items()
        }
        print_json({"folder": str(out), "task": name, "options": chosen, "sets": counts})
        return
    for split, exemplars in sets.items():
        sizes = f"{len(exemplars):>9,} exemplars  {len(exemplars.pool):>9,} instances"
        print(f"{split:<10}  {sizes}  mean bag {exemplars.bag_sizes.mean():.1f}")
    print(f"Wrote {out}. Look at it with: miv data inspect {out} --sheet sheet.html")
