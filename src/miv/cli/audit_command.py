"""``miv audit``: is a verifier right for the right reason?"""

from pathlib import Path
from typing import Annotated

import typer

from miv.cli.app import CacheOption, JsonOption, OverwriteOption, app, print_json
from miv.errors import MIVError, unknown_name
from miv.files.atomic import refuse_existing


@app.command("audit")
def audit(
    given: Annotated[
        list[str],
        typer.Argument(
            metavar="MODELS... DATA",
            help="One or more runs, verifier folders or names on the hub, then a folder of splits or a single set.",
            show_default=False,
        ),
    ],
    split: Annotated[str, typer.Option(help="The split to audit on.")] = "test",
    witnesses: Annotated[
        str | None,
        typer.Option(
            help="How to rank witnesses: attention, alone, leave_one_out, shapley, or rollout (msa only).",
            show_default="attention, or leave_one_out if the pooling has no attention",
        ),
    ] = None,
    exemplars: Annotated[
        int, typer.Option(min=1, help="Maximum number of exemplars; larger splits are sampled.")
    ] = 5000,
    unit_tests: Annotated[
        bool, typer.Option("--unit-tests/--no-unit-tests", help="Also train each pooling on the unit tests.")
    ] = True,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    out: Annotated[
        list[Path] | None,
        typer.Option(help="Also write to this .md, .json or .txt file; repeatable.", show_default=False),
    ] = None,
    overwrite: OverwriteOption = False,
    cache: CacheOption = None,
    json: JsonOption = False,
) -> None:
    """Check whether a model is right for the right reason. Several models are compared in the same tables.

    Where did it look? Does the verdict change when the witnesses are deleted or the query is swapped? What do larger
    bags and distractors do? Does its pooling pass the algorithmic unit tests of multiple instance learning?

    Example: miv audit runs/cap runs/baseline twin --out audit.md
    """
    from miv.data import load_split
    from miv.evaluation.audit_report import audit_models, check_suffix
    from miv.evaluation.runs import refuse_unfinished
    from miv.explain import METHODS
    from miv.files.cache import feature_folder
    from miv.runtime import RichProgress
    from miv.verifier.network import Verifier

    *models, last = given
    if not models:
        raise MIVError(f"The data argument is missing: got only {last}. Expected miv audit MODELS... DATA.")
    data = Path(last)
    if witnesses is not None and witnesses not in METHODS:
        raise unknown_name("explanation method", witnesses, METHODS)
    for path in out or []:
        check_suffix(path)
        refuse_existing(path, overwrite=overwrite)
    found = load_split(data, split, verify=True)
    if len(set(models)) < len(models):
        raise MIVError("A model is given twice. Give each model once.")
    for model in models:
        refuse_unfinished(Path(model))
    report = audit_models(
        {_short(model, models): Verifier.from_pretrained(model) for model in models},
        found,
        {"data": str(data), "split": split, "models": models},
        witnesses=witnesses,
        most=exemplars,
        unit_tests=unit_tests,
        seed=seed,
        cache=feature_folder(cache),
        progress=RichProgress(),
    )
    for path in out or []:
        report.save(path)
        typer.echo(f"Wrote {path}.", err=True)
    if json:
        print_json(report.document())
    else:
        print(report.text())


def _short(model: str, models: list[str]) -> str:
    """The last part of a model's path if it is unique among the models."""
    names = [Path(one).name for one in models]
    return model if names.count(Path(model).name) > 1 else Path(model).name
