"""How fast i-AUROC and i-AP are beside scikit-learn, one bag a call. The last line of the output is one JSON object.

    python benchmarks/witness_metrics.py [--bags 20000]

``witness_metric_gain`` is the time of scikit-learn divided by ours, for both metrics of every bag; the two must agree.
"""

import argparse
import json
import time
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score

from miv.evaluation import witness_scores

BAGS = 20_000
REPEATS = 5


def example_bags(bags: int) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.float64]]:
    """Bags of the sizes of QMNIST, 3 to 25 and 6.9 in the mean; a witness and another in each; a third of ties."""
    random = np.random.default_rng(0)
    sizes = np.clip(3 + random.poisson(3.9, bags), 3, 25)
    ptr = np.concatenate([[0], np.cumsum(sizes)])
    witness = random.random(ptr[-1]) < 0.25
    witness[ptr[:-1]], witness[ptr[:-1] + 1] = True, False
    attention = random.random(ptr[-1])
    tied = random.random(ptr[-1]) < 1 / 3
    attention[tied] = attention[tied].round(1)
    return ptr, witness, attention


def measure(bags: int = BAGS) -> dict[str, float]:
    """Time both; ours is the median of a few runs."""
    ptr, witness, attention = example_bags(bags)
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        ours = witness_scores(ptr, witness, attention)
        times.append(time.perf_counter() - start)
    start = time.perf_counter()
    theirs: list[tuple[Any, Any]] = []
    for first, last in pairwise(ptr):
        truth, score = witness[first:last], attention[first:last]
        theirs.append((roc_auc_score(truth, score), average_precision_score(truth, score)))
    in_a_loop = time.perf_counter() - start
    difference = np.abs(np.stack([ours.i_auroc, ours.i_ap], axis=1) - theirs).max()
    assert difference < 1e-9, f"the two differ by {difference}"
    return {
        "witness_metric_gain": round(in_a_loop / float(np.median(times)), 1),
        "witness_metric_ms": round(1000 * float(np.median(times)), 2),
        "witness_metric_loop_s": round(in_a_loop, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bags", type=int, default=BAGS)
    print(json.dumps(measure(parser.parse_args().bags)))


if __name__ == "__main__":
    main()
