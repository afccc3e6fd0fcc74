"""``miv verify``: one query and bag, or a table of them; ``miv score``: a table of any size, partition by partition."""

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option
from typer.core import TyperCommand

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
    say,
)
from miv.errors import MIVError, number_of

if TYPE_CHECKING:
    from miv.verifier.network import Verifier
    from miv.verifier.table_writing import Scored
    from miv.verifier.zero_shot import ZeroShot


class _VerifyCommand(TyperCommand):
    """Refuses more words after ``--query VALUE``, as a shell makes of ``--query *.png``: they would join the bag."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # A shell completes a line, or the help is shown whatever else is given.
        if not ctx.resilient_parsing and not set(ctx.help_option_names) & set(args):
            flags = {name for param in self.params if getattr(param, "is_flag", False) for name in param.opts}
            _refuse_second_value(args, flags)
        return super().parse_args(ctx, args)


def _refuse_second_value(args: list[str], flags: set[str]) -> None:
    option = query = ""
    has_model = any(word.split("=")[0] == "--backbone" for word in args)  # else the first word that is no option's
    words = iter(args)
    for word in words:
        if word.startswith("-") and word not in ("-", "--"):
            option, equals, value = word.partition("=")
            value = value if equals or option in flags else next(words, "")
            query = value if option == "--query" else query
        elif has_model and option == "--query" and word != "--":
            query, extra = (shlex.quote(text if len(text) <= 60 else f"{text[:59]}…") for text in (query, word))
            raise MIVError(
                f"Got {extra} after --query {query}. Expected one value per --query. For several references, repeat "
                f"it: --query {query} --query {extra}. Put the instances of the bag after --bag."
            )
        else:
            has_model = has_model or word != "--"


@app.command("verify", cls=_VerifyCommand)
def verify(
    model: Annotated[
        str | None, Argument(help="A run, a verifier folder, or a name on the hub. Omit it with --backbone.")
    ] = None,
    more: Annotated[
        list[str] | None,
        Argument(metavar="[FILE]...", help="More instances of the bag, as when a shell expands --bag *.png."),
    ] = None,
    query: Annotated[
        list[str] | None,
        Option(
            help="An image file; a text or a .txt file; or a vector, as a .npy file or a list such as '[0.1, 0.2]'. "
            "Repeat it for several references, instances of one class."
        ),
    ] = None,
    bag: Annotated[
        list[str] | None,
        Option(
            help="A folder, an instance, a table with one path, text or vector per row, or, for texts, one .txt file "
            "with one text per line; repeatable."
        ),
    ] = None,
    backbone: Annotated[
        str | None,
        Option(
            help="Answer without a trained verifier, not calibrated: efficientnet (photographs), hog, minilm or tokens "
            "(texts), voice (wav), features, any other backbone, or auto."
        ),
    ] = None,
    bags: Annotated[
        Path | None,
        Option(help="Table with one query and bag per row, as for `miv data from-table`; replaces --query and --bag."),
    ] = None,
    instances: Annotated[
        Path | None, Option(help="With --bags: a table of instances by id; queries and bags contain ids.")
    ] = None,
    out: Annotated[Path | None, Option("--out", "-o", help="With --bags: the .parquet or .csv file to write.")] = None,
    overwrite: OverwriteOption = False,
    resize: ResizeOption = None,
    witnesses: WitnessesOption = None,
    stream: Annotated[
        bool,
        Option(
            "--stream",
            help="Read one bag in chunks, never as a whole: a .npy file of features, or a folder. Each "
            "--query is then a query of its own.",
        ),
    ] = False,
    top: Annotated[
        int | None, Option(min=0, help="With --stream: number of instances to name per query. Default: 10.")
    ] = None,
    html: Annotated[Path | None, Option(help="Also write a page with the query and the bag, witnesses framed.")] = None,
    json: JsonOption = False,
) -> None:
    """Decide whether a bag contains something of the query's class, and which instances show it.

    Example: miv verify runs/dba --query anna.png --bag letters/
    Example: miv verify --backbone auto --query anna.jpg --bag album/ --html answer.html
    Example: miv verify runs/dba --query anna1.png --query anna2.png --bag letters/
    Example: miv verify runs/dba --bags pairs.csv --out verdicts.parquet
    Example: miv verify runs/dba --query anna.npy --bag archive.npy --stream
    """
    if (model is None) == (backbone is None) and not (bag and backbone):
        raise MIVError("Give a verifier, such as runs/dba, or --backbone for an answer without one.")
    # With --backbone, all words are of the bag.
    names = [*(bag or []), *([model] if backbone and model else []), *(more or [])]
    if (bags is None) == (not query and not names) or (bags is None and not (query and names)):
        raise MIVError("Give either --query and --bag, or --bags with a table of queries and bags.")
    if bags is None and (out is not None or instances is not None or (overwrite and html is None)):
        raise MIVError(
            "--out and --instances need --bags, a table of queries and bags; --overwrite needs --bags or --html."
        )
    if stream and (bags is not None or len(names) != 1):
        raise MIVError("--stream reads one bag. Give --query and a single --bag, and not --bags.")
    if stream and witnesses is not None:
        raise MIVError(f"Got --stream and --witnesses {witnesses}. Leave out --witnesses; --top 0 names no witnesses.")
    if top is not None and not stream:
        raise MIVError("--top needs --stream, which names the leading instances of one bag that is read in chunks.")
    if (bags is not None or stream) and (html is not None or backbone is not None):
        raise MIVError("--html and --backbone are for a single --query and --bag, not for --bags or --stream.")

    if bags is not None:
        from miv.verifier.table_writing import check_output

        if out is None:
            raise MIVError("--out is missing. Give a file for the verdicts, such as --out verdicts.parquet.")
        check_output(out, overwrite=overwrite)
    check_page(html, overwrite)
    queries, zero = query or [], None
    if model is None or backbone is not None:
        from miv.runtime import RichProgress
        from miv.verifier.zero_shot import ZeroShot

        zero = ZeroShot(backbone or "auto", queries[0], RichProgress())
        verifier = zero.verifier
    else:
        verifier = open_verifier(model)
    if bags is not None and out is not None:
        options = {"instances": instances, "resize": resize, "witnesses": witnesses}
        _verify_table(verifier, bags, out, json, **options)
    elif stream:
        _verify_stream(verifier, queries, names[0], json, top=10 if top is None else top, resize=resize)
    else:
        _verify_bag(zero or verifier, queries, names, json, html, resize=resize, witnesses=witnesses)


def _verify_table(verifier: "Verifier", bags: Path, out: Path, json: bool, **options: Any) -> None:
    from miv.runtime import RichProgress
    from miv.verifier.table_writing import score_table

    scored = score_table(verifier, bags, out, progress=RichProgress(), **options)
    _print_scored(scored, out, json)
    if bare := scored.yes_without_witness:
        say(f"{number_of(bare, 'accepted bag')} without a witness. `miv calibrate` may find a better rule.")
    say(f"Wrote {out}.")


def _verify_stream(verifier: "Verifier", queries: list[str], bag: str, json: bool, **options: Any) -> None:
    """Verify a bag in chunks, with one verdict per query."""
    from miv.runtime import RichProgress
    from miv.verifier.table_reading import named_query

    references = [named_query(name, verifier.backbone.kind) for name in queries]
    verdicts = verifier.verify_stream(references, bag, progress=RichProgress(), **options)
    if json:
        rows = [{"query": name, **verdict.document()} for name, verdict in zip(queries, verdicts, strict=True)]
        print_json({"bag": bag, "verdicts": rows})
        return
    for name, verdict in zip(queries, verdicts, strict=True):
        print(f"{name}: {verdict}" if len(queries) > 1 else str(verdict))


def _verify_bag(
    source: "Verifier | ZeroShot", queries: list[str], names: list[str], json: bool, html: Path | None, **options: Any
) -> None:
    from miv.files.instances import is_file, is_folder, is_text_file
    from miv.verifier.display import as_html, as_text, in_a_line, write_page
    from miv.verifier.table_reading import named_bag, named_query
    from miv.verifier.zero_shot import ZeroShot

    verifier = source.verifier if isinstance(source, ZeroShot) else source
    kind = verifier.backbone.kind
    if isinstance(source, ZeroShot):
        references, members = list(map(source.query, queries)), source.bag(names)
    else:
        references, members = [named_query(name, kind) for name in queries], named_bag(names, kind)
    asked = references[0] if len(references) == 1 else references
    verdict = source.verify(asked, [member.instance for member in members], **options)
    if kind == "text":
        if len(names) == 1 and len(members) > 1 and is_text_file(names[0]):
            say(f"Reading {names[0]} as a bag of {len(members)} texts, one per line.")
        for word in (*queries, *names):
            if len(word.split()) == 1 and not is_file(word) and not is_folder(word):
                say(f"Read as text, because there is no such file or folder: {in_a_line(word)}")
    if json:
        asked_by = queries[0] if len(queries) == 1 else queries
        print_json({"query": asked_by, "bag": [member.name for member in members], **verdict.document()})
    else:
        print(as_text(verdict, [in_a_line(member.name) if member.in_place else member.name for member in members]))
    if html is not None:
        write_page(
            html,
            f"Query: {', '.join(map(in_a_line, queries))}",
            [as_html(verdict, [member.name for member in members])],
        )
        say(f"Wrote {html}.")
    if verdict.verdict and not verdict.witnesses and options["witnesses"] != "none" and verdict.zero_shot is None:
        say("No share is large enough for a witness; the scores still rank. `miv calibrate` may find a better rule.")


def _print_scored(scored: "Scored", out: Path, json: bool, **more: Any) -> None:
    """Print the numbers of exemplars, yes and unsure."""
    from miv.verifier.decisions import threshold_words

    between = "" if scored.lower_threshold is None else "between the thresholds or "
    why = f": {between}out of distribution" * bool(scored.unsure)
    unsure = "" if scored.lower_threshold is None and not scored.unsure else f", {scored.unsure:,} unsure{why}"
    counts = f"{number_of(scored.exemplars, 'exemplar')}, {scored.yes:,} yes{unsure}"
    words = threshold_words(scored.threshold, scored.lower_threshold) + ", not calibrated" * (not scored.calibrated)
    print_json({**asdict(scored), **more, "out": str(out)}) if json else print(f"{counts} ({words})")


@app.command("score")
def score(
    model: ModelArgument,
    table: Annotated[
        Path,
        Argument(help="Table with one query and bag per row, as for `miv verify --bags`, or a folder of such tables."),
    ],
    out: Annotated[Path, Option("--out", "-o", help="Output folder.")],
    instances: Annotated[Path | None, Option(help="A table of instances by id; queries and bags contain ids.")] = None,
    resize: ResizeOption = None,
    witnesses: WitnessesOption = None,
    rows: Annotated[int, Option(min=1, help="Maximum number of exemplars per partition.")] = 1000,
    device: Annotated[str | None, Option(help="Device of torch, such as cuda.", show_default="cpu")] = None,
    overwrite: Annotated[
        bool, Option("--overwrite", help="Overwrite results of a different table, verifier or settings.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Verify a table of any size and write a folder with one Parquet file per partition.

    After Ctrl-C or a kill, the same command resumes with the missing partitions. Several such commands at once, also
    on machines that share a disk, share the work.

    Example: miv score runs/dba pairs.parquet --out verdicts
    """
    from miv.evaluation.runs import refuse_unfinished
    from miv.runtime import RichProgress
    from miv.scoring.run import score as score_table

    refuse_unfinished(Path(model))
    settings: dict[str, Any] = {"instances": instances, "resize": resize, "rows": rows}
    settings |= {"witnesses": witnesses, "device": device, "overwrite": overwrite}
    run = score_table(model, table, out, **settings, progress=RichProgress(), say=say)
    _print_scored(run.scored, out, json, partitions=run.partitions, reused=run.reused)
    if run.reused == run.partitions:
        say(f"All {run.partitions:,} partitions were already in {out}.")
        return
    written, before = run.partitions - run.reused, f"; {run.reused:,} were already there" if run.reused else ""
    say(f"Wrote {number_of(written, 'partition')} to {out}{before}.")
