"""``miv gallery``: many bags on disk, searched by one query."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from miv.cli.app import JsonOption, ModelArgument, ResizeOption, WitnessesOption, app, print_json, printable
from miv.cli.query_values import OneValuePerQuery
from miv.errors import MIVError, MIVWarning

if TYPE_CHECKING:
    from collections.abc import Iterator

gallery_app = typer.Typer(help="Keep many bags on disk, and search them by a query.", no_args_is_help=True)
app.add_typer(gallery_app, name="gallery")

FolderArgument = Annotated[Path, typer.Argument(help="The folder of the gallery.", show_default=False)]
BagOption = Annotated[
    list[str] | None,
    typer.Option(help="The instances of the bag, as for `miv verify --bag`; repeatable.", show_default=False),
]


@gallery_app.command("create")
def create(
    folder: Annotated[Path, typer.Argument(help="A new folder.", show_default=False)],
    model: ModelArgument,
    like: Annotated[
        Path | None,
        typer.Option(help="Copy the bags of this gallery; its verifier must have the same backbone."),
    ] = None,
) -> None:
    """Create an empty gallery with a copy of a verifier.

    Example: miv gallery create archive runs/dba
    """
    from miv.evaluation.runs import refuse_unfinished
    from miv.gallery import Gallery
    from miv.verifier.network import Verifier

    refuse_unfinished(Path(model))
    gallery = Gallery.create(folder, Verifier.from_pretrained(model), like=like)
    typer.echo(f"Created {folder} with {_counted(len(gallery))}.", err=True)


@gallery_app.command("add")
def add(
    folder: FolderArgument,
    name: Annotated[str | None, typer.Option(help="Name of the bag; with --bag.", show_default=False)] = None,
    bag: BagOption = None,
    bags: Annotated[
        Path | None,
        typer.Option(help="A folder with one folder (or, for texts, .txt file) per bag; replaces --name and --bag."),
    ] = None,
    resize: ResizeOption = None,
) -> None:
    """Add a bag, or all bags of a folder. If it is killed, the same command goes on where it stopped.

    Example: miv gallery add archive --name letters-1912 --bag letters/1912
    Example: miv gallery add archive --bags letters
    """
    from miv.gallery import Gallery
    from miv.runtime import RichProgress

    if (bags is None) == (name is None and not bag) or (bags is None and not (name and bag)):
        raise MIVError("Give either --name and --bag, or --bags with a folder of bags.")
    gallery = Gallery.open(folder)
    before = len(gallery)
    if bags is not None:
        gallery.add_many(_bags_in(bags, gallery), resize=resize, progress=RichProgress())
    else:
        instances, names = _named(bag or [], gallery)
        gallery.add(name or "", instances, instance_names=names, resize=resize, progress=RichProgress())
    typer.echo(f"Added {_counted(len(gallery) - before)}; {folder} has {_counted(len(gallery))}.", err=True)


@gallery_app.command("replace")
def replace(
    folder: FolderArgument,
    name: Annotated[str, typer.Option(help="Name of the bag.", show_default=False)],
    bag: BagOption = None,
    resize: ResizeOption = None,
) -> None:
    """Replace the instances of a bag in one step."""
    from miv.gallery import Gallery
    from miv.runtime import RichProgress

    gallery = Gallery.open(folder)
    instances, names = _named(bag or [], gallery)
    gallery.replace(name, instances, instance_names=names, resize=resize, progress=RichProgress())


@gallery_app.command("remove")
def remove(
    folder: FolderArgument,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of bags.", show_default=False)],
) -> None:
    """Remove bags: all that are named, or none if one is unknown. `miv gallery compact` frees their space."""
    from miv.gallery import Gallery

    gallery = Gallery.open(folder)
    gallery.remove(*names)
    typer.echo(f"{folder} has {_counted(len(gallery))}.", err=True)


@gallery_app.command("search", cls=OneValuePerQuery)
def search(
    folder: FolderArgument,
    query: Annotated[
        list[str],
        typer.Option(help="A query as for `miv verify --query`; give it several times for several references."),
    ],
    top: Annotated[int, typer.Option(help="Number of bags to show.", min=1)] = 10,
    prefilter: Annotated[bool, typer.Option("--prefilter", help="No effect: every search compares all bags.")] = False,
    resize: ResizeOption = None,
    witnesses: WitnessesOption = None,
    json: JsonOption = False,
) -> None:
    """Find the bags that most likely hold something of the query's class.

    Example: miv gallery search archive --query anna.png
    """
    from miv.gallery import Gallery
    from miv.verifier.table_reading import named_query

    if prefilter:
        warnings.warn("--prefilter has no effect: every search compares all bags.", MIVWarning, stacklevel=1)
    gallery = Gallery.open(folder)
    kind = gallery.verifier.backbone.kind
    hits = gallery.search([named_query(one, kind) for one in query], top, witnesses=witnesses, resize=resize)
    if json:
        print_json({"query": query, **hits.document()})
    else:
        print(printable(str(hits)))


@gallery_app.command("info")
def info(folder: FolderArgument, json: JsonOption = False) -> None:
    """Print counts and sizes of a gallery."""
    from miv.gallery import Gallery

    found = Gallery.open(folder).info()
    if json:
        print_json(found)
    else:
        width = max(map(len, found))
        print("\n".join(f"{name.replace('_', ' '):<{width}}  {_shown(value)}" for name, value in found.items()))


@gallery_app.command("index")
def index(folder: FolderArgument) -> None:
    """Do nothing: every search compares all bags, so a gallery needs no index."""
    from miv.gallery import Gallery

    Gallery.open(folder)
    print("No index is needed: every search compares all bags.")


@gallery_app.command("compact")
def compact(folder: FolderArgument) -> None:
    """Free the space of removed bags, and merge small files."""
    from miv.gallery import Gallery

    Gallery.open(folder).compact()


def _named(bag: list[str], gallery: Any) -> tuple[list[Any], list[str]]:
    from miv.verifier.table_reading import named_bag

    found = named_bag(bag, gallery.verifier.backbone.kind)
    return [one.instance for one in found], [one.name for one in found]


def _bags_in(folder: Path, gallery: Any) -> "Iterator[tuple[str, list[Any], list[str]]]":
    """One bag per subfolder, and for texts one per .txt file, named after it; with the names of the instances."""
    from miv.files.instances import is_folder, is_text_file

    if not is_folder(folder):
        raise MIVError(f"{folder} is not a folder. Expected a folder with one folder per bag.")
    kind = gallery.verifier.backbone.kind
    found = [
        (path.stem if path.is_file() else path.name, path)
        for path in sorted(folder.iterdir())
        if not path.name.startswith(".") and (path.is_dir() or (kind == "text" and is_text_file(path)))
    ]
    if not found:
        raise MIVError(f"{folder} contains no folders. Expected one folder per bag; use --name and --bag for one bag.")
    return ((name, *_named([str(path)], gallery)) for name, path in found)


def _counted(bags: int) -> str:
    return f"{bags:,} bag{'' if bags == 1 else 's'}"


def _shown(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
