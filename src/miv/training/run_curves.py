"""The curves of a finished run, from the files in its folder."""

from pathlib import Path

from miv.errors import needs_extra
from miv.evaluation import Predictions, write_curves, write_learning_curves
from miv.training.run_folder import RunFolder

with needs_extra("train", "Drawing curves", "matplotlib"):  # fail before training, not after it
    import matplotlib as matplotlib


def draw_run(run: RunFolder) -> list[Path]:
    """Plot metrics by epoch, ROC and precision-recall in ``curves/``, and return the paths.

    A split with only one label has no ROC.
    """
    drawn = write_learning_curves(run.metrics, run.curves)
    answers = {split: Predictions.load(run.predictions(split)) for split in run.read_evaluation()}
    both = {split: one for split, one in answers.items() if 0 < one.label.sum() < len(one)}
    return [*drawn, *(write_curves(both, run.curves) if both else [])]
