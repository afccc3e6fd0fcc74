"""``miv evaluate``: the metrics of a verifier on exemplars."""

from pathlib import Path
from typing import Annotated

import typer

from miv.cli.app import JsonOption, app, print_json
from miv.errors import unknown_name


@app.command("evaluate")
def evaluate(
    model: Annotated[str, typer.Argument(help="A run, the folder of a verifier, or its name on the hub.")],
    data: Annotated[Path, typer.Argument(help="A folder of splits, or one set.", show_default=False)],
    split: Annotated[str, typer.Option(help="The split to evaluate on.")] = "test",
    predictions: Annotated[
        Path | None, typer.Option(help="Also write the answers to this .parquet file.", show_default=False)
    ] = None,
    curves: Annotated[
        Path | None, typer.Option(help="Also draw ROC and precision-recall into this folder.", show_default=False)
    ] = None,
    json: JsonOption = False,
) -> None:
    """Verify every exemplar of a split and print the metrics.

    Example: miv evaluate runs/dba exemplars --split validation
    """
    from miv.evaluation import evaluate as measure
    from miv.evaluation import write_curves
    from miv.exemplars import ExemplarSet, load_splits
    from miv.exemplars.folder import is_set
    from miv.prediction import predict
    from miv.progress import RichProgress
    from miv.training.run_folder import refuse_unfinished
    from miv.verifier import Verifier

    if is_set(data):
        exemplars = ExemplarSet.load(data)
    else:
        sets = load_splits(data)
        if split not in sets:
            raise unknown_name("split", split, sets)
        exemplars = sets[split]
    refuse_unfinished(Path(model))
    verifier = Verifier.from_pretrained(model)
    answers = predict(verifier, exemplars, progress=RichProgress())
    if predictions is not None:
        answers.save(predictions)
        typer.echo(f"Wrote {predictions}.", err=True)
    if curves is not None:
        write_curves(answers, curves)
        typer.echo(f"Drew {curves}/roc and {curves}/precision_recall, each as .png and .svg.", err=True)
    found = measure(answers)
    if json:
        print_json(found.document())
    else:
        print(found.text())
