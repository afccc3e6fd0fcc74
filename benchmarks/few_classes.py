"""Small tables and few classes: `miv train` beside plain code that picks its witnesses anew.

    python benchmarks/few_classes.py              # computes what is missing, about ten minutes on two cores
    python benchmarks/few_classes.py --report     # prints the table from docs/results/few_classes.jsonl

The tables come with scikit-learn. All classes are in every split, and no instance is in two. A bag of 4 to 12 holds one
or two of the query's class if it is positive. The plain methods are those of `miv baselines` and `again`, a logistic
regression on products and distances of standardised columns, which takes the target with the highest score as the
witness of a bag and is fitted again, six times. The last line is JSON.
"""

import argparse
import json
import tempfile
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.linear_model import LogisticRegression

from miv.data import SPLITS, ExemplarSet, InstancePool, csr
from miv.evaluation import auroc
from miv.evaluation.baselines import unit_rows
from miv.evaluation.plain_methods import score_baselines

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "few_classes.jsonl"
TABLES = {
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
    "breast cancer": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
}
SIZES, SEEDS, TEST = (200, 800), (0, 1, 2), 1_000
SHARES = (0.5, 0.15, 0.35)  # of the instances for train, validation and test
ROUNDS = 6

Sets = dict[str, ExemplarSet]


def build(name: str, size: int, seed: int) -> Sets:
    """Exemplars over the rows of a table; validation is a quarter of train."""
    table = TABLES[name]()
    random = np.random.default_rng([seed, 77])
    pool = InstancePool("features", table.data.astype(np.float32))
    borders = (np.cumsum(SHARES)[:-1] * len(table.target)).astype(int)
    parts = np.split(random.permutation(len(table.target)), borders)
    counts = (size, max(50, size // 4), TEST)
    return {
        split: draw(pool, table.target, rows, count, random)
        for split, rows, count in zip(SPLITS, parts, counts, strict=True)
    }


def draw(
    pool: InstancePool, target: NDArray[Any], rows: NDArray[np.int64], count: int, random: np.random.Generator
) -> ExemplarSet:
    """Every second bag holds one or two instances of the query's class."""
    queries, bags, witnesses = [], [], []
    for number in range(count):
        kind = random.choice(np.unique(target[rows]))
        own, other = rows[target[rows] == kind], rows[target[rows] != kind]
        query = int(random.choice(own))
        found = random.choice(own[own != query], int(random.integers(1, 3)) if number % 2 else 0, replace=False)
        bag = np.concatenate([found, random.choice(other, int(random.integers(4, 13)) - len(found))])
        order = random.permutation(len(bag))
        queries.append(query)
        bags.append(bag[order])
        witnesses.append(order < len(found))
    return ExemplarSet.from_lists(pool, queries, bags, [number % 2 for number in range(count)], witnesses)


def again(sets: Sets, strength: float) -> float:
    """The AUROC on test of a regression that picks the witnesses of train anew after each fit."""
    train = sets["train"]
    values = np.asarray(train.pool.values)
    values = (values - values[train.used].mean(axis=0)) / (values[train.used].std(axis=0) + 1e-9)
    inputs = {split: pairs(sets[split], values) for split in ("train", "test")}
    mean, spread = inputs["train"].mean(axis=0), inputs["train"].std(axis=0) + 1e-9
    units = unit_rows(values.astype(np.float32), np.arange(len(values)))
    score = (units[train.query[train.owner]] * units[train.bag_index]).sum(axis=1)
    scaled = (inputs["train"] - mean) / spread
    for _ in range(ROUNDS):
        witness = [first + int(np.argmax(score[first:last])) for first, last in pairwise(train.bag_ptr)]
        model = LogisticRegression(C=strength, max_iter=300).fit(scaled[witness], train.label)
        score = model.decision_function(scaled)
    found = model.decision_function((inputs["test"] - mean) / spread)
    return auroc(sets["test"].label, csr.bag_maxima(found, sets["test"].bag_ptr))


def pairs(exemplars: ExemplarSet, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """``(T, 2 C)`` products and distances of each target and its query."""
    query, target = values[exemplars.query[exemplars.owner]], values[exemplars.bag_index]
    return np.hstack([query * target, np.abs(query - target)])


def compute(name: str, size: int, seed: int) -> dict[str, Any]:
    """The figures on test of `miv train` with its defaults, and of the plain methods."""
    from miv import train

    sets = build(name, size, seed)
    with tempfile.TemporaryDirectory() as folder:
        plain = score_baselines(sets, cache=Path(folder) / "cache").splits["test"]
        run = train(
            sets, out=Path(folder) / "run", seed=seed, cache=Path(folder) / "cache", baselines=False, verbose=False
        )
        test = run.evaluations["test"].document()
    return {
        "set": name,
        "size": size,
        "seed": seed,
        "miv": {"auroc": test["classification"]["auroc"], "i_ap": test["witnesses"]["i_ap"]},
        "plain": {method: {"auroc": row.auroc, "i_ap": row.i_ap} for method, row in plain.items()}
        | {"again": {"auroc": max(again(sets, strength) for strength in (0.01, 0.1))}},
    }


def completed(
    results: Path, wanted: Iterable[tuple[str, int, int]], compute: Callable[[str, int, int], dict[str, Any]]
) -> list[dict[str, Any]]:
    """The cells of a file, after computing those of the wanted sets, sizes and seeds that it lacks."""
    cells = [json.loads(line) for line in results.read_text("utf-8").splitlines()] if results.is_file() else []
    done = {(cell["set"], cell["size"], cell["seed"]) for cell in cells}
    for one in wanted:
        if one not in done:
            cells.append(compute(*one))
            with results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(cells[-1], separators=(",", ":")) + "\n")
    return cells


def report(cells: list[dict[str, Any]], methods: Sequence[str]) -> None:
    """Print means over the seeds; the best plain method is the best on test."""
    if not cells:
        raise SystemExit("There is no cell yet. Compute some without --report.")
    print(f"| set | train | miv AUROC | {' | '.join(methods)} | margin | miv i-AP | nearest | margin |")
    print("|---" * (7 + len(methods)) + "|")
    margins = {"auroc": [_margin(cell, "auroc") for cell in cells], "i_ap": [_margin(cell, "i_ap") for cell in cells]}
    for name, size in dict.fromkeys((cell["set"], cell["size"]) for cell in cells):
        some = [cell for cell in cells if (cell["set"], cell["size"]) == (name, size)]
        plain = [_mean(cell["plain"][method]["auroc"] for cell in some) for method in methods]
        figures = [f"{_mean(cell['miv']['auroc'] for cell in some):.3f}", *(f"{value:.3f}" for value in plain)]
        figures += [f"{_mean(_margin(cell, 'auroc') for cell in some):+.3f}"]
        figures += [f"{_mean(row['i_ap'] for row in rows):.3f}" for rows in _ranked(some)]
        print(f"| {name} | {size} | {' | '.join(figures)} | {_mean(_margin(cell, 'i_ap') for cell in some):+.3f} |")
    line = {f"worst_margin_{key}": round(min(found), 4) for key, found in margins.items()}
    line |= {f"median_margin_{key}": round(float(np.median(found)), 4) for key, found in margins.items()}
    print(json.dumps({**line, "cells": len(cells)}))


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def _ranked(cells: list[dict[str, Any]]) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    return [cell["miv"] for cell in cells], [cell["plain"]["nearest"] for cell in cells]


def _margin(cell: dict[str, Any], key: str) -> float:
    return float(cell["miv"][key] - max(row[key] for row in cell["plain"].values() if row.get(key) is not None))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report", action="store_true")
    asked = parser.parse_args()
    wanted = () if asked.report else product(TABLES, SIZES, SEEDS)
    report(completed(RESULTS, wanted, compute), ("nearest", "logistic", "again"))


if __name__ == "__main__":
    main()
