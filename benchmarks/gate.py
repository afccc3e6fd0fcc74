"""The gate of `miv train`: its defaults beside the best plain method chosen on validation, on small sets of many kinds.

    python benchmarks/gate.py --data DATA --label after               # computes the cells that are missing
    python benchmarks/gate.py --label after --against before          # the table, and what changed per set

A cell is one set, size and seed. DATA holds omniglot/, qmnist/ and fever-dev/ (`--tables` leaves those sets out).
Cells are lines of docs/results/gate.jsonl and are not computed twice; several processes may share the work. The last
line is JSON.
"""

import argparse
import json
import sys
import time
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

import miv
from miv.evaluation.baselines import CONTROLS

CELLS = Path(__file__).parents[1] / "docs" / "results" / "gate.jsonl"
TABLES = ("iris", "wine", "breast cancer", "digits")
SETS = [(name, 200) for name in TABLES]
SETS += list(product(("omniglot-vectors", "qmnist-vectors", "fever-evidence", "fever-verdicts"), (200, 1000)))
SETS += [("digits-twin", 200), ("claims-twin", 200)]
SEEDS = (0, 1, 2)
METRICS = ("auroc", "i_ap")
Cell = dict[str, Any]


def read_cells(label: str) -> dict[tuple[str, int, int], Cell]:
    lines = CELLS.read_text(encoding="utf-8").splitlines() if CELLS.is_file() else []
    cells = [json.loads(line) for line in lines]
    return {(cell["set"], cell["size"], cell["seed"]): cell for cell in cells if cell["label"] == label}


def build(name: str, size: int, seed: int, data: Path | None, cache: Path) -> dict[str, Any]:
    """The splits of a set."""
    from benchmarks import few_classes, plain_sets

    if name in TABLES:
        return few_classes.build(name, size, seed)
    return plain_sets.build(name, data or Path(), seed, size, cache)


def compute(label: str, cell: tuple[str, int, int], options: argparse.Namespace) -> None:
    """Build a set, train on it, and keep the figures on test."""
    name, size, seed = cell
    sets = build(name, size, seed, options.data, options.cache)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = json.loads(options.settings)
        answer = miv.train(sets, seed=seed, cache=options.cache, verbose=False, **settings).document()
    test, plain = answer["test"], answer["reference"]["splits"]
    result = {"label": label, "set": name, "size": size, "seed": seed}
    result |= {"recipe": answer["recipes"]["chosen"], "processor_seconds": round(time.process_time() - began, 1)}
    result["miv"] = {"auroc": test["classification"]["auroc"], "i_ap": test["witnesses"]["i_ap"]}
    result["plain"] = {metric: chosen_plain(plain, metric) for metric in METRICS}
    with FileLock(options.cache / "gate.lock"), CELLS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(result) + "\n")
    print(json.dumps(result), flush=True)


def chosen_plain(splits: dict[str, Any], metric: str) -> float:
    """The plain method that is best on validation, measured on test."""
    rows = {name: row for name, row in splits["validation"].items() if name not in CONTROLS}
    by_validation = {name: row[metric] for name, row in rows.items() if row.get(metric) is not None}
    return float(splits["test"][max(by_validation, key=lambda name: by_validation[name])][metric])


def margins(cells: dict[tuple[str, int, int], Cell], metric: str) -> dict[tuple[str, int], np.ndarray]:
    """Ours less the plain method's, by set; one number per seed."""
    sets = {(name, size): [] for name, size, _ in cells}  # type: dict[tuple[str, int], list[float]]
    for (name, size, _), cell in sorted(cells.items()):
        sets[name, size].append(cell["miv"][metric] - cell["plain"][metric])
    return {key: np.array(values) for key, values in sets.items()}


def mean_and_error(values: np.ndarray) -> list[float]:
    error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return [round(float(values.mean()), 4), round(float(error), 4)]


def report(label: str, against: str | None) -> None:
    """Print margins to plain code by set, and beside them the change since ``against`` on the same cells."""
    cells, earlier = read_cells(label), read_cells(against) if against else {}
    line: dict[str, Any] = {"label": label, "cells": len(cells)}
    for metric in METRICS:
        ours, before = margins(cells, metric), margins(earlier, metric)
        print(f"\n{metric}: set, train exemplars, margin to plain ± standard error" + (", change" if before else ""))
        for (name, size), values in ours.items():
            # Plain methods may have been mended in between, so a change is that of ours alone.
            pairs = [(cells[k], earlier[k]) for k in sorted(cells) if k[:2] == (name, size) and k in earlier]
            change = mean_and_error(np.array([a["miv"][metric] - b["miv"][metric] for a, b in pairs])) if pairs else ""
            print(f"{name:20} {size:5} {mean_and_error(values)} {change}")
        line[metric] = mean_and_error(np.array([values.mean() for values in ours.values()]))
        shared = sorted(set(cells) & set(earlier))
        if shared:
            sets = sorted({key[:2] for key in shared})
            by_set = [
                np.mean([cells[k]["miv"][metric] - earlier[k]["miv"][metric] for k in shared if k[:2] == one])
                for one in sets
            ]
            line[f"{metric}_change"] = mean_and_error(np.array(by_set))
    print(json.dumps(line))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", type=Path, help="folder with omniglot/, qmnist/ and fever-dev/; computes what is missing"
    )
    parser.add_argument("--tables", action="store_true", help="only the sets that need no data")
    parser.add_argument("--set", help="only this set")
    parser.add_argument("--label", default="after")
    parser.add_argument("--against", help="label of the cells to compare with")
    parser.add_argument("--settings", default="{}", help="settings of miv.train as JSON")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "miv-gate")
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    sets = [
        (name, size) for name, size in SETS if options.set in (None, name) and (not options.tables or name in TABLES)
    ]
    if options.data or options.tables:
        done = read_cells(options.label)
        missing = [(*one, seed) for seed, one in product(SEEDS, sets) if (*one, seed) not in done]
        for cell in missing:
            if cell not in read_cells(options.label):  # of another process
                compute(options.label, cell, options)
    report(options.label, options.against)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main()
