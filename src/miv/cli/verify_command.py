"""``miv verify``: verify one query and bag, or a whole table of them."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from miv.cli.app import JsonOption, ModelArgument, OverwriteOption, ResizeOption, app, print_json
from miv.cli.query_values import OneValuePerQuery
from miv.errors import MIVError

if TYPE_CHECKING:
    from miv.files.images import Fit
    from miv.verifier.decisions import OperatingPoint
    from miv.verifier.network import Verifier


@app.command("verify", cls=OneValuePerQuery)
def verify(
    model: ModelArgument,
    more: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE]...", help="More instances of the bag, as when a shell expands --bag *.png."),
    ] = None,
    query: Annotated[
        list[str] | None,
        typer.Option(
            help="An image file; a text or a .txt file; or a vector, as a .npy file or a list such as '[0.1, 0.2]'. "
            "Repeat it for several references, instances of one class.",
            show_default=False,
        ),
    ] = None,
    bag: Annotated[
        list[str] | None,
        typer.Option(
            help="A folder, an instance, a table with one path, text or vector per row, or, for texts, one .txt file "
            "with one text per line; repeatable.",
            show_default=False,
        ),
    ] = None,
    bags: Annotated[
        Path | None,
        typer.Option(
            help="Table with one query and bag per row, as for `miv data from-table`; replaces --query and --bag."
        ),
    ] = None,
    instances: Annotated[
        Path | None, typer.Option(help="With --bags: a table of instances by id; queries and bags contain ids.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="With --bags: the .parquet or .csv file to write.")
    ] = None,
    by_instance: Annotated[
        bool, typer.Option("--by-instance", help="With --bags: write one row per instance instead of one per exemplar.")
    ] = False,
    overwrite: OverwriteOption = False,
    resize: ResizeOption = None,
    witnesses: Annotated[
        Literal["attention", "alone", "leave_one_out", "shapley", "rollout", "none"] | None,
        typer.Option(
            help="How to choose witnesses. Default: as calibrated, else attention if the pooling has it, "
            "else leave_one_out, which verifies a bag of N another N times; none skips witnesses. A calibrated rule "
            "holds only for its own method; others use the default rule.",
            show_default=False,
        ),
    ] = None,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream",
            help="Read one bag in chunks, in constant memory: a .npy or .parquet file of features, or a folder. Each "
            "--query is then a query of its own.",
        ),
    ] = False,
    top: Annotated[
        int | None,
        typer.Option(
            min=0, help="With --stream: number of instances to name per query. Default: 10.", show_default=False
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Decide whether a bag contains something of the query's class, and which instances show it.

    Example: miv verify runs/dba --query anna.png --bag letters/
    Example: miv verify runs/dba --query anna1.png --query anna2.png --bag letters/
    Example: miv verify runs/dba --bags pairs.csv --out verdicts.parquet
    Example: miv verify runs/dba --query anna.npy --bag archive.npy --stream
    """
    names = [*(bag or []), *(more or [])]
    if (bags is None) == (not query and not names) or (bags is None and not (query and names)):
        raise MIVError("Give either --query and --bag, or --bags with a table of queries and bags.")
    if bags is None and (out is not None or instances is not None or by_instance or overwrite):
        raise MIVError("--out, --overwrite, --instances and --by-instance need --bags, a table of queries and bags.")
    if stream and (bags is not None or len(names) != 1):
        raise MIVError("--stream reads one bag. Give --query and a single --bag, and not --bags.")
    if stream and witnesses is not None:
        raise MIVError(
            f"Got --stream and --witnesses {witnesses}. With --stream, witnesses are always chosen among the leading "
            "instances: leave out --witnesses, and use --top 0 to name none."
        )
    if top is not None and not stream:
        raise MIVError("--top needs --stream, which names the leading instances of one bag that is read in chunks.")

    from miv.evaluation.runs import refuse_unfinished
    from miv.files.instances import is_file, is_folder, is_text_file
    from miv.runtime import RichProgress
    from miv.verifier.decisions import threshold_words
    from miv.verifier.display import as_text, in_a_line
    from miv.verifier.network import Verifier
    from miv.verifier.table_reading import named_bag, named_query
    from miv.verifier.table_writing import check_output, score_table

    if bags is not None:
        if out is None:
            raise MIVError(
                "--out is missing. Give a file for the verdicts, such as --out verdicts.parquet or verdicts.csv."
            )
        check_output(out, overwrite=overwrite)
    refuse_unfinished(Path(model))
    verifier = Verifier.from_pretrained(model)
    if bags is not None and out is not None:
        scored = score_table(
            verifier,
            bags,
            out,
            instances=instances,
            by_instance=by_instance,
            resize=resize,
            witnesses=witnesses,
            progress=RichProgress(),
        )
        if json:
            print_json({**asdict(scored), "out": str(out)})
        else:
            counted = f"{scored.exemplars:,} exemplar{'s' * (scored.exemplars != 1)}"
            unsure = "" if scored.lower_threshold is None and not scored.unsure else f", {scored.unsure:,} unsure"
            print(
                f"{counted}, {scored.yes:,} yes{unsure} ({threshold_words(scored.threshold, scored.lower_threshold)})"
            )
        if scored.odd_label is not None:
            typer.echo(f"A label is neither 0 nor 1 and is copied unchanged: {scored.odd_label}.", err=True)
        point = verifier.operating_point.for_witnesses_by(scored.witnesses_by)
        if scored.yes_without_witness:
            _hint_to_calibrate(
                point, f"In {scored.yes_without_witness:,} accepted bag{'s' * (scored.yes_without_witness != 1)},"
            )
        nearly_whole = point.nearly_whole_sets
        if nearly_whole is not None and witnesses != "none":
            typer.echo(
                f"The witness sets are not informative: they contain {nearly_whole:.0%} of a bag on average.", err=True
            )
        typer.echo(f"Wrote {out}.", err=True)
        return
    kind = verifier.backbone.kind
    if stream:
        _verify_stream(verifier, query or [], names, 10 if top is None else top, resize, json)
        return
    members = named_bag(names, kind)
    references = [named_query(one, verifier.backbone.kind) for one in query or []]
    asked = references[0] if len(references) == 1 else references
    verdict = verifier.verify(asked, [member.instance for member in members], resize=resize, witnesses=witnesses)
    if kind == "text":
        if len(names) == 1 and len(members) > 1 and is_text_file(names[0]):
            typer.echo(f"Reading {names[0]} as a bag of {len(members)} texts, one per line.", err=True)
        for word in (*(query or []), *names):
            if len(word.split()) == 1 and not is_file(word) and not is_folder(word):
                typer.echo(f"Read as text, because there is no such file or folder: {in_a_line(word)}", err=True)
    if json:
        asked_by = query[0] if query is not None and len(query) == 1 else query
        print_json({"query": asked_by, "bag": [member.name for member in members], **verdict.document()})
    else:
        print(as_text(verdict, [in_a_line(one.name) if one.in_place else one.name for one in members]))
    if verdict.verdict and not verdict.witnesses and witnesses != "none":
        _hint_to_calibrate(verifier.operating_point.for_witnesses_by(verdict.witnesses_by), "In this accepted bag,")


def _verify_stream(
    verifier: "Verifier", queries: list[str], names: list[str], top: int, resize: "Fit | None", json: bool
) -> None:
    from miv.runtime import RichProgress
    from miv.verifier.table_reading import named_query

    asked = [named_query(one, verifier.backbone.kind) for one in queries]
    verdicts = verifier.verify_stream(asked, names[0], top=top, resize=resize, progress=RichProgress())
    if json:
        found = [{"query": one, **verdict.document()} for one, verdict in zip(queries, verdicts, strict=True)]
        print_json({"bag": names[0], "verdicts": found})
        return
    for one, verdict in zip(queries, verdicts, strict=True):
        print(f"{one}: {verdict}" if len(queries) > 1 else str(verdict))


def _hint_to_calibrate(point: "OperatingPoint", which: str) -> None:
    """Explain why an accepted bag has no witness if calibration might name one."""
    from miv.verifier.decisions import StatedRule

    rule = point.witness_rule
    if isinstance(rule, StatedRule):
        typer.echo(
            f"{which} no instance has {rule.factor:g} times an even share, so none counts as a witness. "
            "`miv calibrate` finds a better rule from data with known witnesses. The scores still rank the instances.",
            err=True,
        )
