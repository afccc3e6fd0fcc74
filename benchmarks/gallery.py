"""What a gallery costs beyond what it must. The last line of the output is one JSON object.

    python benchmarks/gallery.py [--quick] [--folder FOLDER] [--bags 1000000]

All on one thread, processor time, which other work on the machine changes least; p50 of several runs.

``search_over_pass``: an exact search over 10,000 bags of 20 instances of 384 numbers (cap_dba_l2, with weights that are
not at their start, so that no gate is constant) / one NumPy product of the query with the same array. Beside it the
same for other poolings, and for a similarity that also weighs distances, which needs the vector of every bag.
``search_gain``: a loop of ``Verifier.verify`` over the bags / the search. The loop is measured on the first bags.
``add_overhead``: adding 10,000 new instances to a gallery / embedding them: HOG features of random images.
``large_search_ms``: an exact search over very many bags of 2 instances of 384 numbers, each one of 20,000 vectors with
noise of its own. The gallery stays in FOLDER, so that a run that was stopped goes on.
``references_gain``: with ``--raw``, the AUROC on QMNIST with 4 references minus that with 1; see
``benchmarks/references.py``.
"""

import argparse
import json
import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from miv import Gallery, Verifier
from miv.backbones.cache import embed_instances
from miv.data import InstancePool
from miv.poolings import ScaledProduct

CHANNELS = 384
POOLINGS = ("cap_dba_l2", "cap_vema", "cap_dba_l1", "cap_ma", "nearest", "baseline", "gabmil")
KINDS = 20_000  # distinct vectors that the bags of the large gallery are noisy copies of
NOISE = 0.7  # of their deviation


def p50(call: Callable[[], object], repeats: int) -> float:
    """Milliseconds of the processor."""
    found = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return statistics.median(found) * 1e3


def trained_like(pooling: str, distances: bool = False) -> Verifier:
    """A verifier in which no gate is constant."""
    torch.manual_seed(0)
    verifier = Verifier(pooling, channels=CHANNELS).eval()
    with torch.no_grad():
        for name, weight in verifier.named_parameters():
            if "excite" in name or "project" in name:
                weight.add_(0.02 * torch.randn_like(weight))
        if distances and isinstance(verifier.pooling.similarity, ScaledProduct):
            verifier.pooling.similarity.distance.add_(0.1)
    return verifier


CASES = [(name, False) for name in POOLINGS] + [("cap_dba_l2", True), ("nearest", True)]


def exact(bags: int, size: int, repeats: int, folder: Path) -> dict[str, Any]:
    values = np.random.default_rng(0).standard_normal((bags, size, CHANNELS), dtype=np.float32)
    flat, query = values.reshape(-1, CHANNELS), values[3, 4].copy()
    ratios, figures = {}, {}
    for number, (pooling, distances) in enumerate(CASES):
        verifier = trained_like(pooling, distances)
        gallery = Gallery.create(folder / str(number), verifier)
        gallery.add_many((str(bag), rows) for bag, rows in enumerate(values))
        gallery.search(query)
        searched = p50(lambda gallery=gallery: gallery.search(query), repeats)  # type: ignore[misc]
        one_pass = p50(lambda: flat @ query, repeats)
        ratios[pooling + " with distances" * distances] = round(searched / one_pass, 2)
        if number == 0:
            some = min(bags, 300)
            looped = p50(lambda: [verifier.verify(query, bag) for bag in values[:some]], 3) * bags / some  # noqa: B023
            figures = {
                "search_over_pass": ratios[pooling],
                "search_ms": round(searched, 1),
                "pass_ms": round(one_pass, 1),
                "search_gain": round(looped / searched, 1),
            }
        shutil.rmtree(folder / str(number))
    return {**figures, "search_over_pass_by_pooling": ratios}


def adding(instances: int, folder: Path) -> dict[str, Any]:
    images = np.random.default_rng(0).integers(0, 256, (instances, 28, 28), dtype=np.uint8)
    form = {"kind": "image", "height": 28, "width": 28, "mode": "L"}
    verifier = Verifier("cap_dba_l2", backbone="hog", instances=form)
    embed_instances(verifier.backbone, InstancePool("image", images[:100]), np.arange(100))  # warm
    embedded, added = [], []
    for number in range(3):
        gallery = Gallery.create(folder / f"added {number}", verifier)
        start = time.process_time()
        embed_instances(verifier.backbone, InstancePool("image", images), np.arange(instances))
        embedded.append(time.process_time() - start)
        start = time.process_time()
        gallery.add_many((str(first), images[first : first + 20]) for first in range(0, instances, 20))
        added.append(time.process_time() - start)
    overhead = statistics.median(one / other for one, other in zip(added, embedded, strict=True))
    seconds = [round(statistics.median(some), 2) for some in (embedded, added)]
    return {"add_overhead": round(overhead, 2), "embed_s": seconds[0], "add_s": seconds[1]}


def noisy_bags(bags: int) -> Iterator[tuple[str, Any]]:
    for part in range(0, bags, 50_000):
        for number, bag in enumerate(noisy(min(50_000, bags - part), 2, seed=part + 1)):
            yield str(part + number), bag


def noisy(bags: int, size: int, seed: int) -> Any:
    kinds = np.random.default_rng(0).standard_normal((KINDS, CHANNELS), dtype=np.float32)
    random = np.random.default_rng(seed)
    chosen = kinds[random.integers(0, KINDS, bags * size)]
    chosen += NOISE * random.standard_normal(chosen.shape, dtype=np.float32)
    return chosen.reshape(bags, size, CHANNELS)


def large(bags: int, folder: Path, repeats: int) -> dict[str, Any]:
    gallery = Gallery.open(folder) if folder.exists() else Gallery.create(folder, trained_like("cap_dba_l2"))
    if len(gallery) < bags:
        gallery.add_many(noisy_bags(bags))
    query = noisy(1, 1, seed=10**9)[0, 0]
    gallery.search(query)
    searched = p50(lambda: gallery.search(query, witnesses="none"), repeats)
    return {"large_search_ms": round(searched, 1), "large_search_bags": len(gallery)}


def references(raw: Path, cache: Path) -> dict[str, Any]:
    from references import references_gain  # type: ignore[import-not-found]

    return {"references_gain": round(references_gain(raw, cache), 4)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of everything, and 20,000 bags instead of a million"
    )
    parser.add_argument("--folder", type=Path, help="where the large gallery is kept; else it is made and removed")
    parser.add_argument("--bags", type=int, default=1_000_000, help="of the large gallery")
    parser.add_argument("--only", choices=["exact", "adding", "large"], help="measure only this")
    parser.add_argument("--raw", type=Path, help="raw files of QMNIST, for references_gain")
    parser.add_argument("--cache", type=Path, help="features of QMNIST are kept here")
    given = parser.parse_args()
    torch.set_num_threads(1)
    figures: dict[str, Any] = {"load_before": round(os.getloadavg()[0], 1), "cores": os.cpu_count()}
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if given.only in (None, "exact"):
            figures |= exact(1000 if given.quick else 10_000, 20, 5 if given.quick else 15, folder)
            print(json.dumps(figures), flush=True)
        if given.only in (None, "adding"):
            figures |= adding(1000 if given.quick else 10_000, folder)
            print(json.dumps(figures), flush=True)
        if given.only in (None, "large"):
            bags = 20_000 if given.quick else given.bags
            figures |= large(bags, given.folder or folder / "large", 10)
        if given.raw is not None:
            figures |= references(given.raw, given.cache or folder / "cache")
    figures["load_after"] = round(os.getloadavg()[0], 1)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
