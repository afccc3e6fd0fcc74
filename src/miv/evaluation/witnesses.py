"""Witness metrics i-AUROC, i-AP and i-top1: how well a score ranks a bag's witnesses above the rest."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miv.data import csr
from miv.errors import MIVError
from miv.evaluation.metrics import as_borders, as_labels, as_scores, as_witnesses, auroc_influence, centred
from miv.evaluation.predicting import Predictions
from miv.files.arrays import Floats, Integers


def expected_average_precision(sizes: Integers, witnesses: Integers) -> Floats:
    r"""Return ``(E,)``, the mean of average precision over all orders of a bag.

    With :math:`N` instances, :math:`k` witnesses and :math:`H_N = \sum_{j=1}^N 1 / j`, this is

    .. math:: \frac{1}{N} \Big( H_N + \frac{k - 1}{N - 1} (N - H_N) \Big)

    >>> expected_average_precision(np.array([2, 2, 3]), np.array([1, 2, 1])).round(4).tolist()
    [0.75, 1.0, 0.6111]
    """
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, sizes.max(initial=1) + 1))])[sizes]  # (E,) H_N
    others = (witnesses - 1) / np.maximum(sizes - 1, 1)
    return np.asarray((harmonic + others * (sizes - harmonic)) / sizes)


WITNESS_METRICS = ("i_auroc", "i_ap", "i_top1")


@dataclass(frozen=True)
class WitnessScores:
    """The metrics ``(E,)`` of each exemplar, NaN if its bag has no witness or only witnesses."""

    i_auroc: Floats  # how often a witness gets more attention than another instance; ties count half
    i_ap: Floats  # average precision of the instances, from the most attention to the least
    i_top1: Floats  # whether the first instance is a witness, averaged over all orders of tied instances
    witness_share: Floats  # witnesses divided by instances: i-top1 of a random order
    ap_by_chance: Floats  # expected i-AP of a random order; that of even attention is lower, as it is one tie

    @property
    def defined(self) -> NDArray[np.bool_]:
        """``(E,)``, true if there is something to rank: at least one witness and one other instance."""
        return ~np.isnan(self.i_auroc)


def witness_scores(ptr: ArrayLike, witness: ArrayLike, attention: ArrayLike) -> WitnessScores:
    r"""Score every bag at once: ``ptr`` ``(E + 1,)``, ``witness`` ``(T,)`` bool, ``attention`` ``(T,)``.

    Sort the instances of a bag into steps of equal attention, highest first. For step ``s``, with its witnesses
    :math:`k_s`, others :math:`o_s`, and the cumulative sums of both :math:`K_s, O_s`:

    .. math::
        \text{i-AUROC} = \sum_s \frac{k_s}{K} \frac{(O - O_s) + o_s / 2}{O}, \qquad
        \text{i-AP} = \sum_s \frac{k_s}{K} \frac{K_s}{K_s + O_s}

    scikit-learn gives the same numbers, including ties, but takes one bag per call and a thousand times as long. The
    mean of i-AP over bags is MAP in retrieval. i-top1 is a mean over all orders within the first step, so even
    attention gets the value of chance: :math:`\text{i-top1} = k_1 / (k_1 + o_1)`.
    """
    ptr = as_borders(ptr)
    members, exemplars = int(ptr[-1]), len(ptr) - 1
    score = as_scores("attention", attention, members)
    witness = as_witnesses(witness, members)
    sizes = np.diff(ptr)
    owner = csr.owners(ptr)  # (T,)
    order = np.lexsort((-score, owner))  # each bag stays in place, highest attention first
    score = score[order]
    # A step ends where the attention changes or the bag does: (S,) places and bags.
    end = np.ones(members, bool)
    end[:-1] = (score[1:] != score[:-1]) | (owner[1:] != owner[:-1])
    place = np.flatnonzero(end)
    bag = owner[place]

    found = csr.borders(witness[order])  # (T + 1,) witnesses before each place
    witnesses = np.diff(found[ptr])  # (E,) K
    others = sizes - witnesses  # (E,) O
    in_step = np.diff(found[place + 1], prepend=0)  # (S,) k_s
    others_in_step = np.diff(place + 1, prepend=0) - in_step  # (S,) o_s
    seen = place + 1 - ptr[bag]  # (S,) K_s + O_s
    witnesses_seen = found[place + 1] - found[ptr[bag]]  # (S,) K_s
    others_below = others[bag] - (seen - witnesses_seen)  # (S,) O - O_s

    pairs_won = np.bincount(bag, in_step * (others_below + others_in_step / 2), exemplars)
    precision = np.bincount(bag, in_step * (witnesses_seen / seen), exemplars)
    defined = (witnesses > 0) & (others > 0)
    top = np.unique(bag, return_index=True)[1]  # (E,) the first step of each bag
    nothing = np.full(exemplars, np.nan)
    return WitnessScores(
        i_auroc=np.divide(pairs_won, witnesses * others, out=nothing.copy(), where=defined),
        i_ap=np.divide(precision, witnesses, out=nothing.copy(), where=defined),
        i_top1=np.divide(in_step[top], seen[top], out=nothing.copy(), where=defined),
        witness_share=np.divide(witnesses, sizes, out=nothing, where=defined),
        ap_by_chance=np.where(defined, expected_average_precision(sizes, witnesses), np.nan),
    )


def witness_metrics(ptr: ArrayLike, witness: ArrayLike, attention: ArrayLike, label: ArrayLike) -> dict[str, float]:
    """Return the means over the positive exemplars that have a witness and another instance, as in the paper.

    ``ptr`` ``(E + 1,)`` are the borders between the bags, ``witness`` is ``(T,)`` bool, ``label`` ``(E,)``, and of
    ``attention`` ``(T,)`` only the order within a bag matters. The figures are ``i_auroc``, ``i_ap`` and ``i_top1``,
    NaN if no exemplar is left; ``i_ap_chance`` and ``i_top1_chance``, the means of a random order; and the numbers of
    ``exemplars`` and of ``undefined`` ones, with no witness or only witnesses.

    >>> witness_metrics([0, 3], [True, False, False], [0.5, 0.3, 0.2], label=[1])["i_ap"]
    1.0
    """
    scores = witness_scores(ptr, witness, attention)
    positive = as_labels(label, len(scores.i_auroc)) == 1
    counted = positive & scores.defined
    by_bag = {name: getattr(scores, name) for name in WITNESS_METRICS}
    by_bag |= {"i_ap_chance": scores.ap_by_chance, "i_top1_chance": scores.witness_share}
    return {
        **{name: float(values[counted].mean()) if counted.any() else math.nan for name, values in by_bag.items()},
        "exemplars": int(counted.sum()),
        "undefined": int((positive & ~scores.defined).sum()),
    }


# What ranks a bag's instances: attention as in the paper, a score of each instance, or the first choice alone.

RANKED_BY = ("attention", "score", "one_hot")
# The metrics of the experiments by name: how instances are ranked, and the witness metric.
RANKED_METRICS: Mapping[str, tuple[str, str]] = {
    "i_auroc": ("attention", "i_auroc"),
    "i_ap": ("attention", "i_ap"),
    "i_auroc_by_score": ("score", "i_auroc"),
    "i_ap_by_score": ("score", "i_ap"),
    "i_auroc_one_hot": ("one_hot", "i_auroc"),
    "i_ap_one_hot": ("one_hot", "i_ap"),
    "i_top1": ("one_hot", "i_top1"),
}


def rank_instances(predictions: Predictions, by: str) -> Floats | None:
    """What ranks the instances, ``(T,)``; ``None`` if the predictions lack it.

    By ``attention``; by ``score``, what the pooling chooses by, which is its attention unless that is one-hot; or
    ``one_hot``, 1 for the first choice (for each of several on ties) and 0 for the rest.
    """
    if by == "attention":
        return predictions.attention
    own = predictions.score
    if own is None and (by == "one_hot" or not _is_one_hot(predictions)):
        own = predictions.attention
    if by == "score" or own is None:
        return own
    greatest = csr.bag_maxima(own, predictions.ptr)
    return (own == csr.to_rows(greatest, predictions.ptr)).astype(np.float64)


def witness_rankings(predictions: Predictions) -> dict[str, dict[str, float]] | None:
    """The witness metrics by how instances are ranked, of each way there is; ``None`` without witnesses or attention.

    >>> answers = Predictions([1.0], [1], [0, 3], [1.0, 0.0, 0.0], [False, True, False], score=[0.9, 0.8, -0.3])
    >>> {by: metrics["i_auroc"] for by, metrics in witness_rankings(answers).items()}
    {'attention': 0.25, 'score': 0.5, 'one_hot': 0.25}
    """
    p = predictions
    if p.witness is None or p.attention is None:
        return None
    known = {by: ranked for by in RANKED_BY if (ranked := rank_instances(p, by)) is not None}
    return {by: witness_metrics(p.ptr, p.witness, ranked, p.label) for by, ranked in known.items()}


def _is_one_hot(predictions: Predictions) -> bool:
    """Whether the attention of every bag is on its first choice alone, or shared equally by several."""
    if predictions.attention is None:
        return False
    greatest = csr.to_rows(csr.bag_maxima(predictions.attention, predictions.ptr), predictions.ptr)
    several = csr.to_rows(predictions.bag_sizes, predictions.ptr) > 1
    chosen = (predictions.attention == 0) | (predictions.attention == greatest)
    return bool(several.any() and chosen.all() and (predictions.attention[several] == 0).any())


def influence(predictions: Predictions, metric: str) -> Floats:
    r"""The influence ``(E,)`` of each exemplar on a metric, by the metric's name: for standard errors and gaps.

    .. math:: SE(m)^2 = \sum_i \psi_i^2, \qquad SE(m - m')^2 = \sum_i (\psi_i - \psi'_i)^2

    where :math:`m'` is measured on the same exemplars: the test is paired. For AUROC this is DeLong's variance (DeLong
    et al. 1988), for means the usual one, for figures of the confusion table the jackknife's.
    """
    if metric == "auroc":
        return auroc_influence(predictions.label, predictions.logit)
    if metric not in RANKED_METRICS:
        return _confusion(predictions.label, predictions.yes, metric)
    by, name = RANKED_METRICS[metric]
    ranked = rank_instances(predictions, by)
    if ranked is None or predictions.witness is None:
        needed = "attention" if by == "one_hot" else by
        raise MIVError(f"{metric} needs {needed} and witnesses, which these predictions lack.")
    scores = witness_scores(predictions.ptr, predictions.witness, ranked)
    counted = (predictions.label == 1) & scores.defined
    components = np.zeros(len(predictions))
    components[counted] = centred(getattr(scores, name)[counted])
    return components


def _confusion(label: NDArray[np.int8], answer: NDArray[np.bool_], metric: str) -> Floats:
    """The jackknife: the effect of leaving out an exemplar depends only on which of four kinds it is."""
    kind = 2 * label.astype(np.int64) + answer  # 0 TN, 1 FP, 2 FN, 3 TP
    counts = np.bincount(kind, minlength=4)
    left_out = _figure(np.maximum(counts - np.eye(4, dtype=np.int64), 0), metric)[kind]  # (E,)
    return -(left_out - left_out.mean()) * np.sqrt((len(kind) - 1) / len(kind))


def _figure(counts: NDArray[np.int64], metric: str) -> Floats:
    """Accuracy, or the mean over both labels of precision, recall or F1, from counts ``(N, 4)``; 0 / 0 is 0."""
    tn, fp, fn, tp = counts.T
    parts = {
        "accuracy": [(tp + tn, tn + fp + fn + tp)],
        "precision": [(tp, tp + fp), (tn, tn + fn)],
        "recall": [(tp, tp + fn), (tn, tn + fp)],
        "f1": [(2 * tp, 2 * tp + fp + fn), (2 * tn, 2 * tn + fn + fp)],
    }
    if metric not in parts:
        raise MIVError(f"There is no standard error of {metric!r}.")
    return np.mean([part / np.maximum(whole, 1) for part, whole in parts[metric]], axis=0)
