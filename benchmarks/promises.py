"""How often a promised rate is broken for new clusters, and how often it is refused, by four methods.

Simulated validation sets of a few clusters (classes of queries, such as signers) with logits that depend on the
cluster; the true false-accept rate is that of new clusters. A promise is broken if the true rate is above it. One JSON
object per case, and the shares over the cases of each kind in the last line.
"""

import argparse
import json
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit

from miv.errors import MIVError
from miv.evaluation.error_curve import CONFIDENCE, ClusterModel, ErrorCurve, ErrorEvidence, upper_bound
from miv.evaluation.goals import parse_goal

Floats = NDArray[np.float64]
Random = np.random.Generator
ROUNDS = 1000  # of the bootstrap
CASES = ((10, 30, 0.05), (19, 18, 0.05), (40, 10, 0.05), (100, 10, 0.05), (50, 12, 0.01))  # clusters, size, rate
POSITIVES = np.arange(-2.0, 15.0, 0.02)  # so that a threshold may be anywhere


def normal(correlation: float) -> Callable[[Random, int], tuple[Floats, Floats]]:
    """A normal effect of the cluster, with this correlation between its logits."""
    return lambda random, clusters: (
        np.sqrt(correlation) * random.normal(size=clusters),
        np.full(clusters, np.sqrt(1 - correlation)),
    )


# From the number of clusters to the mean and the spread of the logits of each.
MODEL_HOLDS = {"independent": normal(0.0), "correlation .36": normal(0.36), "correlation .7": normal(0.7)}
MODEL_FAILS: dict[str, Callable[[Random, int], tuple[Floats, Floats]]] = {
    "own spread": lambda random, n: (0.7 * random.normal(size=n), np.exp(0.4 * random.normal(size=n))),
    "heavy tails (t3)": lambda random, n: (0.63 / np.sqrt(3) * random.standard_t(3, size=n), np.full(n, 0.77)),
    "skewed (exponential)": lambda random, n: (0.8 * random.exponential(size=n), np.ones(n)),
    "one in ten far worse": lambda random, n: (np.where(random.random(n) < 0.1, 2.0, 0.0), np.ones(n)),
}


def drawn(
    world: Callable[[Random, int], tuple[Floats, Floats]], random: Random, clusters: int, size: int
) -> tuple[Floats, NDArray[np.int64]]:
    """Logits of negatives and their clusters, of one to three times the mean size."""
    means, spreads = world(random, clusters)
    sizes = np.maximum(2, np.round(size * random.uniform(0.2, 1.8, clusters))).astype(int)
    cluster = np.repeat(np.arange(clusters), sizes)
    return means[cluster] + spreads[cluster] * random.normal(size=len(cluster)), cluster


def as_independent(score: Floats, cluster: NDArray[np.int64], rate: float) -> float | None:
    """Clopper and Pearson, as if every exemplar were its own cluster."""
    return _allowed(score, upper_bound(np.arange(len(score)), len(score)), rate)


def design_effect(score: Floats, cluster: NDArray[np.int64], rate: float) -> float | None:
    """Clopper and Pearson with the effective number of exemplars (Korn and Graubard 1998)."""
    return _allowed(score, ErrorEvidence.of(score, cluster).upper_bound(np.arange(len(score))), rate)


def cluster_bootstrap(score: Floats, cluster: NDArray[np.int64], rate: float) -> float | None:
    """A quantile of the thresholds of resampled clusters, widened for few clusters (Hesterberg 2015)."""
    clusters = int(cluster.max()) + 1
    order = np.argsort(-score)
    times = np.random.default_rng(0).multinomial(clusters, np.full(clusters, 1 / clusters), ROUNDS)[:, cluster[order]]
    allowed = (times.cumsum(1) <= rate * times.sum(1, keepdims=True)).sum(1)  # (R,) errors of each round
    level = ndtr(stdtrit(clusters - 1, CONFIDENCE) * np.sqrt(clusters / (clusters - 1)))
    return float(score[order][int(np.sort(allowed)[int((1 - level) * ROUNDS)])])


def cluster_model(score: Floats, cluster: NDArray[np.int64], rate: float) -> float | None:
    """What ``miv calibrate`` does."""
    label = np.repeat([0, 1], [len(score), len(POSITIVES)]).astype(np.int8)
    own = cluster.max() + 1 + np.arange(len(POSITIVES))
    curve = ErrorCurve.of(np.append(score, POSITIVES), label, np.append(cluster, own))
    try:
        return float(curve.cuts[parse_goal(f"far={rate}").cuts(curve)[1]])
    except MIVError:
        return None


def model_alone(score: Floats, cluster: NDArray[np.int64], rate: float) -> float | None:
    """The limit of the model without counted errors: sharper, but broken in a quarter of the worlds that it misfits."""
    model = ClusterModel.of(score, cluster)
    return None if model is None else model.limit(rate)


def _allowed(score: Floats, bounds: Floats, rate: float) -> float | None:
    errors = int(np.searchsorted(bounds, rate, side="right")) - 1
    return None if errors < 0 else float(np.sort(score)[::-1][errors])


METHODS = {
    "as_independent": as_independent,
    "design_effect": design_effect,
    "cluster_bootstrap": cluster_bootstrap,
    "cluster_model": cluster_model,
    "model_alone": model_alone,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=200)
    draws = parser.parse_args().draws
    shares: dict[str, dict[str, list[float]]] = {}
    for name, world in (MODEL_HOLDS | MODEL_FAILS).items():
        random = np.random.default_rng(0)
        means, spreads = world(random, 20_000)
        for clusters, size, rate in CASES:
            sets = [drawn(world, random, clusters, size) for _ in range(draws)]
            row: dict[str, Any] = {"world": name, "clusters": clusters, "rate": rate}
            for method, choose in METHODS.items():
                cuts = [choose(*one, rate) for one in sets]
                broken = [cut is not None and float(ndtr((means - cut) / spreads).mean()) > rate for cut in cuts]
                row[method] = {"broken": sum(broken) / draws, "refused": sum(cut is None for cut in cuts) / draws}
                kind = f"{method}, {'model holds' if name in MODEL_HOLDS else 'model fails'}"
                of_kind = shares.setdefault(kind, {"broken": [], "refused": []})
                for what in of_kind:
                    of_kind[what].append(row[method][what])
            print(json.dumps(row), flush=True)
    print(json.dumps({kind: {what: round(sum(one) / len(one), 4) for what, one in of.items()}
                      | {"worst_broken": max(of["broken"])} for kind, of in shares.items()}))  # fmt: skip


if __name__ == "__main__":
    main()
