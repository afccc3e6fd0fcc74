"""Peak memory of one exact pass over a bag on disk, measured in a process of its own."""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

CHANNELS = 384
_REPEATED = 1 << 16  # random rows, which are written again and again: the pass does not know


def write_bag(path: Path, rows: int, channels: int = CHANNELS, dtype: str = "float16") -> None:
    """Write an array ``(rows, channels)`` of random numbers without holding it in memory."""
    block = np.random.default_rng(0).normal(size=(min(rows, _REPEATED), channels)).astype(dtype)
    mapped = np.lib.format.open_memmap(path, "w+", dtype=dtype, shape=(rows, channels))
    for start in range(0, rows, len(block)):
        mapped[start : start + len(block)] = block[: min(len(block), rows - start)]
        mapped.flush()
    del mapped


def measured(path: Path, pooling: str = "cap_dba_l2") -> dict[str, float]:
    """Seconds, and megabytes above the loaded verifier, of ``verify_stream`` over a file in a new process."""
    done = subprocess.run([sys.executable, __file__, str(path), pooling], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def stream_memory_mb(folder: Path, rows: int = 10_000_000) -> dict[str, float]:
    """The figure: megabytes above the verifier for ``rows`` x 384 float16."""
    path = folder / "large.npy"
    write_bag(path, rows)
    try:
        found = measured(path)
    finally:
        path.unlink()
    return {
        "stream_memory_mb": found["megabytes"],
        "stream_memory_rows": rows,
        "stream_memory_seconds": found["seconds"],
    }


def _in_this_process(path: Path, pooling: str) -> dict[str, float]:
    import torch

    from miv import Verifier

    channels = int(np.load(path, mmap_mode="r").shape[1])
    torch.manual_seed(0)
    verifier = Verifier(pooling, channels=channels, start="paper").eval()
    query = np.random.default_rng(1).normal(size=(1, channels)).astype(np.float32)
    small = np.random.default_rng(2).normal(size=(2, channels)).astype(np.float32)
    verifier.verify_stream(query, small)  # loads what the libraries load on first use
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    verdict = verifier.verify_stream(query, path)[0]
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"megabytes": (peak - before) / 1024, "seconds": seconds, "size": verdict.size}


if __name__ == "__main__":
    print(json.dumps(_in_this_process(Path(sys.argv[1]), sys.argv[2])))
