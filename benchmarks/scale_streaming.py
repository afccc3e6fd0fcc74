"""What several queries cost in one pass over a large bag."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from miv import Verifier
from miv.verifier.streaming import StreamingPass

CHANNELS, QUERIES = 384, 16


def seconds(call: Callable[[], object], repeats: int = 5) -> float:
    """Least processor time of several runs, which other work on the machine changes least."""
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def trained_like(pooling: str, heads: int = 1) -> Verifier:
    """A verifier with the authors' layers in which no gate is constant."""
    torch.manual_seed(0)
    options = {"heads": heads} if pooling.startswith("cap_") else {}
    verifier = Verifier(pooling, channels=CHANNELS, pooling_options=options, start="paper").eval()
    with torch.no_grad():
        for weight in verifier.parameters():
            weight.add_(0.02 * torch.randn_like(weight))
    return verifier


def stream_queries_cost(folder: Path, rows: int = 20_000, pooling: str = "cap_dba_l2") -> dict[str, float]:
    """16 queries in one pass / 16 passes, over features in a mapped file, on one thread."""
    torch.set_num_threads(1)
    verifier, random = trained_like(pooling), np.random.default_rng(0)
    np.save(folder / "bag.npy", random.normal(size=(rows, CHANNELS)).astype(np.float32))
    mapped = np.load(folder / "bag.npy", mmap_mode="r")
    queries = random.normal(size=(QUERIES, CHANNELS)).astype(np.float32)

    def run(count: int) -> None:
        state = StreamingPass(verifier, queries[:count])
        state.update(mapped)
        state.finish()

    one, together = seconds(lambda: run(1)), seconds(lambda: run(QUERIES))
    (folder / "bag.npy").unlink()
    return {"stream_queries_cost": together / (QUERIES * one)}
