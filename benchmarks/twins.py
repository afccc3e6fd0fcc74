"""How hard the synthetic twins are for a nearest-neighbour rule on raw input, and how fast they are made.

The score of an exemplar is the largest cosine between its query and a member of its bag: of pixels (ink
counts), or of words weighted by TF-IDF. The last line of the output is one
JSON object.

    python benchmarks/twins.py [--seeds 5]
"""

import argparse
import json
import time
from functools import partial

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import roc_auc_score

from miv.data import ExemplarSet
from miv.runtime import SilentProgress
from miv.tasks import create_task


def raw_features(exemplars: ExemplarSet) -> NDArray[np.float32]:
    """Return ``(P, D)`` rows of length 1: the ink of images, TF-IDF of texts."""
    values = exemplars.pool.values
    if exemplars.pool.kind == "text":
        return np.asarray(TfidfVectorizer(dtype=np.float32).fit_transform(values).toarray())
    pixels = values.reshape(len(values), -1).astype(np.float32)
    ink = pixels if np.median(pixels) < 128 else 255 - pixels
    rows: NDArray[np.float32] = ink / np.linalg.norm(ink, axis=1, keepdims=True)
    return rows


def nearest_neighbour(exemplars: ExemplarSet) -> tuple[float, float]:
    """Return AUROC over exemplars, and i-AUROC: witnesses against the rest, mean over positive bags."""
    features = raw_features(exemplars)
    similarity = np.einsum("ij,ij->i", features[exemplars.query[exemplars.owner]], features[exemplars.bag_index])
    score = np.maximum.reduceat(similarity, exemplars.bag_ptr[:-1])
    inside = []
    for exemplar in np.flatnonzero(exemplars.label == 1):
        witness = exemplars.bag_witness(int(exemplar))
        assert witness is not None
        if witness.any() and not witness.all():
            members = slice(*exemplars.bag_ptr[exemplar : exemplar + 2])
            inside.append(roc_auc_score(witness, similarity[members]))
    return float(roc_auc_score(exemplars.label, score)), float(np.mean(inside))


def main(seeds: int) -> None:
    from claims_twin import SyntheticClaims  # type: ignore[import-not-found]

    figures: dict[str, float] = {}
    for name, task in {"digits-twin": partial(create_task, "digits-twin"), "claims-twin": SyntheticClaims}.items():
        for difficulty in (0.5, 1.0, 2.0):
            results, seconds = [], []
            for seed in range(seeds):
                start = time.perf_counter()
                sets = task(seed=seed, difficulty=difficulty).build(SilentProgress())
                seconds.append(time.perf_counter() - start)
                results.append(nearest_neighbour(sets["test"]))
            (auroc, inside), deviation = np.mean(results, axis=0), np.std(results, axis=0)
            print(
                f"{name:16} difficulty {difficulty}: AUROC {auroc:.3f} ± {deviation[0]:.3f}, "
                f"i-AUROC {inside:.3f} ± {deviation[1]:.3f}, made in {np.median(seconds):.1f} s"
            )
            if difficulty == 1.0:
                key = name.removesuffix("-twin")
                figures |= {f"{key}_auroc": auroc, f"{key}_i_auroc": inside, f"{key}_s": np.median(seconds)}
    print(json.dumps({key: round(float(value), 3) for key, value in figures.items()}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="number of sets of each kind")
    main(parser.parse_args().seeds)
