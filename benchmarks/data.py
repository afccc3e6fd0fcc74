"""How fast sets are built, opened and shown. The last line of the output is one JSON object.

    python benchmarks/data.py [--fever-gigabytes 1]

``qmnist_build_s`` needs the raw files in ``qmnist`` of ``$MIV_SHARED_DIR/data`` or ``../shared/data``, and is
null without them.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from miv.data import ExemplarSet, InstancePool, save_splits
from miv.runtime import SilentProgress
from miv.tasks import create_task

ROOT = Path(__file__).resolve().parents[1]
EXEMPLARS, ENTRIES, INSTANCES = 1_000_000, 10_000_000, 100_000
OPENINGS = 3


def large_set() -> ExemplarSet:
    """A million exemplars with ten million bag entries, on images of 28 × 28."""
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (INSTANCES, 28, 28), dtype=np.uint8)
    writers = np.array([f"writer {number % 1000}" for number in range(INSTANCES)], dtype=object)
    sizes = 1 + random.multinomial(ENTRIES - EXEMPLARS, np.full(EXEMPLARS, 1 / EXEMPLARS))
    return ExemplarSet(
        InstancePool("image", images, writers),
        query=random.integers(0, INSTANCES, EXEMPLARS),
        bag_ptr=np.concatenate([[0], np.cumsum(sizes)]),
        bag_index=random.integers(0, INSTANCES, ENTRIES),
        label=random.integers(0, 2, EXEMPLARS, dtype=np.int8),
        witness=random.random(ENTRIES) < 0.2,
        group=np.array([str(number % 10) for number in range(EXEMPLARS)], dtype=object),
    )


def open_once(folder: Path) -> dict[str, float]:
    """Open a set in this process; seconds, and by how many MB the peak of its memory rises."""
    before = peak_memory()
    start = time.perf_counter()
    exemplars = ExemplarSet.load(folder)
    seconds = time.perf_counter() - start
    assert len(exemplars.bag_index) == ENTRIES
    return {"seconds": seconds, "megabytes": peak_memory() - before}


def peak_memory() -> float:
    """The most memory that this process has had, in MB, with the pages of mapped files that were read."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def measure_large(folder: Path) -> dict[str, float]:
    large_set().save(folder, builder="benchmark", options={}, seed=0)
    runs = []
    for _ in range(OPENINGS):  # each in a process of its own, as memory once had is kept
        done = subprocess.run([sys.executable, __file__, "--open", str(folder)], capture_output=True, check=True)
        runs.append(json.loads(done.stdout))
    return {
        "open_large_s": round(float(np.median([run["seconds"] for run in runs])), 3),
        "open_large_mb": round(max(run["megabytes"] for run in runs), 1),
    }


def measure_qmnist(folder: Path) -> dict[str, float | None]:
    raw = Path(os.environ.get("MIV_SHARED_DIR", ROOT.parent / "shared")) / "data" / "qmnist"
    if not raw.is_dir():
        print(f"No raw files in {raw}; QMNIST is not measured.", file=sys.stderr)
        return {"qmnist_build_s": None}
    start = time.perf_counter()
    sets = create_task("qmnist", raw=raw, download=False).build(SilentProgress())
    save_splits(sets, folder, builder="qmnist", options={}, seed=0)
    return {"qmnist_build_s": round(time.perf_counter() - start, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fever-gigabytes", type=float, default=1.0)
    parser.add_argument("--open", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.open:
        print(json.dumps(open_once(arguments.open)))
        return
    sys.path.insert(0, str(ROOT))
    from benchmarks.fever_dump import measure as measure_fever

    figures: dict[str, float | None] = {}
    with tempfile.TemporaryDirectory() as temporary:
        figures |= measure_qmnist(Path(temporary) / "qmnist")
        figures |= measure_large(Path(temporary) / "large")
        figures |= measure_fever(round(arguments.fever_gigabytes * 2**30), Path(temporary))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
