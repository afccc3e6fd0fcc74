"""Score every plain method on every split except train."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.backbones import Backbone, create_backbone
from miv.backbones.feature_cache import embed_pool
from miv.backbones.features import Features
from miv.data import ExemplarSet, csr
from miv.errors import MIVError, unknown_name
from miv.evaluation import auroc, witness_metrics
from miv.evaluation.cosines import cosines, mean_direction
from miv.io.cache_folder import cache_folder
from miv.io.checked_values import Floats
from miv.reference.bm25 import bm25
from miv.reference.logistic import Logistic, fit_logistic, logistic_inputs
from miv.reference.plain_figures import Figures, Reference
from miv.runtime.progress import Progress
from miv.training.standardising import should_standardise

# Description of each method, in display order.
METHODS = {
    "nearest": "cosine of the query and its nearest target",
    "mean": "mean cosine of the query and all targets",
    "centred": "cosine of the query and its nearest target, after the mean of the train features is subtracted",
    "logistic": "logistic regression on largest cosine, mean cosine, |q − t*| and q · t*, t* being the nearest target",
    "bm25": "BM25 of the best target, by words",
    "hog": "largest cosine of histograms of oriented gradients",
    "pixels": "largest cosine of small, mean-centred pictures",
}
DESCRIPTORS = ("hog", "pixels")  # methods that are backbones as well


def reference(
    sets: Mapping[str, ExemplarSet],
    backbone: Backbone | str | None = None,
    *,
    backbone_options: Mapping[str, Any] | None = None,
    splits: tuple[str, ...] | None = None,
    cache: Path | str | None = None,
    progress: Progress | None = None,
) -> Reference:
    """Score the plain alternatives to a verifier; see ``METHODS``.

    Args:
        sets: the exemplars by split. ``centred`` and ``logistic`` are fitted on ``train`` and omitted without it.
        backbone: computes the features for all methods but the fixed ones: a backbone, or a name as for ``Verifier``.
            Without it, vectors are used as they are, or standardised if ``miv train`` would do so, and
            images and texts have only the fixed methods: ``hog`` and ``pixels``, or ``bm25``.
        backbone_options: options of a backbone given by name. One that standardises is fitted on ``train``.
        splits: splits to score; by default all except ``train``.
        cache: folder of the feature cache; by default that of ``miv train``.
        progress: reports the progress of embedding.

    >>> import numpy as np
    >>> from miv.data import InstancePool
    >>> pool = InstancePool("features", np.eye(3, dtype=np.float32))
    >>> sets = {"validation": ExemplarSet.from_lists(pool, [0, 0], [[0, 1], [1, 2]], labels=[1, 0])}
    >>> reference(sets).splits["validation"]["nearest"].auroc
    1.0
    """
    chosen = _chosen(sets, splits)
    kinds = {exemplars.pool.kind for exemplars in sets.values()}
    if len(kinds) != 1:
        raise MIVError(f"The splits hold {' and '.join(sorted(kinds))}. Expected instances of one kind.")
    kind = kinds.pop()
    folder = Path(cache) if cache is not None else cache_folder() / "features"
    name = backbone if isinstance(backbone, str) else None
    if backbone is None and kind == "features":
        backbone, name = _vectors(sets), "features"
    if isinstance(backbone, str):
        backbone = create_backbone(backbone, **(backbone_options or {}))
        if isinstance(backbone, Features) and backbone.standardise:
            _standardise(backbone, sets)
    found: dict[str, dict[str, Figures]] = {split: {} for split in chosen}
    strength = None
    if backbone is not None:
        fitted = _fit(sets["train"], backbone, folder, progress) if "train" in sets else None
        strength = None if fitted is None or fitted.logistic is None else fitted.logistic.strength
        for split in chosen:
            found[split] = _by_features(sets[split], backbone, fitted, folder, progress)
        name = name or type(backbone).__name__
    for split in chosen:
        if kind == "text":
            found[split]["bm25"] = _nearest(sets[split], bm25(sets[split]))
        if kind == "image":
            for descriptor in DESCRIPTORS:
                features = embed_pool(create_backbone(descriptor), sets[split].pool, folder, progress)
                found[split][descriptor] = _nearest(sets[split], cosines(sets[split], features).each)
    return Reference(found, name, strength, isinstance(backbone, Features) and backbone.standardise)


def _vectors(sets: Mapping[str, ExemplarSet]) -> Features:
    """The vectors as ``miv train`` takes them, so that a gain by standardising does not look like one by training."""
    train = sets.get("train")
    standardise = train is not None and should_standardise(train)
    backbone = Features(int(next(iter(sets.values())).pool.values.shape[1]), standardise)
    if standardise:
        _standardise(backbone, sets)
    return backbone


def _standardise(backbone: Features, sets: Mapping[str, ExemplarSet]) -> None:
    """Take means and deviations from ``train``, as training does."""
    if "train" not in sets:
        raise MIVError(
            f"The backbone standardises vectors, and the splits are {', '.join(sets)}. Expected train as well, for the "
            "means and deviations; add it, or leave out standardise."
        )
    train = sets["train"]
    backbone.check(train.pool)
    backbone.fit(train.pool.values[train.used])


def _chosen(sets: Mapping[str, ExemplarSet], splits: tuple[str, ...] | None) -> list[str]:
    known = [split for split in sets if split != "train"]
    for split in splits or ():
        if split == "train":
            raise MIVError("The split is train, which the logistic regression is fitted on. Choose another split.")
        if split not in known:
            raise unknown_name("split", split, known)
    if not known:
        raise MIVError("The only split is train. Expected validation or test too.")
    return known if splits is None else [split for split in known if split in splits]


@dataclass(frozen=True, eq=False)
class _Fitted:
    """What is fitted on train: the mean ``(C,)`` of the features, and a regression unless all labels are the same."""

    mean: NDArray[np.float32]
    logistic: Logistic | None


def _fit(exemplars: ExemplarSet, backbone: Backbone, cache: Path, progress: Progress | None) -> _Fitted:
    features = embed_pool(backbone, exemplars.pool, cache, progress)[:, : backbone.vector_channels]
    inputs = logistic_inputs(exemplars, features, cosines(exemplars, features))
    return _Fitted(mean_direction(exemplars, features), fit_logistic(exemplars, inputs))


def _by_features(
    exemplars: ExemplarSet,
    backbone: Backbone,
    fitted: _Fitted | None,
    cache: Path,
    progress: Progress | None,
) -> dict[str, Figures]:
    features = embed_pool(backbone, exemplars.pool, cache, progress)[:, : backbone.vector_channels]
    near = cosines(exemplars, features)
    rows = {
        "nearest": _measure(exemplars, near.nearest, near.each),
        "mean": _measure(exemplars, near.mean, near.each),
    }
    if fitted is not None:
        rows["centred"] = _nearest(exemplars, cosines(exemplars, features, fitted.mean).each)
        model = fitted.logistic
        logit = None if model is None else model.score(logistic_inputs(exemplars, features, near))
        rows["logistic"] = _measure(exemplars, logit, near.each)
    return rows


def _nearest(exemplars: ExemplarSet, each: Floats) -> Figures:
    """By the largest score of each bag."""
    return _measure(exemplars, csr.bag_maxima(each, exemplars.bag_ptr), each)


def _measure(exemplars: ExemplarSet, score: Floats | None, each: Floats) -> Figures:
    """The figures of a score for each bag ``(E,)`` and for each instance ``(T,)``."""
    of_bags = math.nan if score is None else auroc(exemplars.label, score)
    of_instances: dict[str, float] = {}
    if exemplars.witness is not None:
        of_instances = witness_metrics(exemplars.bag_ptr, exemplars.witness, each, exemplars.label)
    measured = [of_bags, of_instances.get("i_auroc", math.nan), of_instances.get("i_ap", math.nan)]
    return Figures(*(None if math.isnan(value) else value for value in measured))
