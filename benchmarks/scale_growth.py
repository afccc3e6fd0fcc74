"""Time and memory as bags and the number of exemplars grow.

    python benchmarks/scale_growth.py [--largest-bag 10000000] [--most-exemplars 1000000] [--folder FOLDER]

The last line of the output is one JSON object. Every cell is measured on one core, in a process of its own that has
loaded the verifier (``cap_dba_l2``) and verified something small before.
"""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script

from benchmarks.scale_memory import cost, in_new_process

Cells = dict[str, dict[str, dict[str, float]]]  # by way and size

CHANNELS = 384
SIZES = {  # of bags
    "verify": (100, 1_000, 10_000, 100_000),
    "stream": (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000),
}
EXEMPLARS = {
    "verify_many": (1_000, 10_000, 100_000, 1_000_000),
    "score": (1_000, 10_000, 100_000),
}
_OF_EXEMPLARS = {"bag": 10, "channels": 128, "pool": 20_000}
_REPEATED = 1 << 16  # random rows, which are written again and again: the pass does not know


def growth_of_bags(folder: Path, largest: int = 10_000_000) -> dict[str, Any]:
    """Cost of one query to a bag of float16 features of 384 numbers in a file, by way and size.

    ``verify``: the file is read whole. ``stream``: ``verify_stream``. ``stream_memory_mb`` is the memory of ``stream``
    for the largest bag.
    """
    found: Cells = {}
    for way, sizes in SIZES.items():
        found[way] = {}
        for size in (size for size in sizes if size <= largest):
            found[way][str(size)] = bag_cell(folder, way, size)
    rows, most = max((int(size), cell) for size, cell in found["stream"].items())
    return {"growth_bags": found, "stream_memory_mb": most["megabytes"], "stream_memory_rows": rows}


def bag_cell(folder: Path, way: str, size: int) -> dict[str, float]:
    """The cost of one query to a bag of some size; its files are removed."""
    path = folder / "growing.npy"
    try:
        write_bag(path, size)
        return _measured("bag", way, path)
    finally:
        path.unlink(missing_ok=True)


def growth_of_exemplars(folder: Path, most: int = 1_000_000) -> dict[str, Any]:
    """Cost of exemplars with bags of ten features of 128 numbers, by way and number.

    ``verify_many``: all in memory, verdicts too. ``score``: a saved set, scored in partitions to Parquet files.
    """
    found: Cells = {}
    for way, counts in EXEMPLARS.items():
        found[way] = {}
        for count in (count for count in counts if count <= most):
            work = folder / "exemplars"
            work.mkdir()
            try:
                found[way][str(count)] = _measured("exemplars", way, count, work)
            finally:
                shutil.rmtree(work)
    return {"growth_exemplars": found}


def write_bag(path: Path, rows: int) -> None:
    """Write an array ``(rows, 384)`` of random float16 numbers without holding it in memory."""
    block = np.random.default_rng(0).normal(size=(min(rows, _REPEATED), CHANNELS)).astype(np.float16)
    about = {"descr": "<f2", "fortran_order": False, "shape": (rows, CHANNELS)}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, about)
        for start in range(0, rows, len(block)):
            file.write(block[: rows - start].data)


def _measured(*words: object) -> dict[str, float]:
    found = in_new_process(__file__, "--measure", *words)
    print(*words, found, file=sys.stderr, flush=True)
    return found


def _bag_here(way: str, path: Path) -> dict[str, float]:
    """The cost of one query, in this process."""
    from miv import Verifier

    verifier = Verifier("cap_dba_l2", channels=CHANNELS, start="paper").eval()
    query, small = (np.random.default_rng(1).normal(size=(size, CHANNELS)).astype(np.float32) for size in (1, 2))
    verifier.verify_stream(query, small)  # loads what the libraries load on first use
    verifier.verify(query[0], small)
    if way == "verify":
        return cost(lambda: verifier.verify(query[0], np.load(path)))
    return cost(lambda: verifier.verify_stream(query, path))


def _exemplars_here(way: str, count: int, folder: Path) -> dict[str, float]:
    """The cost of all exemplars, in this process."""
    from miv import Verifier
    from miv.data import ExemplarSet, InstancePool
    from miv.scoring import score

    bag, channels, random = _OF_EXEMPLARS["bag"], _OF_EXEMPLARS["channels"], np.random.default_rng(0)
    pool = random.normal(size=(_OF_EXEMPLARS["pool"], channels)).astype(np.float32)
    queries, firsts = random.integers(0, len(pool) - bag, (2, count))
    verifier = Verifier("cap_dba_l2", channels=channels).eval()
    verifier.verify_many(pool[:2], [pool[:bag], pool[bag : 2 * bag]])
    if way == "verify_many":
        asked, bags = pool[queries], [pool[first : first + bag] for first in firsts]
        return cost(lambda: verifier.verify_many(asked, bags))
    index, label = (firsts[:, None] + np.arange(bag)).ravel(), np.zeros(count, np.int8)
    exemplars = ExemplarSet(InstancePool("features", pool), queries, np.arange(count + 1) * bag, index, label)
    verifier.save_pretrained(folder / "verifier")
    for name, some in (("small", exemplars[:2]), ("set", exemplars)):
        some.save(folder / name, builder="scale", options={}, seed=0)
    score(folder / "verifier", folder / "small", folder / "small_out")
    del pool, queries, firsts, index, label, exemplars, some
    return cost(lambda: score(folder / "verifier", folder / "set", folder / "out"))


def _measure_here(subject: str, way: str, *words: str) -> dict[str, float]:
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    return _bag_here(way, Path(words[0])) if subject == "bag" else _exemplars_here(way, int(words[0]), Path(words[1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest-bag", type=int, default=10_000_000)
    parser.add_argument("--most-exemplars", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="folder for large files; default: a temporary one")
    parser.add_argument("--measure", nargs="+", help=argparse.SUPPRESS)  # one cell, in this process
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(_measure_here(*options.measure)))
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        bags = growth_of_bags(Path(folder), options.largest_bag)
        print(json.dumps(bags | growth_of_exemplars(Path(folder), options.most_exemplars)))


if __name__ == "__main__":
    main()
