"""``miv.evaluate``: the metrics of a verifier on exemplars, like ``miv evaluate``."""

import os
from os import PathLike
from pathlib import Path

from miv.backbones.cache import embed_exemplars
from miv.errors import unknown_name
from miv.evaluation import Evaluation, write_curves
from miv.evaluation import evaluate as measure
from miv.evaluation.curves import CURVE_FILES
from miv.evaluation.predicting import explain, predict, with_contributions, withheld
from miv.evaluation.runs import refuse_unfinished
from miv.evaluation.workflows import open_one
from miv.files.atomic import refuse_existing, refuse_existing_in
from miv.files.cache import feature_folder
from miv.runtime import RichProgress, SilentProgress
from miv.training.train import GivenExemplars, TrainingRun
from miv.verifier.explain import METHODS
from miv.verifier.network import Verifier


def evaluate(
    model: Verifier | TrainingRun | str | PathLike[str],
    exemplars: GivenExemplars,
    *,
    split: str = "test",
    predictions: str | PathLike[str] | None = None,
    plots: str | PathLike[str] | None = None,
    witnesses: str | None = None,
    cache: str | PathLike[str] | None = None,
    overwrite: bool = False,
    verbose: bool = False,
) -> Evaluation:
    """Verify every exemplar of a set and compute the metrics, like ``miv evaluate``.

    Args:
        model: a ``Verifier``, what ``miv.train`` returned, a run, the folder of a verifier, or its name on the hub.
        exemplars: an ``ExemplarSet``, a dict of them by split, a folder of splits, or the folder of one set.
        split: the split to use if there are several.
        predictions: ``.parquet`` file for the answers; optional.
        plots: folder for ROC and precision-recall curves; optional.
        witnesses: how to rank instances for the witness metrics: ``attention``, ``alone``, ``leave_one_out``,
            ``shapley`` or ``rollout``. By default attention, if the pooling has it.
        cache: folder of cached features, by default ``MIV_CACHE_DIR`` or ``~/.cache/miv``.
        overwrite: whether to replace existing predictions and curves; otherwise they are an error.
        verbose: whether to show progress on standard error.
    """
    if witnesses is not None and witnesses not in METHODS:
        raise unknown_name("method of explaining", witnesses, METHODS)
    if predictions is not None:
        refuse_existing(Path(predictions), overwrite=overwrite)
    if plots is not None:
        refuse_existing_in(Path(plots), CURVE_FILES, overwrite=overwrite)
    chosen = open_one(exemplars, split)
    if isinstance(model, TrainingRun):
        model = model.verifier
    if not isinstance(model, Verifier):
        refuse_unfinished(Path(model))
    verifier = model if isinstance(model, Verifier) else Verifier.from_pretrained(os.fspath(model))
    progress = RichProgress() if verbose else SilentProgress()
    folder = feature_folder(None if cache is None else Path(cache))
    features = embed_exemplars(verifier.backbone, chosen, folder, progress)
    answers = predict(verifier, chosen, features, progress)
    if chosen.witness is not None:
        answers = with_contributions(verifier, chosen, answers, features, progress)
    score = None if witnesses is None else explain(verifier, chosen, witnesses, features=features, progress=progress)
    if predictions is not None:
        answers.save(Path(predictions))
    if plots is not None:
        write_curves(answers, Path(plots))
    unlike = withheld(verifier, chosen, features, progress)
    return measure(answers, score=score, point=verifier.operating_point, withheld=unlike)
