"""Which representation of the instances recipes start from: the first that is not clearly worse than the best."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from miv.backbones import Backbone, create_backbone
from miv.backbones.cache import embed_pool
from miv.backbones.descriptors import Features, unlike_scales
from miv.data import ExemplarSet
from miv.evaluation import auroc
from miv.evaluation.baselines import cosines, mean_direction
from miv.evaluation.metrics import auroc_error
from miv.files.arrays import Floats, Vectors
from miv.files.cache import cache_folder
from miv.runtime import Progress
from miv.training.selection import STANDARD_ERRORS

UNLIKE_SCALES = 10.0  # embeddings and descriptors reach 1 to 5, tables of measurements 100 and more
FEW_CHANNELS = 64  # fewer are columns of a table
MOST_EXEMPLARS, _MOST_TARGETS = 1_500, 200_000  # by which representations are compared

Candidates = Mapping[str, Mapping[str, Any]]
"""Settings of training by a short name; the first is preferred."""


def candidates_for(train: ExemplarSet) -> Candidates:
    """The representations of images or vectors that need no training."""
    values = train.pool.values
    if train.pool.kind == "image":
        # Of two that are as good, the one that sees shapes and colours: the recipes weigh its channels.
        names = ["hog"] if values.ndim == 3 else ["hog", "hog_colour", "colour"]
        return {name: {"backbone": name} for name in names}
    some = _sample(train)
    is_table = values.shape[1] < FEW_CHANNELS or unlike_scales(some.pool.values[some.used]) > UNLIKE_SCALES
    forms: dict[str, dict[str, Any]] = {"raw": {}, "standardised": {"backbone_options": {"standardise": True}}}
    return {name: forms[name] for name in sorted(forms, reverse=is_table)}


def choose_backbone(
    train: ExemplarSet, candidates: Candidates, cache: Path | None = None, progress: Progress | None = None
) -> tuple[str, dict[str, float]]:
    """The name of the first candidate that is not clearly worse than the best, and the AUROC of those compared.

    A candidate is judged by the cosine of the query and its nearest target, raw or centred, on at most 1,500 exemplars
    of train. Clearly worse means by more than half a standard error of the difference. Features go through the cache.
    """
    first, some = next(iter(candidates)), _sample(train)
    if len(candidates) == 1 or some.label.min() == some.label.max():
        return first, {}
    folder = cache_folder() / "features" if cache is None else cache
    scores = {}
    for name, settings in candidates.items():
        scores[name] = _nearest(some, embed_pool(_backbone(settings, some), some.pool, folder, progress))
    aurocs = {name: auroc(some.label, score) for name, score in scores.items()}
    best = max(aurocs, key=lambda name: aurocs[name])
    for name, score in scores.items():
        if aurocs[best] - aurocs[name] <= STANDARD_ERRORS * auroc_error(some.label, scores[best], score):
            return name, aurocs
    return best, aurocs


def comparison(aurocs: Mapping[str, float]) -> str:
    """The figures of a choice in brackets, or nothing if there was none."""
    figures = ", ".join(f"{name} {value:.2f}".replace(" 0.", " .") for name, value in aurocs.items())
    return f" (AUROC of the nearest target: {figures})" if figures else ""


def _sample(train: ExemplarSet) -> ExemplarSet:
    """At most 1,500 exemplars; with the whole pool, whose features training needs, unless it is far larger."""
    order = np.random.default_rng(0).permutation(len(train))
    fits = np.cumsum(train.bag_sizes[order]) <= max(_MOST_TARGETS, train.bag_sizes[order[0]])
    chosen = order[fits][:MOST_EXEMPLARS]
    if len(chosen) < len(train):
        train = train.subset(np.sort(chosen))
    return train if 2 * len(train.used) >= len(train.pool) else train.compact()


def _backbone(settings: Mapping[str, Any], exemplars: ExemplarSet) -> Backbone:
    options = settings.get("backbone_options", {})
    if exemplars.pool.kind != "features":
        return create_backbone(settings["backbone"], **options)
    backbone = Features(exemplars.pool.values.shape[1], **options)
    if backbone.standardise:
        backbone.fit(exemplars.pool.values[exemplars.used])
    return backbone


def _nearest(exemplars: ExemplarSet, features: Vectors) -> Floats:
    """``(E,)`` the largest cosine of each bag, raw or centred, whichever has the higher AUROC."""
    centred = cosines(exemplars, features, mean_direction(exemplars, features)).nearest
    return max(cosines(exemplars, features).nearest, centred, key=lambda score: auroc(exemplars.label, score))
