"""``miv calibrate``: choose a verifier's threshold, scaling and witness rule on validation data."""

from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Option

from miv.cli.app import CacheOption, JsonOption, app, print_result, say
from miv.errors import MIVError


@app.command("calibrate")
def calibrate(
    model: Annotated[Path, Argument(help="A run or a verifier folder.")],
    data: Annotated[Path, Argument(help="A folder of splits or a single set.")],
    split: Annotated[str, Option(help="The split to calibrate on.")] = "validation",
    goal: Annotated[
        str | None,
        Option(help="The same in one text, as in Python: eer, far=0.01 or far=0.01,frr=0.05.", show_default="eer"),
    ] = None,
    far: Annotated[float | None, Option(help="Highest false-accept rate, such as 0.05.")] = None,
    frr: Annotated[
        float | None,
        Option(
            help="Highest false-reject rate. With --far, there are two thresholds; answers between them are unsure. "
            "Without either, both rates are about equal on the data."
        ),
    ] = None,
    scaling: Annotated[str, Option(help="auto, none, temperature or platt.")] = "auto",
    epsilon: Annotated[float | None, Option(help="Share of true witnesses that the marked ones may miss.")] = None,
    witnesses: Annotated[
        Literal["attention", "alone", "leave_one_out"] | None,
        Option(help="How to rank witnesses. Default: attention if the pooling has it, else leave_one_out."),
    ] = None,
    cluster_by: Annotated[
        Literal["class", "query_id", "query", "group"] | None,
        Option(
            help="Which exemplars may depend on each other: those whose queries share a class, an id, a query or a "
            "group. Default: class if known, else query_id if known, else query."
        ),
    ] = None,
    out_of_distribution: Annotated[
        float | None,
        Option(
            min=0.0,
            max=0.5,
            help='False-alarm rate of the out-of-distribution check, which answers "unsure"; 0 removes the check. '
            "Default: 0.01, or the lowest that the data can promise.",
        ),
    ] = None,
    confidence: Annotated[float, Option(help="With which the rates of the goal are promised, from 0.5.")] = 0.95,
    overwrite: Annotated[bool, Option("--overwrite", help="Overwrite an existing operating point.")] = False,
    cache: CacheOption = None,
    json: JsonOption = False,
) -> None:
    """Choose when a verifier says yes and which instances are witnesses, and save both in its folder.

    Without --far and --frr, both error rates are made equal. A rate holds with 95 % confidence, for queries of new
    classes if classes are known; it is an error if the data are too few to show it. A table shows what other rates and
    confidences would cost. Of three scalings from logits to probabilities, cross-validation picks the simplest that is
    close to the best.

    Example: miv calibrate runs/dba twin --far 0.1
    Example: miv calibrate runs/dba twin --far 0.01 --frr 0.05
    """
    from miv.evaluation.workflows import calibrate as calibrate_verifier

    rates = [f"{name}={rate!r}" for name, rate in (("far", far), ("frr", frr)) if rate is not None]
    if goal is not None and rates:
        raise MIVError(f"Got --goal {goal} and --{rates[0].partition('=')[0]}. Give either --goal, or --far and --frr.")
    goal = goal if goal is not None else ",".join(rates) or "eer"
    settings: dict[str, Any] = {"scaling": scaling, "epsilon": epsilon, "confidence": confidence, "cache": cache}
    settings |= {"witnesses": witnesses, "cluster_by": cluster_by, "out_of_distribution": out_of_distribution}
    result = calibrate_verifier(model, data, split=split, goal=goal, **settings, overwrite=overwrite, verbose=True)
    for note in [*result.notes, *([result.warning] if json and result.warning else [])]:
        say(note)
    print_result(result, json)
