"""What a cluster of 100 machines would do with a billion instances, from rates measured here.

    python benchmarks/scale_machines.py [--out docs/results/many-machines.json]

The last line of the output is one JSON object. Rates are per core, in processor time, which does not count what else
the machine does; the disk is timed by the clock. The size of the machines and their network are assumptions, and
``ASSUMED`` lists them.
"""

import argparse
import json
import os
import pickle
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from miv import Verifier
from miv.backbones.feature_cache import embed_instances
from miv.data import InstancePool
from miv.runtime.progress import SilentProgress
from miv.streaming import StreamingPass
from miv.tasks import create_task

CHANNELS = 384
ASSUMED = {"machines": 100, "cores": 16, "network_gb_per_second": 1.25, "disk_gb_per_second": 1.0}
INSTANCES = 1_000_000_000
BYTES_OF_TEXT, BYTES_OF_IMAGE = 100, 28 * 28
SECONDS = 1.0  # processor time per rate


def per_second(work: Callable[[], int]) -> float:
    """Units per second of processor time, after one unmeasured round."""
    work()
    done, since = 0, time.process_time()
    while time.process_time() - since < SECONDS:
        done += work()
    return done / (time.process_time() - since)


def embedding_rates() -> dict[str, float]:
    texts = create_task("claims-twin", pages=60, held_out_pages=2).build(SilentProgress())["train"].pool
    some = InstancePool("text", texts.values[:64])
    encoder = Verifier("baseline", "hf:minilm").backbone.eval()
    images = InstancePool("image", np.random.default_rng(0).integers(0, 256, (256, 28, 28), dtype=np.uint8))
    network = Verifier("baseline", "compact_cnn").backbone.eval()

    def embed(backbone: Any, pool: InstancePool) -> Callable[[], int]:
        return lambda: len(embed_instances(backbone, pool, np.arange(len(pool))))

    return {"texts": per_second(embed(encoder, some)), "images": per_second(embed(network, images))}


def pass_rates() -> dict[str, float]:
    """Gigabytes per second of the exact pass over features in memory, and the bytes that a part returns."""
    random, found = np.random.default_rng(0), {}
    bag = random.normal(size=(16_384, CHANNELS)).astype(np.float32)
    verifier = Verifier("cap_dba_l2", channels=CHANNELS).eval()
    for name, rows in (("float32", bag), ("float16", bag.astype(np.float16))):
        for queries in (1, 16):

            def pool(rows: Any = rows, queries: int = queries) -> int:
                part = StreamingPass(verifier, bag[:queries])
                part.update(rows)
                return int(rows.nbytes)

            found[f"{name}_{queries}"] = per_second(pool) / 1e9
    part = StreamingPass(verifier, bag[:1])
    part.update(bag)
    found["part_bytes"] = float(len(pickle.dumps(part)))
    return found


def disk_rate(folder: Path) -> float:
    """Gigabytes per second of reading a file that the system has let go of."""
    path, size = folder / "disk", 256 << 20
    path.write_bytes(os.urandom(1 << 20) * (size >> 20))
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        since = time.perf_counter()
        while file.read(8 << 20):
            pass
        return size / 1e9 / (time.perf_counter() - since)


def arithmetic(embedding: dict[str, float], passing: dict[str, float]) -> dict[str, float]:
    """Hours, minutes and gigabytes for ``INSTANCES`` on the assumed machines."""
    machines, cores = ASSUMED["machines"], ASSUMED["machines"] * ASSUMED["cores"]
    stored = INSTANCES * CHANNELS * 2 / 1e9  # float16, in gigabytes
    compute = stored / (passing["float16_1"] * cores)
    disk = stored / machines / ASSUMED["disk_gb_per_second"]
    return {
        "text_embedding_hours": INSTANCES / embedding["texts"] / cores / 3600,
        "image_embedding_hours": INSTANCES / embedding["images"] / cores / 3600,
        "text_embedding_core_years": INSTANCES / embedding["texts"] / 3600 / 24 / 365,
        "text_reading_seconds": INSTANCES * BYTES_OF_TEXT / 1e9 / machines / ASSUMED["network_gb_per_second"],
        "image_reading_seconds": INSTANCES * BYTES_OF_IMAGE / 1e9 / machines / ASSUMED["network_gb_per_second"],
        "stored_gb": stored,
        "stored_gb_per_machine": stored / machines,
        "pass_compute_seconds": compute,
        "pass_disk_seconds": disk,
        "pass_seconds": max(compute, disk),
        "pass_16_queries_seconds": max(stored / (passing["float16_16"] * cores), disk),
        "one_machine_pass_minutes": max(stored / (passing["float16_1"] * ASSUMED["cores"]), disk * machines) / 60,
        "shuffle_seconds": stored / machines / ASSUMED["network_gb_per_second"],
        "merged_kb": passing["part_bytes"] * machines * ASSUMED["cores"] / 1e3,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="JSON file to write")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    embedding, passing = embedding_rates(), pass_rates()
    print(embedding, passing, file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        disk = disk_rate(Path(folder))
    result = {
        "assumed": ASSUMED,
        "measured": {"embedding_per_second": embedding, "pass_gb_per_second": passing, "disk_gb_per_second": disk},
        "billion": arithmetic(embedding, passing),
        "processor": platform.processor() or platform.machine(),
        "load": os.getloadavg()[0],
    }
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
