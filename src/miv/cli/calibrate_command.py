"""``miv calibrate``: choose a verifier's threshold, scaling and witness rule on validation data."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from miv.cli.app import CacheOption, JsonOption, app, print_json
from miv.cli.calibration_inputs import (
    goal_text,
    kept_answers,
    point_in_words,
    refuse_calibrated,
    refuse_split,
    sizes_of,
)
from miv.errors import MIVError
from miv.files.atomic import refuse_existing_in


@app.command("calibrate")
def calibrate(
    model: Annotated[Path, typer.Argument(help="A run or a verifier folder.", show_default=False)],
    data: Annotated[Path, typer.Argument(help="A folder of splits or a single set.", show_default=False)],
    split: Annotated[str, typer.Option(help="The split to calibrate on.")] = "validation",
    goal: Annotated[
        str | None,
        typer.Option(help="eer, far=0.01, frr=0.05, or cost=FALSE_ACCEPT:FALSE_REJECT[:PRIOR].", show_default="eer"),
    ] = None,
    far: Annotated[
        float | None,
        typer.Option(help="Highest false-accept rate: the same as --goal far=RATE.", show_default=False),
    ] = None,
    frr: Annotated[
        float | None,
        typer.Option(
            help="Highest false-reject rate. With --far there are two thresholds, and answers between them are unsure.",
            show_default=False,
        ),
    ] = None,
    scaling: Annotated[str, typer.Option(help="auto, none, temperature, platt or isotonic.")] = "auto",
    epsilon: Annotated[float, typer.Option(help="Share of true witnesses that may be missed.")] = 0.1,
    witnesses: Annotated[
        Literal["attention", "alone", "leave_one_out", "shapley", "rollout"] | None,
        typer.Option(
            help="How to rank witnesses. Default: attention if the pooling has it, else leave_one_out.",
            show_default=False,
        ),
    ] = None,
    cluster_by: Annotated[
        Literal["class", "query_id", "query", "group"] | None,
        typer.Option(
            help="Which exemplars may depend on each other: those whose queries share a class, an id, a query or a "
            "group. Default: class if known, else query_id if known, else query.",
            show_default=False,
        ),
    ] = None,
    unlike: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=0.5,
            help="Share of ordinary inputs that may be called unlike the training data, which makes the answer unsure; "
            "0 for no such limit. Default: 0.01, or the lowest that the data can promise.",
            show_default=False,
        ),
    ] = None,
    plots: Annotated[
        Path | None,
        typer.Option(help="Also draw ROC, DET and reliability curves in this folder.", show_default=False),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Overwrite an existing operating point and existing curves.")
    ] = False,
    cache: CacheOption = None,
    json: JsonOption = False,
) -> None:
    """Choose when a verifier says yes and which instances are witnesses, and save both in its folder.

    A rate such as far=0.01 holds with 95 % confidence, for queries of new classes if classes are known; it is an error
    if the data are too few to show it.
    Of four scalings from logits to probabilities, cross-validation picks the simplest that is close to the best.

    Example: miv calibrate runs/dba twin --goal far=0.1 --plots curves
    Example: miv calibrate runs/dba twin --far 0.01 --frr 0.05
    """
    from miv.backbones.cache import embed_exemplars
    from miv.data import load_split
    from miv.data.folder import is_set
    from miv.evaluation import calibrate as choose
    from miv.evaluation import parse_goal
    from miv.evaluation.calibration_output import PICTURE_FILES, check_point_card, little_said, write_point_card
    from miv.evaluation.out_of_distribution import limit_words, replace_limit, unlike_limit
    from miv.evaluation.predicting import predict, witness_shares
    from miv.evaluation.runs import refuse_unfinished
    from miv.explain import check_method
    from miv.files.cache import feature_folder
    from miv.files.weights import find_verifier
    from miv.runtime import RichProgress
    from miv.verifier.network import Verifier
    from miv.verifier.saving import is_folder

    if not is_folder(str(model)):
        raise MIVError(
            f"There is no folder {model}. Expected a run or a verifier folder. To calibrate one from the hub, save it "
            "first: Verifier.from_pretrained(...).save_pretrained(FOLDER)."
        )
    wanted = parse_goal(goal_text(goal, far, frr))
    if plots is not None:
        refuse_existing_in(plots, PICTURE_FILES, overwrite=overwrite)
    name = data.resolve().name if is_set(data) else split
    refuse_split(name)
    refuse_unfinished(model)
    verifier = Verifier.from_pretrained(model)
    by = witnesses or ("attention" if verifier.pooling.has_attention else "leave_one_out")
    check_method(verifier.pooling, by)
    folder = find_verifier(model)
    refuse_calibrated(folder, verifier.operating_point, overwrite)
    check_point_card(folder)
    exemplars = load_split(data, split, verify=True)
    kept, progress = kept_answers(model, exemplars), RichProgress()
    needs_shares = by != "attention" and exemplars.witness is not None
    features = shares = None
    if kept is None or needs_shares:
        features = embed_exemplars(verifier.backbone, exemplars, feature_folder(cache), progress)
    answers = predict(verifier, exemplars, features, progress) if kept is None else kept
    limit = unlike_limit(verifier, data, exemplars, features, unlike, feature_folder(cache), progress)
    if needs_shares:
        shares = witness_shares(verifier, exemplars, answers.logit, by, progress, features)
    found = choose(answers, wanted, scaling, epsilon, shares=shares, witnesses_by=by, cluster_by=cluster_by)
    about = {"name": name, "path": str(data), "fingerprint": exemplars.fingerprint, **sizes_of(exemplars)}
    measured = {"data": about, **found.point.measured}
    found = found.with_measured(measured)
    if plots is not None:
        for path in found.write_pictures(plots):
            typer.echo(f"Wrote {path}.", err=True)
    found.point.save(folder)
    replace_limit(folder, limit, unlike)
    write_point_card(folder, found.point)
    typer.echo(f"Saved the operating point in {folder}, also on its model card; miv verify uses it.", err=True)
    before = verifier.operating_point
    if not before.is_default:
        typer.echo(f"It replaces the operating point for {point_in_words(before)}.", err=True)
    witness_sets = found.point.measured["witnesses"]
    if witness_sets is not None and witness_sets["too_few"] is not None:
        typer.echo(f"Witnesses follow the default rule, without a guarantee: {witness_sets['too_few']}", err=True)
    if json:
        if little_said(found.point):
            typer.echo(little_said(found.point), err=True)
        print_json({**found.point.document(), **({} if limit is None else {"unlike": limit.document()})})
    else:
        print(found.text())
        if limit is not None:
            print(limit_words(limit, classes=exemplars.pool.classes is not None))
