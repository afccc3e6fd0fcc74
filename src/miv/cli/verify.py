"""``miv verify``: one query against one bag, or a whole table of them."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from miv.cli.app import JsonOption, app, print_json
from miv.errors import MivError


@app.command("verify")
def verify(
    model: Annotated[str, typer.Argument(help="A run, the folder of a verifier, or its name on the hub.")],
    more: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE]...", help="Further instances of the bag: what a shell makes of --bag *.png."),
    ] = None,
    query: Annotated[
        str | None,
        typer.Option(help="An image file; a text or .txt file; a .npy file or JSON list.", show_default=False),
    ] = None,
    bag: Annotated[
        list[str] | None,
        typer.Option(
            help="A folder, an instance, or a table with a path, text or vector a row; may be given again.",
            show_default=False,
        ),
    ] = None,
    bags: Annotated[
        Path | None,
        typer.Option(help="Instead: a table with a query and a bag a row, as for `miv data from-table`."),
    ] = None,
    instances: Annotated[
        Path | None, typer.Option(help="With --bags: a table of instances by id; queries and bags hold ids.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="With --bags: the .parquet or .csv to write.")] = None,
    by_instance: Annotated[
        bool, typer.Option("--by-instance", help="With --bags: write a row an instance, not a row an exemplar.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace --out where it is there.")] = False,
    resize: Annotated[
        Literal["stretch", "crop", "pad"] | None,
        typer.Option(help="Bring images of another size to that of the training: stretched, cropped, or padded."),
    ] = None,
    witnesses: Annotated[
        Literal["attention", "leave_one_out", "shapley", "rollout", "none"] | None,
        typer.Option(
            help="By what witnesses are chosen. Without it as calibrated, else by attention where the pooling has it, "
            "else by leave_one_out, which verifies a bag of N another N times; none saves that.",
            show_default=False,
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Say whether a bag holds something of the query's class, and which of its instances show it.

    Example: miv verify runs/dba --query anna.png --bag letters/
    Example: miv verify runs/dba --bags pairs.csv --out verdicts.parquet
    """
    names = [*(bag or []), *(more or [])]
    if (bags is None) == (query is None and not names) or (bags is None and not (query and names)):
        raise MivError("Give either --query and --bag, or --bags with a table of queries and bags.")
    if bags is None and (out is not None or instances is not None or by_instance):
        raise MivError("--out, --instances and --by-instance go with --bags, a table of queries and bags.")

    from miv.progress import RichProgress
    from miv.scoring import check_output, named_bag, named_query, score_table
    from miv.training.run_folder import refuse_unfinished
    from miv.verdict_text import as_text
    from miv.verifier import Verifier

    if bags is not None:
        if out is None:
            raise MivError("--out is missing. Say where the verdicts go: --out verdicts.parquet, or .csv.")
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
            print(f"{scored.exemplars:,} exemplars, {scored.yes:,} yes (threshold {scored.threshold:.3f})")
        typer.echo(f"Wrote {out}.", err=True)
        return
    kind = verifier.backbone.kind
    members = named_bag(names, kind)
    instance = named_query(query or "", kind)
    verdict = verifier.verify(instance, [member.instance for member in members], resize=resize, witnesses=witnesses)
    called = [member.name for member in members]
    if json:
        print_json({"query": query, "bag": called, **verdict.document()})
    else:
        print(as_text(verdict, called))
