"""``miv gallery``: many bags on disk, searched by one query."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from miv.cli.app import (
    JsonOption,
    ModelArgument,
    OverwriteOption,
    ResizeOption,
    WitnessesOption,
    app,
    check_page,
    open_verifier,
    print_json,
    printable,
    say,
)
from miv.errors import MIVError, number_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from miv.gallery import Gallery

gallery_app = typer.Typer(help="Keep many bags on disk, and search them by a query.", no_args_is_help=True)
app.add_typer(gallery_app, name="gallery")

FolderArgument = Annotated[Path, Argument(help="The folder of the gallery.")]
BagOption = Annotated[list[str] | None, Option(help="The instances of the bag, as for `miv verify --bag`; repeatable.")]


@gallery_app.command("create")
def create(
    folder: Annotated[Path, Argument(help="A new folder.")],
    model: ModelArgument,
    like: Annotated[
        Path | None, Option(help="Copy the bags of this gallery; its verifier must have the same backbone.")
    ] = None,
) -> None:
    """Create an empty gallery with a copy of a verifier.

    Example: miv gallery create archive runs/dba
    """
    from miv.gallery import Gallery

    gallery = Gallery.create(folder, open_verifier(model), like=like)
    say(f"Created {folder} with {number_of(len(gallery), 'bag')}.")


@gallery_app.command("add")
def add(
    folder: FolderArgument,
    name: Annotated[str | None, Option(help="Name of the bag; with --bag.")] = None,
    bag: BagOption = None,
    bags: Annotated[
        Path | None,
        Option(help="A folder with one folder (or, for texts, .txt file) per bag; replaces --name and --bag."),
    ] = None,
    resize: ResizeOption = None,
) -> None:
    """Add a bag, or all bags of a folder. If it is killed, the same command goes on where it stopped.

    Example: miv gallery add archive --name letters-1912 --bag letters/1912
    Example: miv gallery add archive --bags letters
    """
    from miv.runtime import RichProgress

    if (bags is None) == (name is None and not bag) or (bags is None and not (name and bag)):
        raise MIVError("Give either --name and --bag, or --bags with a folder of bags.")
    gallery = _open(folder)
    before = len(gallery)
    if bags is not None:
        gallery.add_many(_bags_in(bags, gallery), resize=resize, progress=RichProgress())
    else:
        instances, names = _named(bag or [], gallery)
        gallery.add(name or "", instances, instance_names=names, resize=resize, progress=RichProgress())
    say(f"Added {number_of(len(gallery) - before, 'bag')}; {folder} has {number_of(len(gallery), 'bag')}.")


@gallery_app.command("replace")
def replace(
    folder: FolderArgument,
    name: Annotated[str, Option(help="Name of the bag.")],
    bag: BagOption = None,
    resize: ResizeOption = None,
) -> None:
    """Replace the instances of a bag in one step."""
    from miv.runtime import RichProgress

    gallery = _open(folder)
    instances, names = _named(bag or [], gallery)
    gallery.replace(name, instances, instance_names=names, resize=resize, progress=RichProgress())


@gallery_app.command("remove")
def remove(
    folder: FolderArgument, names: Annotated[list[str], Argument(metavar="NAME...", help="Names of bags.")]
) -> None:
    """Remove bags: all that are named, or none if one is unknown. `miv gallery compact` frees their space."""
    gallery = _open(folder)
    gallery.remove(*names)
    say(f"{folder} has {number_of(len(gallery), 'bag')}.")


@gallery_app.command("search")
def search(
    folder: FolderArgument,
    query: Annotated[
        list[str], Option(help="A query as for `miv verify --query`; give it several times for several references.")
    ],
    top: Annotated[int, Option(help="Number of bags to show.", min=1)] = 10,
    resize: ResizeOption = None,
    witnesses: WitnessesOption = None,
    html: Annotated[
        Path | None, Option(help="Also write a page with pictures of the hits, from the files that were added.")
    ] = None,
    overwrite: OverwriteOption = False,
    json: JsonOption = False,
) -> None:
    """Find the bags that most likely hold something of the query's class.

    Example: miv gallery search archive --query anna.png
    """
    from miv.verifier.display import write_page
    from miv.verifier.table_reading import named_query

    check_page(html, overwrite)
    gallery = _open(folder)
    references = [named_query(reference, gallery.verifier.backbone.kind) for reference in query]
    hits = gallery.search(references, top, witnesses=witnesses, resize=resize)
    print_json({"query": query, **hits.document()}) if json else print(printable(str(hits)))
    if html is not None:
        write_page(html, f"Search of {folder}", hits.pieces(query))
        say(f"Wrote {html}.")


@gallery_app.command("info")
def info(folder: FolderArgument, json: JsonOption = False) -> None:
    """Print counts and sizes of a gallery."""
    facts = _open(folder).info()
    if json:
        print_json(facts)
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        is_number = isinstance(value, int) and not isinstance(value, bool)
        print(f"{name.replace('_', ' '):<{width}}  {f'{value:,}' if is_number else value}")


@gallery_app.command("check")
def check(
    folder: FolderArgument,
    rebuild: Annotated[Path | None, Option(help="A new folder, for a gallery of the bags that are whole.")] = None,
    verifier: Annotated[str | None, Option(help="The gallery's verifier, if that is damaged, too.")] = None,
    json: JsonOption = False,
) -> None:
    """Compare all files with their checksums; exits with 1 if one is damaged.

    Example: miv gallery check archive --rebuild archive-2
    """
    from miv.gallery import Gallery

    result = Gallery.check(folder, verifier=verifier, rebuild=rebuild)
    print_json(result.document()) if json else print(printable(str(result)))
    if result.problems:
        raise typer.Exit(1)


@gallery_app.command("compact")
def compact(folder: FolderArgument) -> None:
    """Free the space of removed bags, and merge small files."""
    _open(folder).compact()


def _open(folder: Path) -> "Gallery":
    from miv.gallery import Gallery

    return Gallery.open(folder)


def _named(bag: list[str], gallery: "Gallery") -> tuple[list[Any], list[str]]:
    from miv.verifier.table_reading import named_bag

    members = named_bag(bag, gallery.verifier.backbone.kind)
    return [member.instance for member in members], [member.name for member in members]


def _bags_in(folder: Path, gallery: "Gallery") -> "Iterator[tuple[str, list[Any], list[str]]]":
    """One bag per subfolder, and for texts one per .txt file, named after it; with the names of the instances."""
    from miv.files.instances import is_folder, is_text_file

    if not is_folder(folder):
        raise MIVError(f"{folder} is not a folder. Expected a folder with one folder per bag.")
    kind = gallery.verifier.backbone.kind
    visible = (path for path in sorted(folder.iterdir()) if not path.name.startswith("."))
    paths = [path for path in visible if path.is_dir() or (kind == "text" and is_text_file(path))]
    if not paths:
        raise MIVError(f"{folder} contains no folders. Expected one folder per bag; use --name and --bag for one bag.")
    return ((path.stem if path.is_file() else path.name, *_named([str(path)], gallery)) for path in paths)
