"""Is the score a probability? Expected calibration error, and reliability by the size of the bag."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from miv.calibration.query_clusters import draws_of
from miv.io.checked_values import Floats, Integers, Labels

BINS = 15
_MOST_CLASSES = 4


def expected_calibration_error(label: Labels, probability: Floats) -> float:
    r"""Return :math:`\sum_b \frac{n_b}{E} |\bar y_b - \bar p_b|` over 15 bins of equal width (Guo et al. 2017).

    >>> expected_calibration_error(np.array([1, 1, 0, 0]), np.array([0.9, 0.9, 0.1, 0.1])).__round__(3)
    0.1
    """
    gaps = np.bincount(_bin(probability), label - probability, BINS)
    return float(np.abs(gaps).sum() / len(label))


def resampled_calibration_error(
    label: Labels, probability: Floats, cluster: Integers, rounds: int, seed: int
) -> Floats:
    """Return the errors ``(rounds,)`` when clusters ``(E,)`` of exemplars are resampled with replacement."""
    sizes = np.bincount(cluster)  # (G,)
    gaps = np.zeros((len(sizes), BINS))
    np.add.at(gaps, (cluster, _bin(probability)), label - probability)
    errors = [np.abs(drawn @ gaps).sum(1) / (drawn @ sizes) for drawn in draws_of(label, cluster, rounds, seed)]
    return np.concatenate(errors)


@dataclass(frozen=True, eq=False)
class ReliabilityPoints:
    """The non-empty bins: mean probability, share of positives, and number of exemplars, ``(b,)`` each."""

    probability: Floats
    positive_share: Floats
    exemplars: NDArray[np.int64]


def reliability_points(label: Labels, probability: Floats, bins: int = 10) -> ReliabilityPoints:
    """Group exemplars by probability into bins of equal count, as far as ties allow."""
    inner = np.quantile(probability, np.linspace(0, 1, bins + 1)[1:-1])
    place = np.searchsorted(inner, probability, side="right")
    count = np.bincount(place, minlength=bins)
    some = count > 0
    means = [np.bincount(place, values, bins)[some] / count[some] for values in (probability, label)]
    return ReliabilityPoints(means[0], means[1], count[some])


def bag_size_classes(sizes: NDArray[np.int64]) -> tuple[list[str], NDArray[np.int64]]:
    """Divide bags by size into at most four classes of about equal count.

    Returns:
        the names of the classes, and ``(E,)`` the class of each bag.

    >>> names, place = bag_size_classes(np.array([1, 2, 3, 4, 5, 6, 7, 8]))
    >>> names, place.tolist()
    (['1–2', '3–4', '5–6', '7–8'], [0, 0, 1, 1, 2, 2, 3, 3])
    """
    inner = np.unique(np.quantile(sizes, np.linspace(0, 1, _MOST_CLASSES + 1)[1:-1], method="inverted_cdf"))
    _, place = np.unique(np.searchsorted(inner, sizes, side="left"), return_inverse=True)
    names = []
    for number in range(int(place.max()) + 1):
        low, high = int(sizes[place == number].min()), int(sizes[place == number].max())
        names.append(f"{low}" if low == high else f"{low}–{high}")
    return names, place


def _bin(probability: Floats) -> NDArray[np.int64]:
    return np.minimum((probability * BINS).astype(np.int64), BINS - 1)
