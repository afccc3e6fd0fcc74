"""``miv.evaluate`` and ``miv.calibrate``: from a verifier and exemplars to metrics and an operating point."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from miv.backbones.cache import embed_exemplars
from miv.data import ExemplarSet, load_split
from miv.data.folder import is_set
from miv.errors import MIVError, warn
from miv.evaluation.calibration import (
    Calibration,
    calibrate as fit_operating_point,
    check_point_card,
    trade_text,
    write_point_card,
)
from miv.evaluation.clusters import CONFIDENCE, ClusterBy
from miv.evaluation.evaluation import Evaluation, evaluate as evaluate_predictions
from miv.evaluation.goals import parse_goal
from miv.evaluation.out_of_distribution import fit_check
from miv.evaluation.predicting import explain, predict, withheld, witness_shares
from miv.evaluation.runs import RunFolder, refuse_unfinished
from miv.files.atomic import refuse_existing
from miv.files.cache import feature_folder
from miv.files.instances import is_folder
from miv.files.weights import find_verifier
from miv.runtime import Progress, RichProgress, SilentProgress
from miv.tasks.opening import Exemplars, open_one
from miv.verifier.decisions import OPERATING_POINT_NAME, WitnessesBy
from miv.verifier.explain import check_method
from miv.verifier.network import Verifier
from miv.verifier.out_of_distribution import OutOfDistributionLimit
from miv.verifier.saving import save_decisions

StrPath = str | PathLike[str]


def evaluate(
    model: Verifier | StrPath,
    exemplars: Exemplars,
    *,
    split: str = "test",
    predictions: StrPath | None = None,
    witnesses: str | None = None,
    cache: StrPath | None = None,
    overwrite: bool = False,
    verbose: bool = False,
) -> Evaluation:
    """Verify every exemplar of a set and compute the metrics, like ``miv evaluate``.

    Args:
        model: a ``Verifier``, what ``miv.train`` returned, a run, the folder of a verifier, or its name on the hub.
        exemplars: an ``ExemplarSet``, a dict of them by split, a folder of splits, or the folder of one set.
        split: the split to use if there are several.
        predictions: ``.parquet`` file for the answers; optional.
        witnesses: how to rank instances for the witness metrics: ``attention``, ``alone`` or
            ``leave_one_out``. By default attention, if the pooling has it.
        cache: folder of cached features, by default ``MIV_CACHE_DIR`` or ``~/.cache/miv``.
        overwrite: whether to replace an existing file of predictions; otherwise it is an error.
        verbose: whether to show progress on standard error.
    """
    if predictions is not None:
        refuse_existing(Path(predictions), overwrite=overwrite)
    chosen = open_one(exemplars, split)
    if isinstance(model, Verifier):
        verifier = model
    else:
        refuse_unfinished(Path(model))
        verifier = Verifier.from_pretrained(fspath(model))
    if witnesses is not None:
        check_method(verifier.pooling, witnesses)  # before the work
    progress = RichProgress() if verbose else SilentProgress()
    chosen = verifier.backbone.paired(chosen)
    folder = feature_folder(None if cache is None else Path(cache))
    features = embed_exemplars(verifier.backbone, chosen, folder, progress)
    answers = predict(verifier, chosen, features, progress)
    score = None if witnesses is None else explain(verifier, chosen, witnesses, features=features, progress=progress)
    if predictions is not None:
        answers.save(Path(predictions))
    point = verifier.operating_point  # without a calibration, the figures are those of the run
    unlike = None if point.is_default else withheld(verifier, chosen, features, progress)
    return evaluate_predictions(answers, score=score, point=point, withheld=unlike)


_NOT_FOR_CALIBRATION = {
    "train": "the verifier was trained on it and is overconfident there",
    "test": "a threshold chosen on it can no longer be tested on it",
}


def calibrate(
    model: StrPath,
    exemplars: Exemplars,
    *,
    split: str = "validation",
    goal: str = "eer",
    scaling: str = "auto",
    epsilon: float | None = None,
    witnesses: WitnessesBy | None = None,
    cluster_by: ClusterBy | None = None,
    out_of_distribution: float | None = None,
    confidence: float = CONFIDENCE,
    cache: StrPath | None = None,
    overwrite: bool = False,
    verbose: bool = False,
) -> Calibration:
    """Choose a verifier's threshold, scaling and witness rule on validation data, and save them in its folder.

    Args:
        model: a run, or the folder of a verifier.
        exemplars: an ``ExemplarSet``, a dict of them by split, a folder of splits, or the folder of one set.
        split: the split to calibrate on, if there are several.
        goal: ``eer``, ``far=0.01``, ``frr=0.05``, or ``far=0.01,frr=0.05`` for two thresholds.
        scaling: ``auto``, ``none``, ``temperature`` or ``platt``.
        epsilon: share of true witnesses that may be missed: calibrates sets of witnesses on the known ones, which may
            be large. By default a fixed rule; 0.1 if ``witnesses`` is given.
        witnesses: how to rank witnesses; by default attention if the pooling has it, else ``leave_one_out``.
        cluster_by: which exemplars may depend on each other: those whose queries share a ``class``, a ``query_id``, a
            ``query`` or a ``group``. By default the first of these that is known, except groups.
        out_of_distribution: false-alarm rate of the out-of-distribution check, fitted on the train split; 0 removes it.
            By default 0.01, or the lowest rate that the data can promise.
        confidence: with which the rates of the goal are promised.
        overwrite: whether to replace an operating point; otherwise it is an error.
        cache: as in ``miv.evaluate``.
        verbose: whether to show progress on standard error.
    """
    model = Path(model)
    if not is_folder(str(model)):
        raise MIVError(
            f"There is no folder {model}. Expected a run or a verifier folder. To calibrate one from the hub, save it "
            "first: Verifier.from_pretrained(...).save_pretrained(FOLDER)."
        )
    parsed_goal = parse_goal(goal)
    name = split
    if isinstance(exemplars, str | PathLike) and is_set(Path(exemplars)):
        name = Path(exemplars).resolve().name
    if name in _NOT_FOR_CALIBRATION:
        raise MIVError(f"Cannot calibrate on {name}: {_NOT_FOR_CALIBRATION[name]}. Use validation data.")
    refuse_unfinished(model)
    verifier = Verifier.from_pretrained(model)
    method: WitnessesBy = witnesses or ("attention" if verifier.pooling.has_attention else "leave_one_out")
    check_method(verifier.pooling, method)
    folder = find_verifier(model)
    before = verifier.operating_point
    if not before.is_default and not overwrite:
        raise MIVError(
            f"{folder / OPERATING_POINT_NAME} already exists ({before.goal}, threshold {before.threshold:.4f}). Use "
            "--overwrite to replace it. To keep it, copy the file or the folder of the verifier first."
        )
    check_point_card(folder)

    chosen = open_one(exemplars, split)
    _refuse_seen(model, chosen)
    # Rates hold for exemplars with as many instances and references as these.
    counts = {"bag_sizes": chosen.bag_sizes, "references": np.diff(chosen.all_references[0])}
    sizes = {name: [int(numbers.min()), int(numbers.max())] for name, numbers in counts.items()}
    data = {"name": name, "path": _where(exemplars), "fingerprint": chosen.fingerprint, **sizes}
    progress = RichProgress() if verbose else SilentProgress()
    features_in = feature_folder(None if cache is None else Path(cache))
    chosen = verifier.backbone.paired(chosen)
    features = embed_exemplars(verifier.backbone, chosen, features_in, progress)
    answers, shares = predict(verifier, chosen, features, progress), None
    limit, notes = _limit_of(verifier, exemplars, chosen, out_of_distribution, features_in, progress)
    epsilon = 0.1 if epsilon is None and witnesses is not None else epsilon
    if method != "attention" and chosen.witness is not None and epsilon is not None:
        shares = witness_shares(verifier, chosen, answers.logit, method, progress, features)
    options: dict[str, Any] = {"shares": shares, "witnesses_by": method, "cluster_by": cluster_by}
    result = fit_operating_point(answers, parsed_goal, scaling, epsilon, confidence=confidence, **options)
    if verbose:
        print(trade_text(result.point.measured), file=sys.stderr, flush=True)
    result = replace(result, point=replace(result.point, measured={"data": data, **result.point.measured}), limit=limit)

    save_decisions(folder, result.point, limit)
    write_point_card(folder, result.point)
    notes.append(f"Saved the operating point in {folder} and on its model card; miv verify uses it.")
    witness_sets = result.point.measured["witnesses"]
    if witness_sets is not None and witness_sets["too_few"] is not None:
        notes.append(f"Witnesses follow the default rule, without a guarantee: {witness_sets['too_few']}")
    return replace(result, notes=tuple(notes))


def _refuse_seen(model: Path, exemplars: ExemplarSet) -> None:
    """Raise an error if a run was trained or tested on these exemplars, whatever their folder is called."""
    run = RunFolder(model)
    try:
        fingerprints: dict[str, str] = run.read()["data"]["fingerprints"] if run.exists() else {}
    except MIVError as error:  # the verifier itself is intact, and `miv evaluate` and `miv verify` use it too
        warn(f"{error} Calibrating anyway. Make sure that these data are not a train or test split of the run.")
        return
    for split, why in _NOT_FOR_CALIBRATION.items():
        if fingerprints.get(split) == exemplars.fingerprint:
            raise MIVError(f"This is the {split} split of {model}: {why}.")


def _where(exemplars: Exemplars) -> str:
    return str(exemplars) if isinstance(exemplars, str | PathLike) else "exemplars in memory"


def _limit_of(
    verifier: Verifier, source: Exemplars, chosen: ExemplarSet, rate: float | None, cache: Path, progress: Progress
) -> tuple[OutOfDistributionLimit | None, list[str]]:
    """The out-of-distribution check, fitted to the train split beside the chosen one, and notes; with rate 0, none."""
    if rate == 0:
        return None, []
    try:
        if isinstance(source, Mapping) and "train" in source:
            train = source["train"]
        elif isinstance(source, str | PathLike) and not is_set(Path(source)):
            train = load_split(Path(source), "train")
        else:
            raise MIVError(f"There is no train split in {_where(source)}. The check is fitted on it.")
        return fit_check(verifier, train, chosen, rate, cache, progress), []
    except MIVError as error:
        if rate is not None:
            raise
        before = "no check" if verifier.unlike is None else "its previous check"
        return verifier.unlike, [f"The verifier has {before} for out-of-distribution inputs: {error}"]
