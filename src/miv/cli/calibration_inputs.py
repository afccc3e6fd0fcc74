"""What ``miv calibrate`` is given: the goal, the data, an operating point from before and answers of the run."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from miv.errors import MIVError

if TYPE_CHECKING:
    from miv.data import ExemplarSet
    from miv.evaluation import Predictions
    from miv.verifier.decisions import OperatingPoint

_NOT_FOR_CALIBRATION = {
    "train": "the verifier was trained on it and is overconfident there",
    "test": "a threshold chosen on it can no longer be tested on it",
}


def refuse_split(name: str) -> None:
    """Raise an error if this is the name of a split that is not for calibration."""
    if name in _NOT_FOR_CALIBRATION:
        raise MIVError(f"Cannot calibrate on {name}: {_NOT_FOR_CALIBRATION[name]}. Use validation data.")


def refuse_calibrated(folder: Path, point: "OperatingPoint", overwrite: bool) -> None:
    """Raise an error before the work if the verifier has an operating point that may not be replaced."""
    from miv.verifier.decisions import OPERATING_POINT_NAME

    path = folder / OPERATING_POINT_NAME
    if path.exists() and not overwrite:
        raise MIVError(
            f"{path} already exists ({point_in_words(point)}). Use --overwrite to replace it. To keep it, copy the "
            "file or the folder of the verifier first."
        )


def point_in_words(point: "OperatingPoint") -> str:
    """The goal, the threshold and the data of an operating point, where known."""
    on = point.measured.get("data", {})
    where = f" on {on.get('path', 'other data')}, {on['name']}" if "name" in on else ""
    return f"{point.goal}, threshold {point.threshold:.4f}{where}"


def goal_text(goal: str | None, far: float | None, frr: float | None) -> str:
    """The goal from ``--goal``, or from ``--far`` and ``--frr``; equal errors without any of them."""
    rates = [f"{name}={rate!r}" for name, rate in (("far", far), ("frr", frr)) if rate is not None]
    if goal is not None and rates:
        raise MIVError(f"Got --goal {goal} and --{rates[0].partition('=')[0]}. Give either --goal, or --far and --frr.")
    return goal if goal is not None else ",".join(rates) or "eer"


def kept_answers(model: Path, exemplars: "ExemplarSet") -> "Predictions | None":
    """The predictions saved by the verifier's run, if they are on the same data."""
    from miv.evaluation import Predictions
    from miv.evaluation.runs import RunFolder

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


def sizes_of(exemplars: "ExemplarSet") -> dict[str, list[int]]:
    """The least and greatest bag, and number of references of a query: rates hold for exemplars like these."""
    borders = exemplars.all_references[0]
    counts = {"bag_sizes": exemplars.bag_sizes, "references": borders[1:] - borders[:-1]}
    return {name: [int(some.min()), int(some.max())] for name, some in counts.items()}
