"""``miv audit``: is a verifier right for the right reason?"""

from functools import partial
from typing import Annotated

from typer import Argument, Option

from miv.cli.app import CacheOption, JsonOption, app, print_result
from miv.errors import MIVError


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
            help="How to rank witnesses: attention, alone, leave_one_out or shapley.",
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
    start = partial(audit_verifiers, cache=cache, verbose=True)
    report = start(models, data, split=split, witnesses=witnesses, most=exemplars, seed=seed)
    print_result(report, json)
