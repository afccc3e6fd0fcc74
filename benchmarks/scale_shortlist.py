"""Gain and error of a shortlist on real features, repeated with noise."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from benchmarks.scale_digits import digits_and_features
from numpy.typing import NDArray

from miv.streaming import Shortlist, StreamedVerdict, StreamingPass

NOISE = 0.3  # of the deviation of each channel
ROUNDING = 1e-6  # of a probability, between two exact passes


def shortlist_gain(folder: Path, data: Path, rows: int = 1_000_000, queries: int = 100) -> dict[str, float]:
    """Time of the exact pass over the kept bag in memory / of the shortlist, and the error.

    The bag is test digits, embedded by ``miv/digits`` and repeated with noise; queries are other test digits. Both are
    asked one query at a time, in one process and on one thread (set OMP_NUM_THREADS=1), and the median of all queries
    counts, in processor time, which other work on the machine changes least. The exact pass names no targets, the
    shortlist names ten.
    """
    torch.set_num_threads(1)
    verifier, features, _ = digits_and_features(data, folder)
    random = np.random.default_rng(0)
    asked, base = features[:queries], features[queries:]
    noise = NOISE * base.std(axis=0)

    def chunks() -> Iterator[NDArray[np.float32]]:
        for start in range(0, rows, 50_000):
            some = base[np.arange(start, min(rows, start + 50_000)) % len(base)]
            yield (some + noise * random.normal(size=some.shape)).astype(np.float32)

    kept = verifier.keep_bag(chunks(), folder / "kept", rows="float32")
    started = time.process_time()
    shortlist = Shortlist(verifier, kept)
    building = time.process_time() - started
    keys = np.concatenate([chunk.copy() for chunk in kept.rows()])

    def exact(query: NDArray[np.float32]) -> list[StreamedVerdict]:
        state = StreamingPass(verifier, query, top=0)
        state.update_kept(keys)
        return state.finish()

    shortlist.verify(asked[:1])  # what the first call prepares
    short, found = _one_by_one(shortlist.verify, asked)
    alone, true = _one_by_one(exact, asked)
    shutil.rmtree(folder / "kept")
    error = np.array([abs(a.probability - b.probability) for a, b in zip(true, found, strict=True)])
    covered = [
        low - ROUNDING <= a.probability <= high + ROUNDING
        for a, (low, high) in zip(true, (b.probability_bounds for b in found), strict=True)
    ]
    said = np.array([one.standard_error for one in found])
    return {
        "shortlist_gain": alone / short,
        "shortlist_ms": 1000 * short,
        "shortlist_exact_ms": 1000 * alone,
        "shortlist_build_seconds": building,
        "shortlist_error_p99": float(np.quantile(error, 0.99)),
        "shortlist_within_001": float((error <= 0.01).mean()),
        "shortlist_standard_error": float(np.median(said)),
        "shortlist_within_two_errors": float((error <= 2 * said).mean()),
        "shortlist_bound_holds": float(np.mean(covered)),
        "shortlist_bound_width": float(np.median([np.ptp(one.probability_bounds) for one in found])),
        "shortlist_compared": float(np.mean([one.compared / one.size for one in found])),
        "shortlist_rows": rows,
        "shortlist_load": os.getloadavg()[0],
    }


def _one_by_one(
    verify: Callable[[NDArray[np.float32]], list[StreamedVerdict]], asked: NDArray[np.float32]
) -> tuple[float, list[StreamedVerdict]]:
    """Median processor time per query, and the verdicts."""
    times, found = [], []
    for query in asked:
        started = time.process_time()
        found += verify(query[None])
        times.append(time.process_time() - started)
    return float(np.median(times)), found
