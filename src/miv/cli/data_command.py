"""``miv data``: build and inspect exemplar sets; ``miv audio``: make vectors of recordings."""

import dataclasses
import inspect as signatures
from collections.abc import Callable, Iterable
from functools import partial
from json import dumps, loads
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option
from typer.core import TyperGroup

from miv import registry
from miv.cli.app import JsonOption, OverwriteOption, app, print_json, print_result, say
from miv.cli.flags import keyword, parameter_of, with_parameters
from miv.cli.help import shortened
from miv.errors import number_of

if TYPE_CHECKING:  # imported only when needed, to keep `miv --help` fast
    from miv.data import ExemplarSet

FROM_FILES = {
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
        return [*super().list_commands(ctx), *FROM_FILES]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in FROM_FILES:
            return super().get_command(ctx, cmd_name)
        from miv.data.sources import FromFolder, FromTable

        source: Any = {"from-folder": FromFolder, "from-table": FromTable}[cmd_name]
        options = registry.options_of_class(source).values()
        command = _building_command(
            cmd_name, FROM_FILES[cmd_name], options, lambda **given: registry.from_options(source, given)
        )
        return shortened(f"data {cmd_name}", command)


class TaskGroup(TyperGroup):
    """``miv data build`` with one command per registered task, created when asked for as in ``DataGroup``."""

    def list_commands(self, ctx: Any) -> list[str]:
        from miv.tasks import list_tasks

        return list_tasks()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        from miv.tasks import TASKS, create_task, task_options

        options = map(_with_choices_in_words, task_options(cmd_name))
        command = _building_command(cmd_name, TASKS[cmd_name].summary, options, partial(create_task, cmd_name))
        return shortened("data build", command)


def _with_choices_in_words(option: registry.Option) -> registry.Option:
    """The option with its choices in its help, because ``create_task`` checks them and suggests the nearest."""
    if not option.choices:
        return option
    words = f"{registry.as_sentence(option.help, option.choices)} One of: {', '.join(option.choices)}."
    return dataclasses.replace(option, type=str, help=words)


def _building_command(name: str, words: str, options: Iterable[registry.Option], make: Callable[..., Any]) -> Any:
    """A command with one flag per option, and an argument for one without a default, that builds and saves sets."""

    def build(out: Path, overwrite: bool, json: bool, **given: Any) -> None:
        _build_and_save(name, make(**given), out, overwrite=overwrite, json=json)

    folder = "Output folder for the splits; must be new unless --overwrite is given."
    flags = [
        *map(parameter_of, options),
        keyword("out", Annotated[Path, Option("--out", "-o", help=folder, show_default=False)]),
        keyword("overwrite", Annotated[bool, Option("--overwrite", help="Overwrite existing sets.")], False),
        keyword("json", JsonOption, False),
    ]
    alone = typer.Typer(add_completion=False)
    alone.command(name, help=signatures.cleandoc(words))(with_parameters(build, flags))
    return typer.main.get_command(alone)


def _build_and_save(name: str, builder: Any, out: Path, *, overwrite: bool, json: bool) -> None:
    """Build with a progress bar on standard error, save, and print the splits as a table or JSON."""
    from miv.data import SPLITS, save_splits
    from miv.data.folder import refuse_to_destroy
    from miv.files.tables import require_parquet
    from miv.runtime import RichProgress

    require_parquet()  # fail before the work, not after it
    refuse_to_destroy(out, overwrite=overwrite, splits=SPLITS)
    sets = builder.build(RichProgress())
    options = loads(dumps(dataclasses.asdict(builder), default=str))  # as plain JSON values: a path is a text
    save_splits(sets, out, builder=name, options=options, seed=builder.seed, overwrite=overwrite)
    figures = {split: _figures(exemplars) for split, exemplars in sets.items()}
    if json:
        print_json({"folder": str(out), "builder": name, "options": options, "sets": figures})
    else:
        for split, counts in figures.items():
            listing = "  ".join(f"{count:>9,} {what}" for what, count in counts.items())
            print(f"{split:<10}  {listing}  mean bag {sets[split].bag_sizes.mean():.1f}")
    say(f"Wrote {out}. To look at it: miv data inspect {out}")


def _figures(exemplars: "ExemplarSet") -> dict[str, int]:
    figures = {"exemplars": len(exemplars), "positive": int(exemplars.label.sum()), "instances": len(exemplars.pool)}
    return figures if exemplars.witness is None else {**figures, "witnesses": int(exemplars.witness.sum())}


data_app = typer.Typer(help="Build and inspect exemplar sets.", cls=DataGroup, no_args_is_help=True)
app.add_typer(data_app, name="data")

build_app = typer.Typer(
    help="Build the splits of a task from its raw files, or from a seed for synthetic tasks.",
    cls=TaskGroup,
    no_args_is_help=True,
    subcommand_metavar="TASK --out DIR [OPTIONS]",
)
data_app.add_typer(build_app, name="build")


@build_app.callback()
def _build() -> None: ...


@data_app.command("inspect")
def inspect(
    folder: Annotated[Path, Argument(help="A saved set or a folder of splits.")],
    strict: Annotated[bool, Option("--strict", help="Exit with code 1 if the audit finds a leak.")] = False,
    json: JsonOption = False,
) -> None:
    """Print sizes, statistics and a leakage audit.

    All hashes of the set are checked. The audit looks for queries in their own bag, classes or identical
    instances in two splits, and labels that contradict the witnesses.
    """
    from miv.data.inspection import inspect_folder

    inspection = inspect_folder(folder)
    print_result(inspection, json)
    if strict and inspection.findings:
        raise typer.Exit(1)


audio_app = typer.Typer(help="Turn recordings (wav) into speaker embeddings.", no_args_is_help=True)
app.add_typer(audio_app, name="audio")


@audio_app.callback()
def _audio() -> None: ...


@audio_app.command("embed")
def embed(
    source: Annotated[Path, Argument(help="A wav file, or a folder of them.")],
    out: Annotated[Path, Option(help="The .npy file to write; for a folder, the folder to write to.")],
    weights: Annotated[
        Path | None,
        Option(help="Weights of the encoder (.safetensors).", show_default="Resemblyzer's, downloaded once, 16 MB"),
    ] = None,
    whole: Annotated[
        bool, Option("--whole", help="Write one vector per recording, for queries, instead of its windows.")
    ] = False,
    overwrite: OverwriteOption = False,
) -> None:
    """Write the vectors of recordings as .npy files, which all commands read as instances.

    Each recording becomes windows of 1.6 seconds, one every 0.77 seconds; silent windows are left out.

    Example: miv audio embed voices --out vectors
    """
    from miv.backbones.audio import SpeakerEncoder, embed_recordings
    from miv.runtime import RichProgress

    encoder = SpeakerEncoder.pretrained(RichProgress()) if weights is None else SpeakerEncoder.load(weights)
    written = embed_recordings(encoder, source, out, whole=whole, overwrite=overwrite, progress=RichProgress())
    print(f"Wrote {number_of(len(written), 'file')} to {out}.")
