"""``miv calibrate``: choose a verifier's threshold, scaling and witness rule on validation data."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from miv.cli.app import CacheOption, JsonOption, app, print_json
from miv.errors import MIVError
from miv.io.whole_files import refuse_existing_in

if TYPE_CHECKING:
    from miv.data import ExemplarSet
    from miv.decisions.operating_point import OperatingPoint
    from miv.evaluation import Predictions

_NOT_FOR_CALIBRATION = {
    "train": "the verifier was trained on it and is overconfident there",
    "test": "a threshold chosen on it can no longer be tested on it",
}


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
    from miv.backbones.feature_cache import embed_exemplars
    from miv.calibration import calibrate as choose
    from miv.calibration import parse_goal
    from miv.calibration.calibration_pictures import PICTURE_FILES
    from miv.calibration.calibration_text import little_said
    from miv.calibration.point_card import check_point_card, write_point_card
    from miv.cli.unlike_calibration import limit_words, replace_limit, unlike_limit
    from miv.data import load_split
    from miv.data.set_folder import is_set
    from miv.explain import check_method
    from miv.inference.prediction import predict, witness_shares
    from miv.io.cache_folder import feature_folder
    from miv.io.model_files import find_verifier
    from miv.models.hub import is_folder
    from miv.models.verifier import Verifier
    from miv.runtime.progress import RichProgress
    from miv.training.run_folder import refuse_unfinished

    if not is_folder(str(model)):
        raise MIVError(
            f"There is no folder {model}. Expected a run or a verifier folder. To calibrate one from the hub, save it "
            "first: Verifier.from_pretrained(...).save_pretrained(FOLDER)."
        )
    wanted = parse_goal(_goal(goal, far, frr))
    if plots is not None:
        refuse_existing_in(plots, PICTURE_FILES, overwrite=overwrite)
    name = data.resolve().name if is_set(data) else split
    if name in _NOT_FOR_CALIBRATION:
        raise MIVError(f"Cannot calibrate on {name}: {_NOT_FOR_CALIBRATION[name]}. Use validation data.")
    refuse_unfinished(model)
    verifier = Verifier.from_pretrained(model)
    by = witnesses or ("attention" if verifier.pooling.has_attention else "leave_one_out")
    check_method(verifier.pooling, by)
    folder = find_verifier(model)
    _refuse_calibrated(folder, verifier.operating_point, overwrite)
    check_point_card(folder)
    exemplars = load_split(data, split, verify=True)
    kept, progress = _kept_answers(model, exemplars), RichProgress()
    needs_shares = by != "attention" and exemplars.witness is not None
    features = shares = None
    if kept is None or needs_shares:
        features = embed_exemplars(verifier.backbone, exemplars, feature_folder(cache), progress)
    answers = predict(verifier, exemplars, features, progress) if kept is None else kept
    limit = unlike_limit(verifier, data, exemplars, features, unlike, feature_folder(cache), progress)
    if needs_shares:
        shares = witness_shares(verifier, exemplars, answers.logit, by, progress, features)
    found = choose(answers, wanted, scaling, epsilon, shares=shares, witnesses_by=by, cluster_by=cluster_by)
    about = {"name": name, "path": str(data), "fingerprint": exemplars.fingerprint}
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
        typer.echo(f"It replaces the operating point for {_in_words(before)}.", err=True)
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
            print(limit_words(limit))


def _refuse_calibrated(folder: Path, point: "OperatingPoint", overwrite: bool) -> None:
    """Raise an error before the work if the verifier has an operating point that may not be replaced."""
    from miv.decisions.operating_point import OPERATING_POINT_NAME

    path = folder / OPERATING_POINT_NAME
    if path.exists() and not overwrite:
        raise MIVError(
            f"{path} already exists ({_in_words(point)}). Use --overwrite to replace it. To keep it, copy the file or "
            "the folder of the verifier first."
        )


def _in_words(point: "OperatingPoint") -> str:
    on = point.measured.get("data", {})
    where = f" on {on.get('path', 'other data')}, {on['name']}" if "name" in on else ""
    return f"{point.goal}, threshold {point.threshold:.4f}{where}"


def _goal(goal: str | None, far: float | None, frr: float | None) -> str:
    rates = [f"{name}={rate!r}" for name, rate in (("far", far), ("frr", frr)) if rate is not None]
    if goal is not None and rates:
        raise MIVError(f"Got --goal {goal} and --{rates[0].partition('=')[0]}. Give either --goal, or --far and --frr.")
    return goal if goal is not None else ",".join(rates) or "eer"


def _kept_answers(model: Path, exemplars: "ExemplarSet") -> "Predictions | None":
    """The predictions saved by the verifier's run, if they are on the same data."""
    from miv.evaluation import Predictions
    from miv.training.run_folder import RunFolder

    run = RunFolder(model)
    if run.exists():
        fingerprint = exemplars.fingerprint
        try:
            about = run.read()
        except MIVError as error:  # the verifier itself is intact, and `miv evaluate` and `miv verify` use it too
            typer.echo(
                f"Warning: {error} Calibrating anyway, but miv cannot tell whether these data are a train or test "
                "split of the run. Make sure that they are not.",
                err=True,
            )
            return None
        for split, of_run in about.get("data", {}).get("fingerprints", {}).items():
            if of_run != fingerprint:
                continue
            if split in _NOT_FOR_CALIBRATION:
                raise MIVError(f"This is the {split} split of {model}: {_NOT_FOR_CALIBRATION[split]}.")
            if run.predictions(split).is_file():
                typer.echo(f"Using the run's saved predictions, {run.predictions(split)}.", err=True)
                kept = Predictions.load(run.predictions(split))
                return Predictions.of(exemplars, kept.logit, kept.attention)  # older files do not name the queries
    return None
