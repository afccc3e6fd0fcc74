"""Ragged bags against padding and masks: time and memory of forward + backward, last line one JSON object.

    python benchmarks/pooling.py [--repeats 7]

Both sides run in one process, in turn, under the same allocator settings and on two threads; peak memory is
measured in a process for each side.
"""

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

# glibc gives large tensors back to the system at every step unless told otherwise; that would slow both
# sides, the padded one more. The variables only count when a process starts.
ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "8589934592",
    "MALLOC_TOP_PAD_": "67108864",
}
if __name__ == "__main__" and any(os.environ.get(k) != v for k, v in ALLOCATOR.items()):
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ALLOCATOR})

# ruff: noqa: E402
import torch
from torch import Tensor, nn

from miv.bags import Bags
from miv.poolings import Pooling, create_pooling
from miv.poolings.cap import CrossAttentionPooling
from miv.poolings.cap_dba import EuclideanPooling
from miv.poolings.cap_vema import VarianceExcitedPooling

CHANNELS = 512
Step = Callable[[], object]


def bag_sizes(mix: str) -> Tensor:
    """``uniform``: 768 bags of 3 to 25. ``skewed``: 256 bags, log-uniform from 1 to 2,000."""
    generator = torch.Generator().manual_seed(0)
    if mix == "uniform":
        return torch.randint(3, 26, (768,), generator=generator)
    return torch.exp(torch.rand(256, generator=generator) * math.log(2000)).round().long().clamp(1, 2000)


def inputs(mix: str) -> tuple[Tensor, Bags]:
    sizes = bag_sizes(mix)
    generator = torch.Generator().manual_seed(1)
    query = torch.randn(len(sizes), CHANNELS, generator=generator, requires_grad=True)
    values = torch.randn(int(sizes.sum()), CHANNELS, generator=generator, requires_grad=True)
    return query, Bags(values, torch.cat([torch.zeros(1, dtype=torch.int64), sizes.cumsum(0)]))


def padded_cap(pooling: CrossAttentionPooling, query: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    """The equations of CAP as one writes them with padding: ``(B, C)`` and ``(B, N, C)`` to logits ``(B,)``."""
    heads = pooling.heads
    assert pooling.gate is not None
    projected_query = pooling.project(query)[:, None]  # (B, 1, C)
    keys = pooling.project(targets)  # (B, N, C)
    if isinstance(pooling, VarianceExcitedPooling):
        count = mask.sum(1)[:, None]
        mean = (targets * mask[..., None]).sum(1) / count
        variance = ((targets - mean[:, None]).square() * mask[..., None]).sum(1) / count
        excited = projected_query * pooling.delta(variance - 1)[:, None]
        products = (excited * keys).unflatten(-1, (heads, -1)).sum(-1)
        scores = products / math.sqrt(pooling.head_channels)  # (B, N, h)
    else:
        assert isinstance(pooling, EuclideanPooling)
        c, s = pooling.constants(pooling.head_channels)
        distance = (projected_query - keys).square() * pooling.distance_weight
        scores = (c - distance.unflatten(-1, (heads, -1)).sum(-1)) / s  # (B, N, h)
    attention = scores.masked_fill(~mask[..., None], -torch.inf).softmax(dim=1)
    gate = pooling.gate(query)[:, None]
    values = pooling.pre_norm(keys * gate).unflatten(-1, (heads, -1))  # (B, N, h, D)
    bag_vector = torch.matmul(attention.permute(0, 2, 1)[:, :, None], values.transpose(1, 2))  # (B, h, 1, D)
    query_vector = pooling.pre_norm(projected_query * gate)[:, 0]
    return pooling.similarity(query_vector, bag_vector.flatten(1))


def ours(pooling: Pooling, mix: str) -> Step:
    query, bags = inputs(mix)

    def step() -> Tensor:
        pooling.zero_grad()
        query.grad = bags.values.grad = None
        twins = pooling(query, Bags(bags.values, bags.ptr))
        loss = pooling.similarity(twins.query_vector, twins.bag_vector).sum()
        loss.backward()
        return loss.detach()

    return step


def padded(pooling: CrossAttentionPooling, mix: str) -> Step:
    """Padding included: a backbone gives one row an instance, and what needs padding must make it."""
    query, bags = inputs(mix)
    values = bags.values

    def step() -> Tensor:
        pooling.zero_grad()
        query.grad = values.grad = None
        loss = padded_cap(pooling, query, *bags.to_padded()).sum()
        loss.backward()
        return loss.detach()

    return step


def ready_padded(pooling: CrossAttentionPooling, mix: str) -> Step:
    """Padding not included, as if it came for free."""
    query, bags = inputs(mix)
    targets, mask = bags.to_padded()
    targets = targets.detach().requires_grad_()

    def step() -> None:
        pooling.zero_grad()
        query.grad = targets.grad = None
        padded_cap(pooling, query, targets, mask).sum().backward()

    return step


def products_alone(pooling: CrossAttentionPooling, mix: str) -> Step:
    """The linear maps that the pooling has on targets and queries, forward and backward, and nothing else."""
    query, bags = inputs(mix)
    values = bags.values
    per_bag = [m for m in pooling.modules() if isinstance(m, nn.Linear)]
    grads = torch.randn_like(values), torch.randn_like(query)

    def step() -> None:
        pooling.zero_grad()
        query.grad = values.grad = None
        assert isinstance(pooling.project, nn.Linear)
        torch.autograd.backward(pooling.project(values), grads[0])
        for linear in per_bag:
            torch.autograd.backward(linear(query), grads[1])

    return step


def gated_ours(mix: str) -> Step:
    return ours(create_pooling("gabmil", channels=CHANNELS), mix)


def gated_torchmil(mix: str) -> Step:
    from torchmil.nn import AttentionPool

    pool = AttentionPool(in_dim=CHANNELS, att_dim=128, act="tanh", gated=True)
    _, bags = inputs(mix)
    targets, mask = bags.to_padded()
    targets = targets.detach().requires_grad_()

    def step() -> None:
        pool.zero_grad()
        targets.grad = None
        pool(targets, mask).sum().backward()

    return step


def times(steps: dict[str, Step], repeats: int) -> dict[str, float]:
    """Median seconds of each step, taken in turn after one round to warm up."""
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for repeat in range(repeats + 1):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            if repeat:
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def peak_megabytes(side: str, name: str, mix: str) -> float:
    """Peak memory of one side, inputs included, beyond what the imports take; in a process of its own."""
    command = [sys.executable, __file__, "--memory-of", side, name, mix]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def print_peak(side: str, name: str, mix: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    pooling = create_pooling(name, channels=CHANNELS)
    assert isinstance(pooling, CrossAttentionPooling)
    step = {"ours": ours, "padded": padded}[side](pooling, mix)
    step()
    step()
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)


def measure_cap(name: str, mix: str, repeats: int) -> dict[str, float]:
    pooling = create_pooling(name, channels=CHANNELS)
    assert isinstance(pooling, CrossAttentionPooling)
    steps = {"ours": ours(pooling, mix), "padded": padded(pooling, mix)}
    first, second = (float(step()) for step in steps.values())  # type: ignore[arg-type]
    assert math.isclose(first, second, rel_tol=1e-3, abs_tol=1e-2), (first, second)
    steps |= {"ready_padded": ready_padded(pooling, mix), "products": products_alone(pooling, mix)}
    seconds = times(steps, repeats)
    memory = {side: peak_megabytes(side, name, mix) for side in ("ours", "padded")}
    figures = {
        "ours_ms": seconds["ours"] * 1000,
        "padded_ms": seconds["padded"] * 1000,
        "ready_padded_ms": seconds["ready_padded"] * 1000,
        "products_ms": seconds["products"] * 1000,
        "ratio": seconds["padded"] / seconds["ours"],
        "ratio_ready_padded": seconds["ready_padded"] / seconds["ours"],
        "overhead": seconds["ours"] / seconds["products"],
        "ours_mb": memory["ours"],
        "padded_mb": memory["padded"],
        "memory_share": memory["ours"] / memory["padded"],
    }
    return {key: round(value, 3) for key, value in figures.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--memory-of", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    torch.manual_seed(0)
    if arguments.memory_of:
        print_peak(*arguments.memory_of)
        return
    detail: dict[str, dict[str, float]] = {}
    for mix, repeats in (("uniform", arguments.repeats), ("skewed", max(2, arguments.repeats // 2))):
        for name in ("cap_dba_l2", "cap_vema"):
            detail[f"{name}_{mix}"] = measure_cap(name, mix, repeats)
            print(f"{name} {mix}: {detail[f'{name}_{mix}']}", file=sys.stderr)
        gated = times({"ours": gated_ours(mix), "torchmil": gated_torchmil(mix)}, repeats)
        detail[f"gabmil_{mix}"] = {"ratio": gated["torchmil"] / gated["ours"]}
        print(f"gabmil {mix}: {gated}", file=sys.stderr)
    names = ("cap_dba_l2", "cap_vema")
    result = {
        "ratio_uniform": min(detail[f"{name}_uniform"]["ratio"] for name in names),
        "ratio_skewed": min(detail[f"{name}_skewed"]["ratio"] for name in names),
        "ratio_uniform_ready_padded": min(detail[f"{name}_uniform"]["ratio_ready_padded"] for name in names),
        "ratio_skewed_ready_padded": min(detail[f"{name}_skewed"]["ratio_ready_padded"] for name in names),
        "memory_share_skewed": max(detail[f"{name}_skewed"]["memory_share"] for name in names),
        "overhead": max(row["overhead"] for key, row in detail.items() if key.startswith("cap")),
        "ratio_torchmil_uniform": detail["gabmil_uniform"]["ratio"],
        "ratio_torchmil_skewed": detail["gabmil_skewed"]["ratio"],
        "detail": detail,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
