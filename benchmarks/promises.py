"""How often a promised rate is broken for new clusters, how often it is refused, and what it costs, by method.

    python benchmarks/promises.py [--draws 200]

Simulated validation sets of a few clusters (classes of queries, such as signers) with logits that depend on the
cluster; the true false-accept rate is that of new clusters. A promise is broken if the true rate is above it; ``used``
is the mean true rate divided by the promised one: 1 would be no price at all. One JSON object per case, and the means
over the cases of each kind in the last line.
"""

import argparse
import json
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, ndtr, ndtri, stdtrit

from miv.errors import MIVError
from miv.evaluation.clusters import CONFIDENCE, ErrorEvidence, upper_bound
from miv.evaluation.goals import ErrorCurve, parse_goal

Floats = NDArray[np.float64]
Random = np.random.Generator
ROUNDS = 1000  # of the bootstrap
# Clusters, size, rate.
CASES = ((10, 30, 0.05), (19, 18, 0.05), (19, 18, 0.1), (40, 10, 0.05), (100, 10, 0.05), (50, 12, 0.01))
POSITIVES = np.arange(-2.0, 15.0, 0.02)  # so that a threshold may be anywhere


def normal(correlation: float) -> Callable[[Random, int], tuple[Floats, Floats]]:
    """A normal effect of the cluster, with this correlation between its logits."""
    return lambda random, clusters: (
        np.sqrt(correlation) * random.normal(size=clusters),
        np.full(clusters, np.sqrt(1 - correlation)),
    )


def beta_rates(correlation: float) -> Callable[[Random, int], tuple[Floats, Floats]]:
    """Clusters whose error rates at the logit 0 have a beta distribution of mean 0.05: a few have most errors."""
    a, b = (share * (1 - correlation) / correlation for share in (0.05, 0.95))
    return lambda random, n: (ndtri(np.clip(random.beta(a, b, n), 1e-7, 1 - 1e-7)), np.ones(n))


def far_worse(share: float, shift: float) -> Callable[[Random, int], tuple[Floats, Floats]]:
    """A share of the clusters has logits that are this much higher."""
    return lambda random, n: (np.where(random.random(n) < share, shift, 0.0), np.ones(n))


# From the number of clusters to the mean and the spread of the logits of each.
MODEL_HOLDS = {"independent": normal(0.0), "correlation .36": normal(0.36), "correlation .7": normal(0.7)}
MODEL_FAILS: dict[str, Callable[[Random, int], tuple[Floats, Floats]]] = {
    "own spread": lambda random, n: (0.7 * random.normal(size=n), np.exp(0.4 * random.normal(size=n))),
    "heavy tails (t3)": lambda random, n: (0.63 / np.sqrt(3) * random.standard_t(3, size=n), np.full(n, 0.77)),
    "skewed (exponential)": lambda random, n: (0.8 * random.exponential(size=n), np.ones(n)),
    "beta-binomial .1": beta_rates(0.1),
    "beta-binomial .3": beta_rates(0.3),
    "one in ten far worse": far_worse(0.1, 2.0),
    "one in twenty far worse": far_worse(0.05, 2.5),
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


def conformal(score: Floats, cluster: NDArray[np.int64], rate: float) -> float | None:
    """Conformal risk control by cluster, as if one more cluster were wrong throughout: no promise of a confidence."""
    evidence = ErrorEvidence.of(score, cluster)
    return _allowed(score, (1 + evidence.rates[:-1]) / (evidence.clusters + 1), rate)


_MEANS, _CORRELATIONS = 0.6 * np.linspace(0, 1, 61)[1:] ** 2, (np.arange(20) + 0.5) / 20


def beta_binomial(score: Floats, cluster: NDArray[np.int64], rate: float) -> float | None:
    """A quantile of the posterior of the mean of a beta-binomial rate, with even priors of mean and correlation."""
    sizes = np.bincount(cluster)
    others = (1 - _CORRELATIONS) / _CORRELATIONS
    a, b = _MEANS[:, None] * others, (1 - _MEANS[:, None]) * others
    descending = np.sort(score)[::-1]

    def holds(errors: int) -> bool:
        wrong = np.bincount(cluster[score > descending[errors]], minlength=len(sizes))
        seen, times = np.unique(np.stack([wrong, sizes]), axis=1, return_counts=True)
        of_each = (
            count * (betaln(a + c, b + m - c) - betaln(a, b)) for (c, m), count in zip(seen.T, times, strict=True)
        )
        likelihood = np.sum(list(of_each), axis=0)
        weight = (np.exp(likelihood - likelihood.max()) * np.gradient(_MEANS)[:, None]).sum(1).cumsum()
        return bool(_MEANS[np.searchsorted(weight / weight[-1], CONFIDENCE)] <= rate)

    low, high = -1, len(score) // 5
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return None if low < 0 else float(descending[low])


def in_use(score: Floats, cluster: NDArray[np.int64], rate: float) -> float | None:
    """What ``miv calibrate`` does."""
    label = np.repeat([0, 1], [len(score), len(POSITIVES)]).astype(np.int8)
    own = cluster.max() + 1 + np.arange(len(POSITIVES))
    curve = ErrorCurve.of(np.append(score, POSITIVES), label, np.append(cluster, own))
    try:
        return float(curve.cuts[parse_goal(f"far={rate}").cuts(curve)[1]])
    except MIVError:
        return None


def model_alone(score: Floats, cluster: NDArray[np.int64], rate: float) -> float | None:
    """The limit of the model of few clusters, without counted errors."""
    return ErrorEvidence.of(score, cluster).limit(rate)


def _allowed(score: Floats, bounds: Floats, rate: float) -> float | None:
    errors = int(np.searchsorted(bounds, rate, side="right")) - 1
    return None if errors < 0 else float(np.sort(score)[::-1][errors])


METHODS = {
    "as_independent": as_independent,
    "design_effect": design_effect,
    "cluster_bootstrap": cluster_bootstrap,
    "conformal": conformal,
    "beta_binomial": beta_binomial,
    "model_alone": model_alone,
    "in_use": in_use,
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
                rates = [float(ndtr((means - cut) / spreads).mean()) for cut in cuts if cut is not None]
                row[method] = {"broken": sum(one > rate for one in rates) / draws, "refused": 1 - len(rates) / draws}
                row[method]["used"] = float(np.mean(rates)) / rate if rates else None
                kind = f"{method}, {'model holds' if name in MODEL_HOLDS else 'model fails'}"
                of_kind = shares.setdefault(kind, {"broken": [], "refused": [], "used": []})
                for what in of_kind:
                    of_kind[what] += [row[method][what]] if row[method][what] is not None else []
            print(json.dumps(row), flush=True)
    print(json.dumps({kind: {what: round(sum(one) / max(1, len(one)), 4) for what, one in of.items()}
                      | {"worst_broken": max(of["broken"])} for kind, of in shares.items()}))  # fmt: skip


if __name__ == "__main__":
    main()
