"""``miv evaluate``: the metrics of a verifier on exemplars."""

from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from miv.cli.app import CacheOption, JsonOption, ModelArgument, OverwriteOption, app, print_result, say


@app.command("evaluate")
def evaluate(
    model: ModelArgument,
    data: Annotated[Path, Argument(help="A folder of splits or a single set.")],
    split: Annotated[str, Option(help="The split to evaluate on.")] = "test",
    predictions: Annotated[Path | None, Option(help="Also write the predictions to this .parquet file.")] = None,
    witnesses: Annotated[
        str | None,
        Option(
            help="How to rank instances for i-AUROC, i-AP and i-top1: attention, alone, leave_one_out, "
            "or shapley. alone, leave_one_out and shapley work with any pooling.",
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
    from miv.evaluation.workflows import evaluate as evaluate_verifier

    start = partial(evaluate_verifier, cache=cache, overwrite=overwrite, verbose=True)
    evaluation = start(model, data, split=split, predictions=predictions, witnesses=witnesses)
    if predictions is not None:
        say(f"Wrote {predictions}.")
    print_result(evaluation, json)
