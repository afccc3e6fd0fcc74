"""What each recipe is worth: the selection of `miv train` over the sets of the gate, leaving out one recipe at a time.

    python benchmarks/ablation.py --data DATA                       # computes the cells that are missing
    python benchmarks/ablation.py                                   # the table
    python benchmarks/ablation.py --data DATA --many contrast_map   # without one recipe, on sets of many classes

A cell is one set, size and seed, and a line of docs/results/ablation.jsonl or many_classes.jsonl. Recipes are fitted
once per cell and shared between selections that leave others out, so that a cell costs little more than one training.
The last line is JSON.
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
from miv.data import ExemplarSet
from miv.evaluation import auroc, witness_metrics
from miv.training.auto import choose
from miv.training.fits import BagData
from miv.training.fitting import bag_data, recipes_for
from miv.training.new_verifier import create_verifier
from miv.training.recipes import RECIPES, Form, Recipe
from miv.training.selection import select

CELLS = Path(__file__).parents[1] / "docs" / "results" / "ablation.jsonl"
MANY = CELLS.with_name("many_classes.jsonl")
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


def compute(
    sets: dict[str, ExemplarSet], name: str, size: int, seed: int, cache: Path, only: str | None = None
) -> dict[str, Any]:
    """AUROC and i-AP on test with all recipes, and without each or ``only`` one."""
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
        for left_out in ("", *([only] if only else names)):
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


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []


def summary(path: Path = CELLS) -> dict[str, dict[str, Any]]:
    """By recipe: how often it is chosen, and how test figures change without it, over the sets where they do."""
    cells = read(path)
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


def report(path: Path) -> None:
    for name, row in summary(path).items():
        print(name, row)
    print(json.dumps(summary(path)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data",
        type=Path,
        help="folder with omniglot/, qmnist/, fever-dev/, and for --many nli/ and chimpanzee_faces/",
    )
    parser.add_argument("--many", metavar="RECIPE", help="leave out this recipe, on the sets of many classes")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "miv-gate")
    options = parser.parse_args()
    path = MANY if options.many else CELLS
    if options.data:
        from benchmarks import gate, many_classes

        done = {(cell["set"], cell["size"], cell["seed"]) for cell in read(path)}
        many = [(name, size) for size, name in product(many_classes.SIZES, many_classes.SETS)]
        sets = many if options.many else gate.SETS
        for seed, (name, size) in product(gate.SEEDS, sets):
            if (name, size, seed) in done:
                continue
            with threadpool_limits(1, user_api="blas"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if options.many:
                    built = many_classes.SETS[name](size, seed, options.data, options.cache)
                else:
                    built = gate.build(name, size, seed, options.data, options.cache)
                cell = compute(built, name, size, seed, options.cache, options.many)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(cell) + "\n")
            print(f"{name} {size}, seed {seed}: {cell['without']}", flush=True)
    report(path)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main()
