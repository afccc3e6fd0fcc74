"""If validation is tiny, a trial on halves of train chooses the number of epochs of a stage."""

from typing import Any

import numpy as np

from miv.data import ExemplarSet, InstancePool
from miv.data.connected_exemplars import kept_together
from miv.training.stage_module import SplitFeatures

ENOUGH = 200  # validation exemplars; with fewer, the AUROC of two epochs differs by chance


def halves(
    sets: dict[str, ExemplarSet], features: SplitFeatures, seed: int
) -> tuple[dict[str, ExemplarSet], SplitFeatures]:
    """Train on one half of train; validate on the other half plus validation.

    If nothing is held out, so that ``validation`` is ``train`` itself, use the other half alone: the trial must not
    be validated on the data it was trained on.

    All exemplars of one query or query id are in the same half, and so are all queries of one class if classes are
    known: new classes are harder than new bags, and validation has new ones.

    Args:
        sets: the exemplars by split.
        features: ``(P, C)`` of the pools of ``train`` and ``validation``.
        seed: random seed of the division.
    """
    train, validation = sets["train"], sets["validation"]
    key = kept_together(train)
    keys = np.random.default_rng([seed, 13]).permutation(np.unique(key))
    is_first = np.isin(key, keys[: len(keys) // 2])
    if validation is train:
        divided = {"train": train.subset(is_first), "validation": train.subset(~is_first)}
        return divided, dict.fromkeys(divided, features["train"])
    both = np.concatenate([features["train"], features["validation"]])
    held_out = _joined(train.subset(~is_first), validation, both)
    return {"train": train.subset(is_first), "validation": held_out}, {"train": features["train"], "validation": both}


def can_divide(train: ExemplarSet) -> bool:
    """Whether each half can get queries."""
    return len(np.unique(kept_together(train))) >= 2


def _joined(first: ExemplarSet, second: ExemplarSet, features: np.ndarray) -> ExemplarSet:
    """The exemplars of both over the concatenated features of both pools."""
    after = len(first.pool)
    references: dict[str, Any] = {}
    if first.has_references or second.has_references:
        (ptr, index), (more_ptr, more_index) = first.all_references, second.all_references
        references["reference_ptr"] = np.concatenate([ptr, more_ptr[1:] + ptr[-1]])
        references["reference_index"] = np.concatenate([index, more_index + after])
    return ExemplarSet(
        InstancePool("features", np.asarray(features, np.float32)),
        np.concatenate([first.query, second.query + after]),
        np.concatenate([first.bag_ptr, second.bag_ptr[1:] + first.bag_ptr[-1]]),
        np.concatenate([first.bag_index, second.bag_index + after]),
        np.concatenate([first.label, second.label]),
        weight=None if first.weight is None or second.weight is None else np.append(first.weight, second.weight),
        **references,
    )
