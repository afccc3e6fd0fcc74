"""How much faster two Ray workers score than one thread. The last line of the output is one JSON object.

    python benchmarks/scale_ray.py [--exemplars 600] [--rounds 3]

Texts are embedded by MiniLM (22 million parameters) and verified by ``cap_dba_l2``; every side writes the same Parquet
files, and the sides take turns. ``ray_efficiency``: exemplars per second with two Ray workers of one thread each / with
one thread of this process, in the steady state: from the end of the first fifth of the partitions, which warms up both
sides, to the end of the last one, at which one of two workers may already be idle. It leaves out the start: reading the
table, starting Ray and its workers, importing and loading the verifier. ``ray_start_seconds`` is the time from the call
to the first finished partition, and ``ray_whole_efficiency`` the quotient of the times of the whole calls, with the
start, which grows with the number of exemplars. The median of the rounds. Three rounds of 600 exemplars take about
three minutes on two free cores. Only meaningful on a quiet machine with two cores or more: ``load`` is the number of
processes that wanted to run before the first side began.
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
from miv.runtime import SilentProgress
from miv.scoring import score
from miv.tasks import create_task

ROWS = 20


def write_table(exemplars: ExemplarSet, path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        for query, bag, _ in exemplars:
            file.write(json.dumps({"query": str(query), "bag": [str(text) for text in bag]}) + "\n")


def steady_rate(out: Path) -> float:
    """Exemplars per second after the first fifth of the partitions."""
    done = sorted(part.stat().st_mtime for part in out.glob("part-*.parquet"))
    warm = max(2, len(done) // 5)
    return (len(done) - warm) * ROWS / (done[-1] - done[warm - 1])


def ray_efficiency(folder: Path, exemplars: int = 600, rounds: int = 3) -> dict[str, Any]:
    """Exemplars per second of two workers / of one, and how long the workers take to start."""
    load = os.getloadavg()[0]
    torch.manual_seed(0)
    Verifier("cap_dba_l2", "hf:minilm").save_pretrained(folder / "verifier")
    exemplars = max(3, exemplars // ROWS) * ROWS
    sets = create_task("claims-twin", pages=max(2, exemplars // 4), held_out_pages=2).build(SilentProgress())
    write_table(sets["train"][:exemplars], folder / "pairs.jsonl")
    rates: dict[int, list[float]] = {1: [], 2: []}
    seconds: dict[int, list[float]] = {1: [], 2: []}
    starts = []
    for number in range(rounds):
        for workers in (1, 2) if number % 2 == 0 else (2, 1):
            out, since = folder / f"out-{number}-{workers}", time.time()
            score(folder / "verifier", folder / "pairs.jsonl", out, rows=ROWS, workers=workers, cores=1)
            seconds[workers].append(time.time() - since)
            rates[workers].append(steady_rate(out))
            if workers == 2:
                starts.append(min(part.stat().st_mtime for part in out.glob("part-*")) - since)
            told = f"{rates[workers][-1]:.1f} exemplars per second, {seconds[workers][-1]:.1f} seconds in all"
            print(f"round {number}, {'two Ray workers' if workers == 2 else 'one thread'}: {told}", file=sys.stderr)
    return {
        "ray_efficiency": round(statistics.median(b / a for a, b in zip(rates[1], rates[2], strict=True)), 3),
        "ray_whole_efficiency": round(statistics.median(a / b for a, b in zip(seconds[1], seconds[2], strict=True)), 3),
        "ray_exemplars_per_second": round(statistics.median(rates[2]), 1),
        "thread_exemplars_per_second": round(statistics.median(rates[1]), 1),
        "ray_start_seconds": round(statistics.median(starts), 1),
        "exemplars": exemplars,
        "load": round(load, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exemplars", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(ray_efficiency(Path(folder), arguments.exemplars, arguments.rounds)))


if __name__ == "__main__":
    main()
