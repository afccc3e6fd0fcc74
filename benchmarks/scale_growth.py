"""Time and memory as bags and the number of exemplars grow."""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script

from benchmarks.scale_memory import measured, write_bag

SIZES = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)
EXEMPLARS = (1_000, 10_000, 100_000, 1_000_000)
_BAG = 10  # instances per exemplar
_CHANNELS = 128


def growth(folder: Path, sizes: tuple[int, ...] = SIZES, exemplars: tuple[int, ...] = EXEMPLARS) -> dict[str, object]:
    """Seconds and megabytes above the verifier, each in a process of its own.

    Bags: ``verify_stream`` over float16 features of 384 numbers on disk. Exemplars: ``verify_many`` on bags of ten
    features of 128 numbers, with attention as shares, all in memory.
    """
    bags = []
    for size in sizes:
        path = folder / "growing.npy"
        write_bag(path, size)
        bags.append(
            {"size": size, **{name: round(value, 4) for name, value in measured(path).items() if name != "size"}}
        )
        path.unlink()
    many = []
    for count in exemplars:
        done = subprocess.run([sys.executable, __file__, str(count)], capture_output=True, text=True, check=True)
        many.append(json.loads(done.stdout.splitlines()[-1]))
    return {"growth_bags": bags, "growth_exemplars": many}


def _exemplars_in_this_process(count: int) -> dict[str, float]:
    from miv import Verifier

    verifier, random = Verifier("cap_dba_l2", channels=_CHANNELS).eval(), np.random.default_rng(0)
    pool = random.normal(size=(20_000, _CHANNELS)).astype(np.float32)
    verifier.verify_many(pool[:2], [pool[:_BAG], pool[_BAG : 2 * _BAG]])
    bags = [pool[start : start + _BAG] for start in random.integers(0, len(pool) - _BAG, count)]
    queries = pool[random.integers(0, len(pool), count)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    verdicts = verifier.verify_many(queries, bags)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"exemplars": len(verdicts), "seconds": round(seconds, 4), "megabytes": round((peak - before) / 1024, 1)}


if __name__ == "__main__":
    print(json.dumps(_exemplars_in_this_process(int(sys.argv[1]))))
