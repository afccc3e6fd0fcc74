"""``miv data from-folder`` and ``miv data from-table``: build exemplars from your own files."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from miv.cli.app import JsonOption
from miv.cli.data_command import data_app
from miv.cli.set_building import build_and_save
from miv.errors import MIVError

OutOption = Annotated[Path, typer.Option("--out", "-o", help="Output folder for train, validation and test.")]
SizeOption = Annotated[
    str | None,
    typer.Option(help="Resize all images to height x width, such as 64x64. Without it, all must have the same size."),
]
ColourOption = Annotated[bool, typer.Option("--colour/--grey", help="Keep colours, or convert images to grey.")]
ResizeOption = Annotated[
    Literal["stretch", "crop", "pad"],
    typer.Option(
        "--resize",
        "--fit",
        help="How to fit images of another shape: stretch, crop to the centre, or pad with black.",
    ),
]
BinariseOption = Annotated[
    bool, typer.Option("--binarise", help="Make scans black and white, by Otsu's threshold, before resizing.")
]
InvertOption = Annotated[bool, typer.Option("--invert", help="Swap black and white, before resizing.")]
ValidationOption = Annotated[float, typer.Option(help="Share for validation; 0 for no validation split.")]
TestOption = Annotated[float, typer.Option(help="Share for test; 0 for no test split.")]
SeedOption = Annotated[int, typer.Option(min=0, help="Random seed.")]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Overwrite existing sets in the folder.")]


@data_app.command("from-folder")
def from_folder(
    root: Annotated[Path, typer.Argument(help="Folder with one subfolder per class.", show_default=False)],
    out: OutOption,
    exemplars: Annotated[int, typer.Option(help="Total number of exemplars over all splits.")] = 1000,
    bag_mean: Annotated[float, typer.Option(help="Mean bag size.")] = 10.0,
    bag_min: Annotated[int | None, typer.Option(help="Minimum bag size.", show_default="half the mean")] = None,
    bag_max: Annotated[int | None, typer.Option(help="Maximum bag size.", show_default="twice the mean")] = None,
    witness_rate: Annotated[
        float, typer.Option(help="Share of witnesses in a positive bag; there is always at least one.")
    ] = 0.2,
    witness_count: Annotated[
        int | None,
        typer.Option(
            "--witness-count",
            "--witnesses",
            help="Exact number of witnesses per positive bag, instead of a rate.",
        ),
    ] = None,
    hard_negatives: Annotated[
        float,
        typer.Option(help="Share of the other instances drawn from the classes most like the query's."),
    ] = 0.0,
    hard_classes: Annotated[int, typer.Option(help="Number of classes to draw hard negatives from.")] = 5,
    references_per_query: Annotated[
        int, typer.Option(min=1, help="Number of instances of the query's class to ask with; fewer in a small class.")
    ] = 1,
    validation: ValidationOption = 0.1,
    test: TestOption = 0.1,
    split_by: Annotated[
        Literal["class", "parent"],
        typer.Option(help="What to keep within one split: each class, or each parent in ROOT/<parent>/<class>/."),
    ] = "class",
    together_by: Annotated[
        str | None,
        typer.Option(
            help="Keep folders in one split if this regular expression finds the same in their names, such as "
            r"'(\d+)' for 001 and 001_forg.",
            show_default=False,
        ),
    ] = None,
    forgeries: Annotated[
        str | None,
        typer.Option(
            help="Ending of folders with forgeries, such as _forg: those of 001_forg take the places of witnesses in "
            "the negative bags of 001.",
            show_default=False,
        ),
    ] = None,
    size: SizeOption = None,
    colour: ColourOption = False,
    resize: ResizeOption = "stretch",
    binarise: BinariseOption = False,
    invert: InvertOption = False,
    seed: SeedOption = 0,
    round_: Annotated[int, typer.Option("--round", min=0, help="Index of the random draw; draws are independent.")] = 0,
    overwrite: OverwriteOption = False,
    json: JsonOption = False,
) -> None:
    """Draw exemplars from one folder per class: ROOT/<class>/ with images, .txt texts or .npy features.

    Each query gets one bag with its class (label 1) and one without (label 0).
    Splits share no class. If ROOT contains train, validation and test folders, these are the splits.

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
        references_per_query=references_per_query,
        validation=validation,
        test=test,
        split_by=split_by,
        together_by=together_by,
        forgeries=forgeries,
        size=_parse_size(size),
        colour=colour,
        resize=resize,
        binarise=binarise,
        invert=invert,
        seed=seed,
        round=round_,
    )
    build_and_save("from-folder", source, out, overwrite=overwrite, json=json)


@data_app.command("from-table")
def from_table(
    table: Annotated[Path, typer.Argument(help="A .csv, .tsv, .jsonl or .parquet file.", show_default=False)],
    out: OutOption,
    instances: Annotated[
        Path | None,
        typer.Option(
            help="Table with id, one of path, text or vector, and optionally class; queries and bags then contain ids."
        ),
    ] = None,
    kind: Annotated[
        Literal["image", "text", "features"] | None,
        typer.Option(help="Kind of instance.", show_default="inferred from the first instance"),
    ] = None,
    query_column: Annotated[str, typer.Option(help="Column with the query.")] = "query",
    bag_column: Annotated[str, typer.Option(help="Column with the bag: a list, a JSON list, or a|b|c.")] = "bag",
    label_column: Annotated[str, typer.Option(help="Column with the label, 0 or 1.")] = "label",
    witnesses_column: Annotated[
        str, typer.Option(help="Column with the positions of witnesses in the bag, from 0; optional.")
    ] = "witnesses",
    split_column: Annotated[str, typer.Option(help="Column with train, validation or test; optional.")] = "split",
    group_column: Annotated[str, typer.Option(help="Column to group results by; optional.")] = "group",
    query_id_column: Annotated[
        str, typer.Option(help="Column with an id shared by equivalent queries; optional.")
    ] = "query_id",
    references_column: Annotated[
        str, typer.Option(help="Column with a list of instances to ask with, with or without a query; optional.")
    ] = "references",
    split_by: Annotated[
        Literal["instances", "query", "group"],
        typer.Option(help="Without a split column: what to keep within one split."),
    ] = "instances",
    validation: ValidationOption = 0.1,
    test: TestOption = 0.1,
    size: SizeOption = None,
    colour: ColourOption = False,
    resize: ResizeOption = "stretch",
    binarise: BinariseOption = False,
    invert: InvertOption = False,
    seed: SeedOption = 0,
    overwrite: OverwriteOption = False,
    json: JsonOption = False,
) -> None:
    """Read exemplars from a table, one per row: query, bag, label, and optionally witnesses, split, group.

    An instance is an image path (relative to the table), a text, or a vector.
    In CSV, write a bag as a JSON list or separate its members with |.

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
        references_column=references_column,
        split_by=split_by,
        validation=validation,
        test=test,
        size=_parse_size(size),
        colour=colour,
        resize=resize,
        binarise=binarise,
        invert=invert,
        seed=seed,
    )
    build_and_save("from-table", source, out, overwrite=overwrite, json=json)


def _parse_size(text: str | None) -> tuple[int, int] | None:
    """Read ``64x48`` (height, width) or ``64`` (both)."""
    if text is None:
        return None
    sides = text.lower().replace("×", "x").split("x")
    if len(sides) > 2 or not all(side.strip().isdecimal() and len(side) < 6 for side in sides):
        raise MIVError(f"Invalid size {text!r}. Expected height x width, such as 64x48, or one number, such as 64.")
    height, width = (int(side) for side in (sides if len(sides) == 2 else sides * 2))
    return height, width
