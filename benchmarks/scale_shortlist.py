"""Gain and error of a shortlist on real features, repeated with noise."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from benchmarks.scale_digits import digits_and_features
from benchmarks.scale_streaming import seconds
from numpy.typing import NDArray

from miv.streaming import Shortlist, StreamedVerdict, StreamingPass

NOISE = 0.3  # of the deviation of each channel
ROUNDING = 1e-6  # of a probability, between two exact passes


def shortlist_gain(folder: Path, data: Path, rows: int = 1_000_000, queries: int = 100) -> dict[str, float]:
    """Time of the exact pass over the kept bag / of the shortlist, one query at a time, and the error.

    The bag is test digits, embedded by ``miv/digits`` and repeated with noise; queries are other test digits. The exact
    pass is the one that names no targets, the shortlist names ten.
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

    shutil.rmtree(folder / "kept", ignore_errors=True)  # of a run that was stopped
    kept = verifier.keep_bag(chunks(), folder / "kept", rows="float32")
    shortlist = Shortlist(verifier, kept)
    keys = np.concatenate([chunk.copy() for chunk in kept.rows()])
    shutil.rmtree(folder / "kept")

    def exact(some: NDArray[np.float32]) -> list[StreamedVerdict]:
        state = StreamingPass(verifier, some, top=0)
        state.update_kept(keys)
        return state.finish()

    alone = seconds(lambda: exact(asked[:1]), 3)
    short = seconds(lambda: shortlist.verify(asked[:20]), 3) / 20
    true, found = exact(asked), shortlist.verify(asked)
    error = np.array([abs(a.probability - b.probability) for a, b in zip(true, found, strict=True)])
    covered = [
        low - ROUNDING <= a.probability <= high + ROUNDING
        for a, (low, high) in zip(true, (b.probability_bounds for b in found), strict=True)
    ]
    return {
        "shortlist_gain": alone / short,
        "shortlist_error_p99": float(np.quantile(error, 0.99)),
        "shortlist_within_001": float((error <= 0.01).mean()),
        "shortlist_bound_holds": float(np.mean(covered)),
        "shortlist_bound_width": float(np.median([np.ptp(one.probability_bounds) for one in found])),
        "shortlist_compared": float(np.mean([one.compared / one.size for one in found])),
        "shortlist_exact": float(np.mean([one.is_exact for one in found])),
        "shortlist_rows": rows,
    }
