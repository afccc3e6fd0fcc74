"""What a cluster of 100 machines would do with a billion instances, from rates measured here.

    python benchmarks/scale_machines.py [--seconds 5]

The last line of the output is one JSON object. Rates are per core, in processor time, which does not count what else
the machine does; the disk is timed by the clock. The size of the machines, their network and their disks are
assumptions, and ``ASSUMED`` lists them.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from miv import Verifier
from miv.backbones.cache import embed_instances
from miv.data import InstancePool
from miv.runtime import SilentProgress

CHANNELS, ROWS, QUERIES = 384, 1 << 16, 16
ASSUMED = {
    "instances": 1_000_000_000,
    "machines": 100,
    "cores": 16,  # per machine, like the ones that were measured
    "network_gb_per_second": 1.25,  # per machine: 10 Gbit/s
    "disk_gb_per_second": 1.0,  # per machine
}
Rates = dict[str, float]


def per_second(work: Callable[[], int], seconds: float) -> float:
    """Units per second of processor time, after one unmeasured round."""
    work()
    done, since = 0, time.process_time()
    while time.process_time() - since < seconds:
        done += work()
    return done / (time.process_time() - since)


def embedding_rates(seconds: float) -> tuple[Rates, Rates]:
    """Instances per second, and bytes per instance as it comes."""
    from claims_twin import SyntheticClaims  # type: ignore[import-not-found]

    texts = SyntheticClaims(pages=60, held_out_pages=2).build(SilentProgress())["train"].pool.values[:256]
    images = np.random.default_rng(0).integers(0, 256, (512, 28, 28), dtype=np.uint8)

    def rate(backbone: str, pool: InstancePool) -> float:
        network = Verifier("baseline", backbone).backbone.eval()
        return per_second(lambda: len(embed_instances(network, pool, np.arange(len(pool)))), seconds)

    rates = {
        "texts": rate("hf:minilm", InstancePool("text", texts)),
        "images": rate("compact_cnn", InstancePool("image", images)),
    }
    return rates, {
        "texts": float(np.mean([len(text.encode()) for text in texts])),
        "images": float(images[0].nbytes),
    }


def pass_rates(folder: Path, seconds: float) -> Rates:
    """Instances per second of exact passes over files in the page cache.

    ``features_1``: ``verify_stream`` over float16 features, one query; ``features_16``: sixteen queries together.
    """
    random = np.random.default_rng(0)
    verifier = Verifier("cap_dba_l2", channels=CHANNELS).eval()
    queries = random.normal(size=(QUERIES, CHANNELS)).astype(np.float32)
    np.save(folder / "bag.npy", random.normal(size=(ROWS, CHANNELS)).astype(np.float16))

    def rate(verify: Callable[[], Any]) -> float:
        return per_second(lambda: int(verify()[0].size), seconds)

    return {
        "features_1": rate(lambda: verifier.verify_stream(queries[:1], folder / "bag.npy")),
        "features_16": rate(lambda: verifier.verify_stream(queries, folder / "bag.npy")),
    }


def disk_rate(folder: Path, gigabytes: int = 1) -> float:
    """Gigabytes per second of reading a file that the system has let go of."""
    path, block = folder / "disk", os.urandom(1 << 20)
    with path.open("wb") as file:
        for _ in range(gigabytes * 1000):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    with path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        since = time.perf_counter()
        while file.read(8 << 20):
            pass
        seconds = time.perf_counter() - since
    rate = path.stat().st_size / 1e9 / seconds
    path.unlink()
    return rate


def arithmetic(embedding: Rates, instance_bytes: Rates, passing: Rates) -> Rates:
    """What the assumed machines need for the assumed instances; each part as if it were alone."""
    count, machines, cores = ASSUMED["instances"], ASSUMED["machines"], ASSUMED["machines"] * ASSUMED["cores"]
    network, disk = ASSUMED["network_gb_per_second"], ASSUMED["disk_gb_per_second"]
    stored = count * CHANNELS * 2 / 1e9  # float16, in gigabytes
    seconds = {name: count / rate / cores for name, rate in passing.items()}
    from_disk = stored / machines / disk
    return {
        "text_read_seconds": count * instance_bytes["texts"] / 1e9 / machines / network,
        "image_read_seconds": count * instance_bytes["images"] / 1e9 / machines / network,
        "text_embed_hours": count / embedding["texts"] / cores / 3600,
        "image_embed_minutes": count / embedding["images"] / cores / 60,
        "text_embed_core_years": count / embedding["texts"] / 3600 / 24 / 365,
        "stored_gb": stored,
        "stored_gb_per_machine": stored / machines,
        "disk_seconds": from_disk,
        "send_seconds": stored / machines / network,
        "pass_processor_seconds": seconds["features_1"],
        "pass_16_processor_seconds": seconds["features_16"],
        "pass_seconds": max(seconds["features_1"], from_disk),
        "pass_16_seconds": max(seconds["features_16"], from_disk),
        "one_machine_pass_minutes": max(seconds["features_1"], from_disk) * machines / 60,
    }


def machines(folder: Path, seconds: float = 5.0) -> dict[str, Any]:
    """Assumptions, rates per core, and what follows.

    Args:
        folder: for files, some 1.2 GB.
        seconds: processor time per rate.
    """
    torch.set_num_threads(1)
    torch.manual_seed(0)
    embedding, instance_bytes = embedding_rates(seconds)
    print("embedding, per second:", embedding, file=sys.stderr, flush=True)
    passing = pass_rates(folder, seconds)
    print("passing, per second:", passing, file=sys.stderr, flush=True)
    return {
        "assumed": ASSUMED,
        "embedded_per_second": embedding,
        "instance_bytes": instance_bytes,
        "passed_per_second": passing,
        "passed_gb_per_second": {name: rate * CHANNELS * 2 / 1e9 for name, rate in passing.items()},
        "disk_gb_per_second": disk_rate(folder),
        "billion": arithmetic(embedding, instance_bytes, passing),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="processor time per rate")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(machines(Path(folder), arguments.seconds)))


if __name__ == "__main__":
    main()
