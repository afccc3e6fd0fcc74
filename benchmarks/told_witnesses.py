"""What would knowing the witnesses give? A regression that is told them, on the same features.

    python benchmarks/told_witnesses.py --data DATA [--cache CACHE] [--set NAME] [--size 1000]

`miv train` learns from the labels of bags. This benchmark gives a logistic regression the labels of instances, which
no user of multiple instance verification has: is this target a witness of this query? A bag scores as its best
target. It is linear, so it is no upper bound: `miv train` may be above it. One JSON object per set and size.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks import plain, plain_sets

from miv.backbones import create_backbone
from miv.backbones.cache import embed_pool
from miv.data import ExemplarSet, csr
from miv.evaluation import auroc
from miv.evaluation.cosines import unit_rows
from miv.evaluation.witnesses import witness_scores

BACKBONES = {"image": "hog", "text": "hf:minilm"}
STRENGTHS = (1e-5, 1e-4, 1e-3, 1e-2)  # values of C, chosen on validation
MOST_TARGETS = 60_000  # of train


def inputs(exemplars: ExemplarSet, features: NDArray[np.float32], rows: NDArray[np.int64]) -> NDArray[np.float32]:
    r"""``(R, 2 C + 1)`` for some targets: cosine, :math:`|q - t|` and :math:`q \odot t`, of length 1."""
    query = unit_rows(features, exemplars.query[exemplars.owner[rows]])
    target = unit_rows(features, exemplars.bag_index[rows])
    return np.column_stack([(query * target).sum(axis=1), np.abs(query - target), query * target]).astype(np.float32)


def compute(name: str, size: int | None, data: Path, cache: Path, seed: int) -> dict[str, object]:
    sets = plain_sets.build(name, data, seed, size, cache)
    backbone = BACKBONES.get(sets["train"].pool.kind)
    features = {
        split: one.pool.values if backbone is None else embed_pool(create_backbone(backbone), one.pool, cache)
        for split, one in sets.items()
    }
    train, random = sets["train"], np.random.default_rng(seed)
    assert train.witness is not None
    rows = np.sort(random.permutation(len(train.bag_index))[:MOST_TARGETS])
    scaler = StandardScaler()
    scaled = scaler.fit_transform(inputs(train, features["train"], rows))
    held_out = {split: scaler.transform(_all(sets[split], features[split])) for split in ("validation", "test")}
    best: tuple[float, dict[str, object]] = (-1.0, {})
    for strength in STRENGTHS:
        model = LogisticRegression(C=strength, max_iter=100).fit(scaled, train.witness[rows])
        found = {split: _figures(sets[split], model.decision_function(held_out[split])) for split in held_out}
        if found["validation"]["auroc"] > best[0]:
            best = (found["validation"]["auroc"], {**found["test"], "C": strength})
    return {"set": name, "size": size, "seed": seed, **best[1]}


def _all(exemplars: ExemplarSet, features: NDArray[np.float32]) -> NDArray[np.float32]:
    return inputs(exemplars, features, np.arange(len(exemplars.bag_index)))


def _figures(exemplars: ExemplarSet, score: NDArray[np.float64]) -> dict[str, float]:
    assert exemplars.witness is not None
    ranked = witness_scores(exemplars.bag_ptr, exemplars.witness, score)
    counted = (exemplars.label == 1) & ranked.defined
    return {
        "auroc": float(auroc(exemplars.label, csr.bag_maxima(score, exemplars.bag_ptr))),
        "i_ap": float(ranked.i_ap[counted].mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "miv-plain")
    parser.add_argument("--set", choices=plain_sets.NAMES, action="append")
    parser.add_argument("--size", action="append", help="200, 1000 or all")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    board = plain.packed()
    for size in [None if one == "all" else int(one) for one in asked.size or ("200", "1000", "all")]:
        for name in asked.set or plain_sets.NAMES:
            found = compute(name, size, asked.data, asked.cache, asked.seed)
            cell = board.get(plain.cell_name(name, size, asked.seed))
            if cell is not None:
                for metric in ("auroc", "i_ap"):
                    found[f"{metric}_above_plain"] = found[metric] - plain.best_plain(cell["reference"], metric)  # type: ignore[operator]
            print(
                json.dumps({key: round(one, 4) if isinstance(one, float) else one for key, one in found.items()}),
                flush=True,
            )


if __name__ == "__main__":
    main()
