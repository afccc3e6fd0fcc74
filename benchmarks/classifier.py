"""How good and how fast ``MIVClassifier`` is beside the largest cosine, without tuning; one JSON object per line.

AUROC on 2,000 held-out exemplars after 200, 500 and 2,000 of them: vectors around random centres, and with ``--data``
the histograms of gradients of Omniglot and the sentence embeddings of Fool Me Twice (see ``plain_sets.py``).
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from plain_sets import as_vectors, build  # type: ignore[import-not-found]

from miv import MIVClassifier
from miv.backbones import create_backbone
from miv.data import ExemplarSet
from miv.evaluation import auroc

SIZES, CHANNELS, SEEDS, TEST = (200, 500, 2_000), (64, 384, 1_024), (0, 1), 2_000
CENTRES, BAG = 200, 10

Exemplars = tuple[NDArray[np.float32], list[NDArray[np.float32]], NDArray[np.int64]]


def clustered(exemplars: int, channels: int, seed: int, noise: float | None = None) -> Exemplars:
    """Bags of ten around random centres, with noise so that the largest cosine has an AUROC near .88."""
    random = np.random.default_rng([seed, channels, exemplars])
    centres = np.random.default_rng(channels).normal(size=(CENTRES, channels))
    noise = float(np.sqrt(np.sqrt(channels) / 2.6 - 1)) if noise is None else noise
    own = random.integers(CENTRES, size=exemplars)
    members = (own[:, None] + random.integers(1, CENTRES, (exemplars, BAG))) % CENTRES  # never the query's
    label = np.arange(exemplars) % 2
    members[label == 1, 0] = own[label == 1]
    queries = centres[own] + noise * random.normal(size=(exemplars, channels))
    bags = centres[members] + noise * random.normal(size=(exemplars, BAG, channels))
    return queries.astype(np.float32), list(bags.astype(np.float32)), label


def real(name: str, data: Path, cache: Path, seed: int) -> dict[str, ExemplarSet]:
    sets = build(name, data, seed, None, cache)
    return as_vectors(sets, create_backbone("hf:minilm"), cache) if sets["train"].pool.kind == "text" else sets


def some(exemplars: ExemplarSet, rows: NDArray[np.int64]) -> Exemplars:
    values = np.asarray(exemplars.pool.values)
    bags = [values[exemplars.bag(int(row))] for row in rows]
    return values[exemplars.query[rows]], bags, exemplars.label[rows].astype(np.int64)


def cases(data: Path | None, cache: Path) -> Iterator[tuple[str, int, Exemplars, Exemplars]]:
    for channels in CHANNELS:
        for size in SIZES:
            for seed in SEEDS:
                yield (
                    f"clustered {channels}",
                    seed,
                    clustered(size, channels, seed),
                    clustered(TEST, channels, seed + 100),
                )
    if data is None:
        return
    for name in ("omniglot-vectors", "fm2-evidence"):
        for seed in SEEDS:
            sets, random = real(name, data, cache, seed), np.random.default_rng(seed)
            test = some(sets["test"], random.permutation(len(sets["test"]))[:TEST])
            for size in SIZES:
                yield name, seed, some(sets["train"], random.permutation(len(sets["train"]))[:size]), test


def largest_cosine(queries: NDArray[np.float32], bags: list[NDArray[np.float32]]) -> NDArray[np.float64]:
    def unit(x: NDArray[np.float32]) -> NDArray[np.float32]:
        return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-9)

    return np.array([(unit(bag) @ unit(query)).max() for query, bag in zip(queries, bags, strict=True)], np.float64)


def fitted(train: Exemplars, seed: int) -> tuple[MIVClassifier, float]:
    began = time.perf_counter()
    return MIVClassifier(random_state=seed).fit(*train), round(time.perf_counter() - began, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder with omniglot and fm2")
    parser.add_argument("--cache", type=Path, default=Path("cache"))
    parser.add_argument("--quick", action="store_true", help="only the smallest case of each set")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    for name, seed, train, test in cases(given.data, given.cache):
        if given.quick and (len(train[2]) > SIZES[0] or seed):
            continue
        model, seconds = fitted(train, seed)
        row: dict[str, Any] = {"set": name, "exemplars": len(train[2]), "seed": seed}
        row["largest_cosine"] = round(auroc(test[2], largest_cosine(*test[:2])), 4)
        row["classifier"] = round(auroc(test[2], model.predict_proba(*test[:2])[:, 1]), 4)
        print(json.dumps(row | {"fit_s": seconds}), flush=True)
    _, seconds = fitted(clustered(2_000, 512, 0, noise=3.0), 0)
    print(json.dumps({"fit_s_2000_x_10_x_512": seconds, "threads": given.threads}))


if __name__ == "__main__":
    main()
