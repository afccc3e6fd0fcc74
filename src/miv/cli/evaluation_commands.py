"""``miv evaluate``, ``audit``, ``report`` and ``runs``: how good verifiers are."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from miv.cli.app import CacheOption, JsonOption, ModelArgument, OverwriteOption, app, print_json, print_result, say
from miv.errors import MIVError
from miv.runtime import table_of


@app.command("evaluate")
def evaluate(
    model: ModelArgument,
    data: Annotated[Path, Argument(help="A folder of splits or a single set.")],
    split: Annotated[str, Option(help="The split to evaluate on.")] = "test",
    predictions: Annotated[Path | None, Option(help="Also write the predictions to this .parquet file.")] = None,
    witnesses: Annotated[
        str | None,
        Option(
            help="How to rank instances for i-AUROC, i-AP and i-top1: attention, alone or leave_one_out, "
            "where the last two work with any pooling.",
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

    chosen: dict[str, Any] = {"split": split, "predictions": predictions, "witnesses": witnesses}
    evaluation = evaluate_verifier(model, data, **chosen, cache=cache, overwrite=overwrite, verbose=True)
    if predictions is not None:
        say(f"Wrote {predictions}.")
    print_result(evaluation, json)


@app.command("audit")
def audit(
    models_and_data: Annotated[
        list[str],
        Argument(
            metavar="MODELS... DATA",
            help="One or more runs, verifier folders or names on the hub, then a folder of splits or a single set.",
        ),
    ],
    split: Annotated[str, Option(help="The split to audit on.")] = "test",
    witnesses: Annotated[
        str | None,
        Option(
            help="How to rank witnesses: attention, alone or leave_one_out.",
            show_default="attention, or leave_one_out if the pooling has no attention",
        ),
    ] = None,
    exemplars: Annotated[int, Option(min=1, help="Maximum number of exemplars; larger splits are sampled.")] = 5000,
    seed: Annotated[int, Option(min=0, help="Random seed.")] = 0,
    cache: CacheOption = None,
    json: JsonOption = False,
) -> None:
    """Check whether a model is right for the right reason. Several models are compared in the same tables.

    Where did it look? Does the verdict change when the witnesses are deleted, or the query is swapped?

    Example: miv audit runs/cap runs/baseline twin
    """
    from miv.evaluation.workflows import audit as audit_verifiers

    *models, data = models_and_data
    if not models:
        raise MIVError(f"The data argument is missing: got only {data}. Expected miv audit MODELS... DATA.")
    chosen: dict[str, Any] = {"split": split, "witnesses": witnesses, "most": exemplars, "seed": seed}
    print_result(audit_verifiers(models, data, **chosen, cache=cache, verbose=True), json)


@app.command("report")
def report(
    runs: Annotated[list[Path], Argument(help="One or more run folders.")],
    out: Annotated[Path, Option("--out", "-o", help="HTML file to write.")] = Path("report.html"),
    split: Annotated[str, Option(help="Split to show.")] = "test",
    data: Annotated[Path | None, Option(help="Folder of splits.", show_default="the data of the run")] = None,
    exemplars: Annotated[int, Option(help="Maximum number of exemplars in the gallery.")] = 2000,
    title: Annotated[str, Option(help="Page title.", show_default="the data and the split")] = "",
    overwrite: OverwriteOption = False,
) -> None:
    """Write the results of runs as one self-contained HTML page that works offline.

    Shows metrics, curves, calibration, and a gallery that compares the models on exemplars, the most
    confident errors first.

    Example: miv report runs/cap runs/baseline --out report.html
    """
    from miv.evaluation.workflows import report as write_report

    shown: dict[str, Any] = {"split": split, "data": data, "exemplars": exemplars, "title": title}
    write_report(runs, out, **shown, overwrite=overwrite, verbose=True)
    say(f"Wrote {out} ({out.stat().st_size / 1e6:.1f} MB); open it in a browser.")
    print(out)


runs_app = typer.Typer(help="List and compare runs.", no_args_is_help=True)
app.add_typer(runs_app, name="runs")

SplitOption = Annotated[str, Option(help="Split to show metrics for.")]


@runs_app.command("list")
def list_runs(
    folder: Annotated[Path, Argument(help="Folder of runs.")] = Path("runs"),
    split: SplitOption = "test",
    json: JsonOption = False,
) -> None:
    """List the runs in a folder with their metrics."""
    from miv.evaluation.runs import find_runs, summarise_runs

    if not folder.is_dir():
        raise MIVError(f"There is no folder {folder}. Expected a folder of runs of `miv train`.")
    rows = summarise_runs(find_runs(folder), split, keep_damaged=True)
    print_json(rows) if json else print(table_of(rows))


@runs_app.command("compare")
def compare(
    runs: Annotated[list[Path], Argument(help="Run folders.")], split: SplitOption = "test", json: JsonOption = False
) -> None:
    """Compare runs: metrics with intervals, paired tests against the first run, and the settings that differ."""
    from miv.evaluation.run_comparison import compare_runs, comparison_text

    rows = compare_runs(runs, split)
    print_json(rows) if json else print(comparison_text(rows))
