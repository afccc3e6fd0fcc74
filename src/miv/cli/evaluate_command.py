"""``miv evaluate``: the metrics of a verifier on exemplars."""

from pathlib import Path
from typing import Annotated

import typer

from miv.cli.app import CacheOption, JsonOption, ModelArgument, OverwriteOption, app, print_json


@app.command("evaluate")
def evaluate(
    model: ModelArgument,
    data: Annotated[Path, typer.Argument(help="A folder of splits or a single set.", show_default=False)],
    split: Annotated[str, typer.Option(help="The split to evaluate on.")] = "test",
    predictions: Annotated[
        Path | None, typer.Option(help="Also write the predictions to this .parquet file.", show_default=False)
    ] = None,
    plots: Annotated[
        Path | None,
        typer.Option(
            "--plots", "--curves", help="Also draw ROC and precision-recall curves in this folder.", show_default=False
        ),
    ] = None,
    witnesses: Annotated[
        str | None,
        typer.Option(
            help="How to rank instances for i-AUROC, i-AP, i-MRR and i-top1: attention, alone, leave_one_out, "
            "shapley, or rollout (msa only). alone, leave_one_out and shapley work with any pooling.",
            show_default="attention, if the pooling has it",
        ),
    ] = None,
    overwrite: OverwriteOption = False,
    cache: CacheOption = None,
    json: JsonOption = False,
) -> None:
    """Verify every exemplar of a split and print metrics.

    Cached features are reused; new features are added to the cache.

    Example: miv evaluate runs/dba exemplars --split validation
    """
    from miv.training.evaluate import evaluate as evaluate_verifier

    found = evaluate_verifier(
        model,
        data,
        split=split,
        predictions=predictions,
        plots=plots,
        witnesses=witnesses,
        cache=cache,
        overwrite=overwrite,
        verbose=True,
    )
    if predictions is not None:
        typer.echo(f"Wrote {predictions}.", err=True)
    if plots is not None:
        typer.echo(f"Drew {plots}/roc and {plots}/precision_recall, each as .png and .svg.", err=True)
    if json:
        print_json(found.document())
    else:
        print(found.text())
