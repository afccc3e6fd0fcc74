"""Images of few classes: `miv train` beside plain code. Every class is in all splits, and no image is in two.

    python benchmarks/image_classes.py --data DATA    # computes what is missing, about ten minutes on two cores
    python benchmarks/image_classes.py --report       # prints the table from docs/results/image_classes.jsonl

DATA is a folder with qmnist/ and omniglot/. The sets are digits of QMNIST (ten), digits of scikit-learn (ten) and
characters of Omniglot by alphabet (fifty). Bags are drawn as in `few_classes.py`. The last line is JSON.
"""

import argparse
import sys
import tempfile
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from sklearn import datasets

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks import few_classes, plain_sets
from benchmarks.shared import data_folder

from miv.data import SPLITS, InstancePool
from miv.runtime import SilentProgress
from miv.tasks.qmnist import read_digits

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "image_classes.jsonl"
SETS, SIZES, SEEDS = ("QMNIST digits", "scikit-learn digits", "alphabets"), (300, 1_000), (0, 1, 2)
SHARES = np.array([1 / 2, 5 / 8])  # where validation and test begin
TEST = 600
SIDE = 28
MOST_IMAGES = 6_000


def images_of(name: str, data: Path) -> tuple[NDArray[np.uint8], NDArray[np.object_]]:
    """The images and their classes."""
    if name == "QMNIST digits":
        digits, _ = read_digits(data / "qmnist", SilentProgress(), download=False)
        return digits.images[:MOST_IMAGES], digits.digit[:MOST_IMAGES].astype(str).astype(object)
    if name == "scikit-learn digits":
        table = datasets.load_digits()
        pixels = (table.images * 15.9).astype(np.uint8)
        large = [np.asarray(Image.fromarray(one).resize((SIDE, SIDE), Image.Resampling.BILINEAR)) for one in pixels]
        return np.stack(large), table.target.astype(str).astype(object)
    images, characters = plain_sets.read_omniglot(data / "omniglot")
    return images, np.array([name.split("/")[0] for name in characters], object)


def build(name: str, size: int, seed: int, data: Path) -> few_classes.Sets:
    """Half of the images are for train, an eighth for validation; validation has a quarter of train's exemplars."""
    images, classes = images_of(name, data)
    random = np.random.default_rng([seed, 78])
    pool = InstancePool("image", images, classes)
    parts = np.split(random.permutation(len(images)), (SHARES * len(images)).astype(int))
    counts = (size, size // 4, TEST)
    return {
        split: few_classes.draw(pool, classes, rows, count, random).compact()
        for split, rows, count in zip(SPLITS, parts, counts, strict=True)
    }


def compute(name: str, size: int, seed: int, data: Path) -> dict[str, Any]:
    """The figures on test of `miv train` with its defaults, and of the reference on the same features."""
    from miv import train

    with tempfile.TemporaryDirectory() as folder:
        out, cache = Path(folder) / "run", Path(folder) / "cache"
        run = train(build(name, size, seed, data), out=out, seed=seed, cache=cache, verbose=False)
    test = run.evaluations["test"].document()
    assert run.reference is not None
    return {
        "set": name,
        "size": size,
        "seed": seed,
        "miv": {"auroc": test["classification"]["auroc"], "i_ap": test["witnesses"]["i_ap"]},
        "plain": {m: {"auroc": row.auroc, "i_ap": row.i_ap} for m, row in run.reference.splits["test"].items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--report", action="store_true")
    asked = parser.parse_args()
    if not asked.report:
        data_folder(asked.data, "qmnist")
    wanted = () if asked.report else product(SETS, SIZES, SEEDS)
    cells = few_classes.completed(RESULTS, wanted, partial(compute, data=asked.data))
    few_classes.report(cells, ("nearest", "centred", "logistic"))


if __name__ == "__main__":
    main()
