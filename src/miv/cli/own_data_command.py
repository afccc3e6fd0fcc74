"""``miv data from-folder`` and ``miv data from-table``: your own files become exemplars."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from miv.cli.app import JsonOption
from miv.cli.data_command import data_app
from miv.cli.set_building import build_and_save
from miv.errors import MIVError

OutOption = Annotated[Path, typer.Option("--out", "-o", help="Folder to write; train, validation and test go in it.")]
SizeOption = Annotated[
    str | None,
    typer.Option(help="Size of all images, height x width, such as 64x64. Without it all must have one size."),
]
ColourOption = Annotated[bool, typer.Option("--colour/--grey", help="Keep colours, or make images grey.")]
ResizeOption = Annotated[
    Literal["stretch", "crop", "pad"],
    typer.Option(
        "--resize",
        "--fit",
        help="How an image of another shape becomes that size: stretched, its middle, or with black borders.",
    ),
]
ValidationOption = Annotated[float, typer.Option(help="Share of validation; 0 leaves it out.")]
TestOption = Annotated[float, typer.Option(help="Share of test; 0 leaves it out.")]
SeedOption = Annotated[int, typer.Option(min=0, help="Start of the random numbers.")]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace sets that are already in the folder.")]


@data_app.command("from-folder")
def from_folder(
    root: Annotated[Path, typer.Argument(help="Folder with one folder for each class.", show_default=False)],
    out: OutOption,
    exemplars: Annotated[int, typer.Option(help="Number of exemplars, all splits together.")] = 1000,
    bag_mean: Annotated[float, typer.Option(help="Mean size of a bag.")] = 10.0,
    bag_min: Annotated[int | None, typer.Option(help="Smallest bag.", show_default="half the mean")] = None,
    bag_max: Annotated[int | None, typer.Option(help="Largest bag.", show_default="twice the mean")] = None,
    witness_rate: Annotated[
        float, typer.Option(help="Share of a positive bag that shows the query's class; at least one does.")
    ] = 0.2,
    witness_count: Annotated[
        int | None,
        typer.Option(
            "--witness-count",
            "--witnesses",
            help="Exactly this many witnesses in a positive bag, instead of a rate.",
        ),
    ] = None,
    hard_negatives: Annotated[
        float,
        typer.Option(help="Share of the other instances that comes from the classes most like the query's."),
    ] = 0.0,
    hard_classes: Annotated[int, typer.Option(help="How many classes count as most like it.")] = 5,
    validation: ValidationOption = 0.1,
    test: TestOption = 0.1,
    split_by: Annotated[
        Literal["class", "parent"],
        typer.Option(help="What must never be in two splits: a class, or the parent in ROOT/<parent>/<class>/."),
    ] = "class",
    size: SizeOption = None,
    colour: ColourOption = False,
    resize: ResizeOption = "stretch",
    seed: SeedOption = 0,
    round_: Annotated[int, typer.Option("--round", min=0, help="Which draw; rounds are independent.")] = 0,
    overwrite: OverwriteOption = False,
    json: JsonOption = False,
) -> None:
    """Draw exemplars from a folder per class: ROOT/<class>/ with images, .txt texts or .npy features.

    Each query gets a bag with its class (label 1) and one without (label 0).
    No class is in two splits. If ROOT holds train, validation and test folders, these are the splits.

    Example: miv data from-folder photos --out exemplars --size 64x64 --bag-mean 8 --witness-rate 0.25
    """
    from miv.data.sources import folder_source

    source = folder_source(
        root,
        exemplars=exemplars,
        bag_mean=bag_mean,
        bag_min=bag_min,
        bag_max=bag_max,
        witness_rate=witness_rate,
        witness_count=witness_count,
        hard_negatives=hard_negatives,
        hard_classes=hard_classes,
        validation=validation,
        test=test,
        split_by=split_by,
        size=_parse_size(size),
        colour=colour,
        resize=resize,
        seed=seed,
        round=round_,
    )
    build_and_save("from-folder", source, out, overwrite=overwrite, json=json)


@data_app.command("from-table")
def from_table(
    table: Annotated[Path, typer.Argument(help="File .csv, .tsv, .jsonl or .parquet.", show_default=False)],
    out: OutOption,
    instances: Annotated[
        Path | None,
        typer.Option(help="Table with id and one of path, text, vector (and class); queries and bags hold ids."),
    ] = None,
    kind: Annotated[
        Literal["image", "text", "features"] | None,
        typer.Option(help="What an instance is.", show_default="what the first one looks like"),
    ] = None,
    query_column: Annotated[str, typer.Option(help="Column with the query.")] = "query",
    bag_column: Annotated[str, typer.Option(help="Column with the bag: a list, a JSON list, or a|b|c.")] = "bag",
    label_column: Annotated[str, typer.Option(help="Column with the label, 0 or 1.")] = "label",
    witnesses_column: Annotated[
        str, typer.Option(help="Column with the positions of witnesses in the bag, from 0; may be missing.")
    ] = "witnesses",
    split_column: Annotated[str, typer.Option(help="Column with train, validation or test; may be missing.")] = "split",
    group_column: Annotated[str, typer.Option(help="Column to break results down by; may be missing.")] = "group",
    query_id_column: Annotated[
        str, typer.Option(help="Column that says which queries ask for the same; may be missing.")
    ] = "query_id",
    split_by: Annotated[
        Literal["instances", "query", "group"],
        typer.Option(help="Without a split column: what must never be in two splits."),
    ] = "instances",
    validation: ValidationOption = 0.1,
    test: TestOption = 0.1,
    size: SizeOption = None,
    colour: ColourOption = False,
    resize: ResizeOption = "stretch",
    seed: SeedOption = 0,
    overwrite: OverwriteOption = False,
    json: JsonOption = False,
) -> None:
    """Read exemplars from a table with one a row: query, bag, label, and perhaps witnesses, split, group.

    An instance is an image's path (relative to the table), a text, or a vector.
    In CSV a bag is a JSON list, or its parts are separated by |.

    Example: miv data from-table claims.csv --out exemplars --query-column claim --bag-column sentences
    """
    from miv.data.sources import table_source

    source = table_source(
        table,
        instances=instances,
        kind=kind,
        query_column=query_column,
        bag_column=bag_column,
        label_column=label_column,
        witnesses_column=witnesses_column,
        split_column=split_column,
        group_column=group_column,
        query_id_column=query_id_column,
        split_by=split_by,
        validation=validation,
        test=test,
        size=_parse_size(size),
        colour=colour,
        resize=resize,
        seed=seed,
    )
    build_and_save("from-table", source, out, overwrite=overwrite, json=json)


def _parse_size(text: str | None) -> tuple[int, int] | None:
    """Read ``64x48`` (height, width) or ``64`` (both)."""
    if text is None:
        return None
    sides = text.lower().replace("×", "x").split("x")
    if len(sides) > 2 or not all(side.strip().isdecimal() and len(side) < 6 for side in sides):
        raise MIVError(f"The size {text!r} is not understood; expected height x width, such as 64x48, or 64.")
    height, width = (int(side) for side in (sides if len(sides) == 2 else sides * 2))
    return height, width
