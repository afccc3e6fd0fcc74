"""Does a promised rate hold on the set at hand? The rate with an interval that respects clusters."""

import math
import re
from typing import Any

import numpy as np

from miv.decisions.operating_point import OperatingPoint
from miv.evaluation.clusters import chosen_clusters, cluster_words, clusters_of
from miv.evaluation.predictions import Predictions
from miv.io.checked_values import Integers, Mask

_CONFIDENCE = 0.95
_SHORT = {"false-accept": "far", "false-reject": "frr"}
# The goal is a text from a file: a number counts if it goes on to a comma, a space or the end, unlike that of "1e".
_PROMISED = re.compile(r"(false-accept|false-reject) rate <= (\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?=[,\s]|$)")


def goal_checks(
    predictions: Predictions, point: OperatingPoint, cluster_by: str | None = None, withheld: Mask | None = None
) -> list[dict[str, Any]]:
    """For each rate that the operating point promises: the rate on these predictions, and whether it is above the goal.

    Verdicts that are ``withheld`` ``(E,)`` are neither accepted nor rejected.

    The interval is that of Korn and Graubard (1998): Clopper and Pearson with the effective number of exemplars.
    """
    probability = point.probability(predictions.logit)
    by = chosen_clusters(predictions, cluster_by)
    cluster = clusters_of(predictions, by)
    checks = []
    for kind, goal in _PROMISED.findall(point.goal):
        of = predictions.label == (0 if kind == "false-accept" else 1)
        wrong = (point.verdict(probability) if kind == "false-accept" else point.rejected(probability))[of]
        if withheld is not None:
            wrong = wrong & ~withheld[of]
        if not of.any():
            continue
        rate, (low, high) = float(wrong.mean()), rate_interval(wrong, cluster[of])
        checks.append(
            {
                "rate": _SHORT[kind],
                "goal": float(goal),
                "measured": rate,
                "low": low,
                "high": high,
                "missed": rate > float(goal),
                "clusters": len(np.unique(cluster[of])),
                "cluster_by": by,
            }
        )
    return checks


def check_words(check: dict[str, Any]) -> str:
    """One check as a sentence.

    >>> check_words({"rate": "far", "goal": 0.05, "measured": 0.141, "low": 0.08, "high": 0.22, "missed": True,
    ...              "clusters": 19, "cluster_by": "class"})
    'goal far <= 0.05 missed: 0.141 [0.080, 0.220], 95% interval by 19 classes'
    """
    verb = "missed" if check["missed"] else "met"
    chance = "; this may be chance" if check["missed"] and check["low"] <= check["goal"] else ""
    by = f"{check['clusters']:,} {cluster_words(check['cluster_by'])}"
    span = f"[{check['low']:.3f}, {check['high']:.3f}]"
    rate = f"{check['rate']} <= {check['goal']:g}"
    return f"goal {rate} {verb}: {check['measured']:.3f} {span}, 95% interval by {by}{chance}"


def rate_interval(wrong: Mask, cluster: Integers) -> tuple[float, float]:
    """Return the interval of an error rate from errors ``(n,)`` in clusters.

    >>> [round(end, 3) for end in rate_interval(np.arange(20) < 2, np.arange(20))]  # Clopper and Pearson
    [0.012, 0.317]
    """
    from scipy.special import betaincinv, stdtrit

    n, errors = len(wrong), int(wrong.sum())
    _, place, sizes = np.unique(cluster, return_inverse=True, return_counts=True)
    groups, rate, tail = len(sizes), errors / n, (1 - _CONFIDENCE) / 2
    most = float((sizes**2).sum() / n)
    effect = most if groups < n else 1.0  # without errors, or with nothing else, it cannot be measured
    if 0 < errors < n and groups > 1:
        scatter = float(((np.bincount(place, wrong) - rate * sizes) ** 2).sum())
        effect = scatter / (n * rate * (1 - rate)) * groups / (groups - 1) * (n - 1) / n
    few = stdtrit(max(n - 1, 1), 1 - tail) / stdtrit(max(groups - 1, 1), 1 - tail)
    effective = n / min(max(effect, 1.0), max(most, 1.0)) * few**2
    right = effective * (1 - rate)
    low = 0.0 if errors == 0 else float(betaincinv(effective * rate, right + 1, tail))
    high = 1.0 if errors == n else float(betaincinv(effective * rate + 1, right, 1 - tail))
    return (low, high) if math.isfinite(low + high) else (0.0, 1.0)
