"""Commands that build sets, save them as splits and describe them: from your own files, and from tasks."""

import dataclasses
import inspect
from collections.abc import Callable, Iterable
from functools import partial
from json import dumps, loads
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import typer
from typer.core import TyperGroup

from miv.cli.app import JsonOption, print_json, say
from miv.cli.help import shortened
from miv.registry import Option, as_sentence

if TYPE_CHECKING:  # imported only when needed, to keep `miv --help` fast
    from miv.data import ExemplarSet


def building_command(name: str, help_text: str, options: Iterable[Option], make: Callable[..., Any]) -> Any:
    """A command with one flag per option, and an argument for one without a default, that builds and saves sets."""

    def build(out: Path, overwrite: bool, json: bool, **given: Any) -> None:
        _build_and_save(name, make(**given), out, overwrite=overwrite, json=json)

    out_help = "Output folder for the splits; must be new unless --overwrite is given."
    flags = [_parameter(option) for option in options]
    flags += [
        keyword("out", Annotated[Path, typer.Option("--out", "-o", help=out_help, show_default=False)]),
        keyword("overwrite", Annotated[bool, typer.Option("--overwrite", help="Overwrite existing sets.")], False),
        keyword("json", JsonOption, False),
    ]
    build.__annotations__ = {flag.name: flag.annotation for flag in flags}
    build.__signature__ = inspect.Signature(flags)  # type: ignore[attr-defined]
    alone = typer.Typer(add_completion=False)
    alone.command(name, help=inspect.cleandoc(help_text))(build)
    return typer.main.get_command(alone)


def _parameter(option: Option) -> inspect.Parameter:
    words = as_sentence(option.help, option.choices)
    if option.default is dataclasses.MISSING:
        return keyword(option.name, Annotated[option.type, typer.Argument(help=words, show_default=False)])
    shown: Any = option.shown or option.default is not None
    flag = typer.Option(*option.flags, help=words, min=option.least, show_default=shown)
    return keyword(option.name, Annotated[flag_type(option.type), flag], option.default)


def keyword(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    """A keyword-only parameter of a command."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def flag_type(given: Any) -> Any:
    """The type Typer uses to parse a flag: the option's own, or a text that the option parses."""
    if get_origin(given) in (Union, UnionType):
        parts = [part for part in get_args(given) if part is not type(None)]
        return (flag_type(parts[0]) if len(parts) == 1 else str) | None
    return given if given in (str, int, float, bool, Path) or get_origin(given) is Literal else str


def _build_and_save(name: str, builder: Any, out: Path, *, overwrite: bool, json: bool) -> None:
    """Build with a progress bar on standard error, save, and print the splits as a table or JSON."""
    from miv.data import SPLITS, save_splits
    from miv.data.folder import refuse_to_destroy
    from miv.files.tables import require_parquet
    from miv.runtime import RichProgress

    require_parquet()  # fail before the work, not after it
    refuse_to_destroy(out, overwrite=overwrite, splits=SPLITS)
    sets = builder.build(RichProgress())
    # As plain JSON values: a path is a text.
    options = loads(dumps(dataclasses.asdict(builder), default=str))
    save_splits(sets, out, builder=name, options=options, seed=builder.seed, overwrite=overwrite)
    figures = {split: _figures(exemplars) for split, exemplars in sets.items()}
    if json:
        print_json({"folder": str(out), "builder": name, "options": options, "sets": figures})
    else:
        for split, counts in figures.items():
            listing = "  ".join(f"{count:>9,} {what}" for what, count in counts.items())
            print(f"{split:<10}  {listing}  mean bag {sets[split].bag_sizes.mean():.1f}")
    say(f"Wrote {out}. To look at it: miv data inspect {out} --sheet sheet.html")


def _figures(exemplars: "ExemplarSet") -> dict[str, int]:
    figures = {"exemplars": len(exemplars), "positive": int(exemplars.label.sum()), "instances": len(exemplars.pool)}
    if exemplars.witness is not None:
        figures["witnesses"] = int(exemplars.witness.sum())
    return figures


# Commands from your own files, and from tasks.

_HELP = {
    "from-folder": """
    Draw exemplars from one folder per class: ROOT/<class>/ with images, .txt texts or .npy features.

    Each query gets one bag with its class (label 1) and one without (label 0).
    Splits share no class. If ROOT contains train, validation and test folders, these are the splits.

    Example: miv data from-folder photos --out exemplars --size 64x64 --bag-mean 8 --witness-rate 0.25
    """,
    "from-table": """
    Read exemplars from a table, one per row: query, bag, label, and optionally witnesses, split, group.

    An instance is an image path (relative to the table), a text, or a vector.
    In CSV, write a bag as a JSON list or separate its members with |.

    Example: miv data from-table claims.csv --out exemplars --query-column claim --bag-column sentences
    """,
}


class DataGroup(TyperGroup):
    """``miv data`` with commands that are created when asked for, so that ``miv --help`` does not import their room."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *_HELP]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in _HELP:
            return super().get_command(ctx, cmd_name)
        from miv.data.sources import FromFolder, FromTable
        from miv.registry import from_options, options_of_class

        source: Any = {"from-folder": FromFolder, "from-table": FromTable}[cmd_name]
        options = options_of_class(source).values()
        make = partial(from_options, source)
        return shortened(
            f"data {cmd_name}", building_command(cmd_name, _HELP[cmd_name], options, lambda **given: make(given))
        )


class TaskGroup(TyperGroup):
    """``miv data build`` with one command per registered task, created when asked for as in ``DataGroup``."""

    def list_commands(self, ctx: Any) -> list[str]:
        from miv.tasks import list_tasks

        return list_tasks()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        from miv.tasks import TASKS, create_task, task_options

        options = [_stated(option) for option in task_options(cmd_name)]
        make = partial(create_task, cmd_name)
        return shortened("data build", building_command(cmd_name, TASKS[cmd_name].summary, options, make))


def _stated(option: Option) -> Option:
    """The option with its choices in its help, because ``create_task`` checks them and suggests the nearest."""
    if not option.choices:
        return option
    help_text = f"{as_sentence(option.help, option.choices)} One of: {', '.join(option.choices)}."
    return dataclasses.replace(option, type=str, help=help_text)
