"""Build sets, save them as splits and describe them: the last step of every command that builds data."""

import dataclasses
import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, Union, get_args, get_origin

import typer

from miv.cli.app import JsonOption, print_json
from miv.runtime import Option, as_sentence

if TYPE_CHECKING:  # imported only when needed, to keep `miv --help` fast
    from miv.data import ExemplarSet
    from miv.runtime import Progress


class Builder(Protocol):
    """A dataclass of options that builds sets by split."""

    @property
    def seed(self) -> int: ...

    def build(self, progress: "Progress") -> "dict[str, ExemplarSet]": ...


def building_command(name: str, help_text: str, options: Iterable[Option], make: Callable[..., Builder]) -> Any:
    """A command with one flag per option, and an argument for one without a default, that builds and saves sets."""

    def build(out: Path, overwrite: bool, json: bool, **given: Any) -> None:
        build_and_save(name, make(**given), out, overwrite=overwrite, json=json)

    out_help = "Output folder for the splits; must be new unless --overwrite is given."
    flags = [_parameter(option) for option in options]
    flags += [
        _keyword("out", Annotated[Path, typer.Option("--out", "-o", help=out_help, show_default=False)]),
        _keyword("overwrite", Annotated[bool, typer.Option("--overwrite", help="Overwrite existing sets.")], False),
        _keyword("json", JsonOption, False),
    ]
    build.__annotations__ = {flag.name: flag.annotation for flag in flags}
    build.__signature__ = inspect.Signature(flags)  # type: ignore[attr-defined]
    alone = typer.Typer(add_completion=False)
    alone.command(name, help=inspect.cleandoc(help_text))(build)
    return typer.main.get_command(alone)


def _parameter(option: Option) -> inspect.Parameter:
    words = as_sentence(option.help, option.choices)
    if option.default is dataclasses.MISSING:
        return _keyword(option.name, Annotated[option.type, typer.Argument(help=words, show_default=False)])
    shown: Any = option.shown or option.default is not None
    flag = typer.Option(*option.flags, help=words, min=option.least, show_default=shown)
    return _keyword(option.name, Annotated[_flag_type(option.type), flag], option.default)


def _keyword(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _flag_type(given: Any) -> Any:
    """The type Typer uses to parse a flag: the option's own, or a text that the option parses."""
    if get_origin(given) in (Union, UnionType):
        parts = [part for part in get_args(given) if part is not type(None)]
        return (_flag_type(parts[0]) if len(parts) == 1 else str) | None
    return given if given in (str, int, float, bool, Path) or get_origin(given) is Literal else str


def build_and_save(name: str, builder: Builder, out: Path, *, overwrite: bool, json: bool) -> None:
    """Build with a progress bar on standard error, save, and print the splits as a table or JSON."""
    from miv.data import SPLITS, save_splits
    from miv.data.folder import refuse_to_destroy
    from miv.files.tables import require_parquet
    from miv.runtime import RichProgress

    require_parquet()  # fail before the work, not after it
    refuse_to_destroy(out, overwrite=overwrite, splits=SPLITS)
    sets = builder.build(RichProgress())
    options = _plain(dataclasses.asdict(builder))  # type: ignore[call-overload]
    save_splits(sets, out, builder=name, options=options, seed=builder.seed, overwrite=overwrite)
    figures = {split: _figures(exemplars) for split, exemplars in sets.items()}
    if json:
        print_json({"folder": str(out), "builder": name, "options": options, "sets": figures})
    else:
        for split, counts in figures.items():
            listing = "  ".join(f"{count:>9,} {what}" for what, count in counts.items())
            print(f"{split:<10}  {listing}  mean bag {sets[split].bag_sizes.mean():.1f}")
    typer.echo(f"Wrote {out}. To look at it: miv data inspect {out} --sheet sheet.html", err=True)


def _figures(exemplars: "ExemplarSet") -> dict[str, int]:
    figures = {
        "exemplars": len(exemplars),
        "positive": int(exemplars.label.sum()),
        "instances": len(exemplars.pool),
    }
    if exemplars.witness is not None:
        figures["witnesses"] = int(exemplars.witness.sum())
    return figures


def _plain(options: Any) -> Any:
    """Options as plain JSON values."""
    if isinstance(options, dict):
        return {name: _plain(value) for name, value in options.items()}
    return str(options) if isinstance(options, Path) else options
