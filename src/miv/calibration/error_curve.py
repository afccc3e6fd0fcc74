"""All distinct thresholds with their errors, for the exemplars as they are and resampled."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from miv.calibration.cluster_model import ClusterModel
from miv.calibration.error_evidence import ErrorEvidence
from miv.calibration.query_clusters import draws_of
from miv.errors import MIVError
from miv.io.checked_values import Floats, Integers, Labels


@dataclass(frozen=True, eq=False)
class ErrorCurve:
    """The errors at ``J`` cuts, from accepting everything to accepting nothing.

    Args:
        cuts: ``(J,)`` increasing thresholds; an exemplar is accepted if its probability is at least the cut.
        false_accepts: ``(..., J)`` accepted negatives; decreases along the cuts.
        false_rejects: ``(..., J)`` rejected positives; increases along the cuts.
        negatives: ``(...)`` number of negatives.
        positives: ``(...)`` number of positives.
        of_negatives: evidence for the false-accept rate, from the exemplars without resampling.
        of_positives: the same for the false-reject rate.
        below: ``(J,)`` the highest logit that each cut rejects; -inf for the first.
        above: ``(J,)`` the lowest logit that each cut accepts; inf for the last.
        negative_model: model of the logits of negatives in clusters; ``None`` if exemplars are independent.
        positive_model: the same of the negated logits of positives.

    >>> curve = ErrorCurve.of(np.array([0.2, 0.4, 0.6, 0.8]), np.array([0, 1, 0, 1]))
    >>> curve.cuts.round(2).tolist()
    [0.2, 0.3, 0.5, 0.7, 0.9]
    >>> curve.false_accepts.tolist(), curve.false_rejects.tolist()
    ([2, 1, 1, 0, 0], [0, 0, 1, 1, 2])
    """

    cuts: Floats
    false_accepts: Integers
    false_rejects: Integers
    negatives: Integers
    positives: Integers
    of_negatives: ErrorEvidence
    of_positives: ErrorEvidence
    below: Floats
    above: Floats
    negative_model: ClusterModel | None
    positive_model: ClusterModel | None

    @classmethod
    def of(
        cls,
        probability: Floats,
        label: Labels,
        cluster: Integers | None = None,
        words: str = "queries",
        logit: Floats | None = None,
    ) -> "ErrorCurve":
        """Count the errors of every threshold that separates two of the probabilities ``(E,)``.

        Args:
            probability: ``(E,)``.
            label: ``(E,)``.
            cluster: ``(E,)``, the same number for exemplars that depend on each other; without it, all are independent.
            words: the clusters in words, for errors.
            logit: ``(E,)`` in the same order as the probabilities, for the model of few clusters; without it, the
                probabilities themselves.
        """
        if not 0 < (label == 1).sum() < len(label):
            raise MIVError(f"All {len(label)} labels are the same. A threshold needs positives and negatives.")
        cluster = np.arange(len(label)) if cluster is None else cluster
        negative = label == 0
        levels, place = np.unique(probability, return_inverse=True)
        logit = probability if logit is None else logit
        below, above = np.full(len(levels) + 1, -np.inf), np.full(len(levels) + 1, np.inf)
        np.maximum.at(below, place + 1, logit)
        np.minimum.at(above, place, logit)
        return cls(
            _cuts(levels),
            *_counted(*(np.bincount(place[label == value], minlength=len(levels)) for value in (0, 1))),
            ErrorEvidence.of(probability[negative], cluster[negative], words),
            ErrorEvidence.of(-probability[~negative], cluster[~negative], words),
            below,
            above,
            ClusterModel.of(logit[negative], cluster[negative]),
            ClusterModel.of(-logit[~negative], cluster[~negative]),
        )

    @property
    def false_accept_rate(self) -> Floats:
        """``(..., J)``."""
        return np.asarray(self.false_accepts / self.negatives[..., None])

    @property
    def false_reject_rate(self) -> Floats:
        """``(..., J)``."""
        return np.asarray(self.false_rejects / self.positives[..., None])

    def resampled(
        self, probability: Floats, label: Labels, cluster: Integers, rounds: int, seed: int
    ) -> "Iterator[ErrorCurve]":
        """Resample the clusters of the same exemplars, and yield the curves ``(R, J)`` in batches."""
        order = np.argsort(probability, kind="stable")
        first = np.unique(probability[order], return_index=True)[1]  # (J - 1,) where each level begins
        of_class = [(label == value)[order] for value in (0, 1)]
        for drawn in draws_of(label, cluster, rounds, seed):
            times = drawn[:, cluster[order]]  # (R, E)
            counted = _counted(*(np.add.reduceat(times * of, first, axis=1) for of in of_class))
            accepts, rejects, negatives, positives = counted
            of_negatives, of_positives = (
                None if model is None else model.resampled(drawn)
                for model in (self.negative_model, self.positive_model)
            )
            yield replace(
                self,
                false_accepts=accepts,
                false_rejects=rejects,
                negatives=negatives,
                positives=positives,
                negative_model=of_negatives,
                positive_model=of_positives,
            )


def _counted(negatives: Integers, positives: Integers) -> tuple[Integers, Integers, Integers, Integers]:
    """From the counts of each distinct probability, ``(..., J - 1)``, to the errors at the cuts, and the sums."""
    none = np.zeros((*negatives.shape[:-1], 1), np.int64)
    true_rejects = np.concatenate([none, negatives.cumsum(-1)], -1)  # (..., J)
    false_rejects = np.concatenate([none, positives.cumsum(-1)], -1)
    total = true_rejects[..., -1:]
    return total - true_rejects, false_rejects, np.asarray(total[..., 0]), np.asarray(false_rejects[..., -1])


def _cuts(levels: Floats) -> Floats:
    """Halfway between neighbours; the first accepts everything, the last nothing."""
    edges = np.append(
        levels, max(1.0, np.nextafter(levels[-1], 2.0))
    )  # (J,) the lowest probability that each cut accepts
    middle = (levels + edges[1:]) / 2
    middle = np.where(middle > levels, middle, edges[1:])  # adjacent floats have no number between them
    return np.concatenate([levels[:1], middle])
