"""How much faster two Ray workers score than one thread. The last line of the output is one JSON object.

    python benchmarks/scale_ray.py [--exemplars 2000] [--rounds 3]

Texts are embedded by MiniLM (22 million parameters) and verified by ``cap_dba_l2``; every side writes the same Parquet
files, and the sides take turns. ``ray_efficiency``: exemplars per second with two Ray workers / with one thread of
this process, from the first finished partition of each worker to the last one, so without the start of Ray and the
loading of the verifier, which ``ray_start_seconds`` gives. Only meaningful on a quiet machine with two cores or more:
``load`` is the number of processes that wanted to run before the first side began.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from miv import Verifier
from miv.data import ExemplarSet
from miv.distributed import score
from miv.runtime.progress import SilentProgress
from miv.tasks import create_task

ROWS = 50


def write_table(exemplars: ExemplarSet, path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        for query, bag, _ in exemplars:
            file.write(json.dumps({"query": str(query), "bag": [str(text) for text in bag]}) + "\n")


def rate(out: Path, workers: int) -> float:
    """Exemplars per second, from the first finished partition of each worker on."""
    done = sorted(part.stat().st_mtime for part in out.glob("part-*.parquet"))
    return (len(done) - workers) * ROWS / (done[-1] - done[workers - 1])


def ray_efficiency(folder: Path, exemplars: int = 2000, rounds: int = 3) -> dict[str, Any]:
    """Exemplars per second of two workers / of one, and how long the workers take to start."""
    load = os.getloadavg()[0]
    torch.manual_seed(0)
    Verifier("cap_dba_l2", "hf:minilm").save_pretrained(folder / "verifier")
    exemplars = exemplars // ROWS * ROWS
    sets = create_task("claims-twin", pages=max(2, exemplars // 4), held_out_pages=2).build(SilentProgress())
    write_table(sets["train"][:exemplars], folder / "pairs.jsonl")
    rates: dict[int, list[float]] = {1: [], 2: []}
    starts = []
    for number in range(rounds):
        for workers in (1, 2) if number % 2 == 0 else (2, 1):
            out, since = folder / f"out-{number}-{workers}", time.time()
            score(folder / "verifier", folder / "pairs.jsonl", out, rows=ROWS, workers=workers, cores=1)
            rates[workers].append(rate(out, workers))
            if workers == 2:
                starts.append(min(part.stat().st_mtime for part in out.glob("part-*")) - since)
            print(f"round {number}, {workers}: {rates[workers][-1]:.1f} per second", file=sys.stderr)
    return {
        "ray_efficiency": round(statistics.median(b / a for a, b in zip(rates[1], rates[2], strict=True)), 3),
        "ray_exemplars_per_second": round(statistics.median(rates[2]), 1),
        "thread_exemplars_per_second": round(statistics.median(rates[1]), 1),
        "ray_start_seconds": round(statistics.median(starts), 1),
        "exemplars": exemplars,
        "load": round(load, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exemplars", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(ray_efficiency(Path(folder), arguments.exemplars, arguments.rounds)))


if __name__ == "__main__":
    main()
