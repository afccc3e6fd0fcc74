"""What each recipe is worth: the selection of `miv train` over the sets of the gate, leaving out one recipe at a time.

    python benchmarks/ablation.py --data DATA      # computes the cells that are missing, about a minute each
    python benchmarks/ablation.py                  # the table

A cell is one set, size and seed, and a line of docs/results/ablation.jsonl. Recipes are fitted once per cell and shared
between selections that leave others out, so that a cell costs little more than one training. The last line is JSON.
"""

import argparse
import json
import sys
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from miv.backbones.cache import embed_pool
from miv.backbones.descriptors import Features
from miv.evaluation import auroc, witness_metrics
from miv.training.auto import choose
from miv.training.fits import BagData
from miv.training.fitting import bag_data, recipes_for
from miv.training.forms import Form
from miv.training.new_verifier import create_verifier
from miv.training.recipes import RECIPES, Recipe
from miv.training.selection import select

CELLS = Path(__file__).parents[1] / "docs" / "results" / "ablation.jsonl"
METRICS = ("auroc", "i_ap")


class Remembered:
    """A recipe that is fitted once to the same bags from the same base."""

    def __init__(self, recipe: Recipe, known: dict[Any, dict[str, Form]]) -> None:
        self.recipe, self.known, self.builds_on = recipe, known, recipe.builds_on

    def fit(self, data: BagData, base: Form, seed: int) -> dict[str, Form]:
        bags = tuple(hash(part.tobytes()) for part in (data.units, data.query, data.target, data.ptr))
        is_plain = base.centre is None and base.map is None and base.sharpness is None and not base.share
        key = type(self.recipe), bags, None if is_plain else id(base)
        if key not in self.known:
            self.known[key] = self.recipe.fit(data, base, seed)
        return self.known[key]


def compute(name: str, size: int, seed: int, data: Path, cache: Path) -> dict[str, Any]:
    """AUROC and i-AP on test with all recipes, and without each."""
    from benchmarks.gate import build

    sets = build(name, size, seed, data, cache)
    config = choose(sets, {"seed": seed}, cache=cache).config
    verifier = create_verifier(config, sets["train"].pool).eval()
    if isinstance(verifier.backbone, Features) and verifier.backbone.standardise:
        verifier.backbone.fit(sets["train"].pool.values[sets["train"].used])
    bags = {}
    for split, exemplars in sets.items():
        features = embed_pool(verifier.backbone, exemplars.pool, cache)
        bags[split] = bag_data(verifier, exemplars, features, np.random.default_rng(0))
    names, known = recipes_for(config), {}  # type: ignore[var-annotated]
    result: dict[str, Any] = {"set": name, "size": size, "seed": seed, "without": {}}
    makes = {one: RECIPES[one].make for one in names}
    for one, make in makes.items():
        object.__setattr__(RECIPES[one], "make", lambda make=make: Remembered(make(), known))
    try:
        for left_out in ("", *names):
            some = [one for one in names if one != left_out]
            selection = select(bags["train"], bags["validation"], some, seed)
            logit, similarity = selection.form.logits(bags["test"])
            test = bags["test"]
            figures = {"recipe": selection.recipe, "auroc": round(float(auroc(test.label, logit)), 5)}
            if test.witness is not None:
                figures["i_ap"] = round(witness_metrics(test.ptr, test.witness, similarity, test.label)["i_ap"], 5)
            result["without"][left_out] = figures
    finally:
        for one, make in makes.items():
            object.__setattr__(RECIPES[one], "make", make)
    return result


def summary() -> dict[str, dict[str, Any]]:
    """By recipe: how often it is chosen, and how test figures change without it, over the sets where they do."""
    cells = [json.loads(line) for line in CELLS.read_text(encoding="utf-8").splitlines()] if CELLS.is_file() else []
    found: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(name for cell in cells for name in cell["without"] if name):
        changes: dict[str, dict[str, list[float]]] = {metric: {} for metric in METRICS}
        for cell in (one for one in cells if name in one["without"]):
            for metric in METRICS:
                change = cell["without"][name][metric] - cell["without"][""][metric]
                changes[metric].setdefault(f"{cell['set']} {cell['size']}", []).append(change)
        acts = [key for key in changes["auroc"] if any(np.any(changes[metric][key]) for metric in METRICS)]
        chosen = sum(cell["without"][""]["recipe"] == name for cell in cells)
        found[name] = {"chosen": chosen, "sets": len(acts)}
        for metric in METRICS:
            means = {key: float(np.mean(changes[metric][key])) for key in acts}
            worst = min(means, key=lambda key: means[key], default="")
            found[name][metric] = round(float(np.mean([*means.values()])), 4) if means else 0.0
            found[name][f"worst_{metric}"] = [worst, round(means[worst], 4)] if means else []
    return found


def report() -> None:
    for name, row in summary().items():
        print(name, row)
    print(json.dumps(summary()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with omniglot/, qmnist/ and fever-dev/")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "miv-gate")
    options = parser.parse_args()
    if options.data:
        from benchmarks.gate import SEEDS, SETS

        lines = CELLS.read_text(encoding="utf-8").splitlines() if CELLS.is_file() else []
        done = {(cell["set"], cell["size"], cell["seed"]) for cell in map(json.loads, lines)}
        for seed, (name, size) in product(SEEDS, SETS):
            if (name, size, seed) in done:
                continue
            with threadpool_limits(1, user_api="blas"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                cell = compute(name, size, seed, options.data, options.cache)
            with CELLS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(cell) + "\n")
            print(f"{name} {size}, seed {seed}: {cell['without']['']}", flush=True)
    report()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main()
