"""Ragged bags against padding and masks: time and memory of forward + backward, last line one JSON object.

    python benchmarks/pooling.py [--repeats 7] [--mix uniform]

The sides run in turn, each in a process of its own, under the same allocator settings and on two threads. The padded
side of the skewed mix needs about 20 GB and a minute a pooling, so there it has one turn and two steps. torchmil is
left out where it is not installed; `pip install 'miv[benchmark]'` adds it.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from shared import restart_with_settings  # type: ignore[import-not-found]

if __name__ == "__main__":
    restart_with_settings()

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
    assert pooling.pre_norm is not None
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
        twins = pooling.forward(query, Bags(bags.values, bags.ptr))  # the same equations as the padded ones, no norm
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


SIDES: dict[str, Callable[[CrossAttentionPooling, str], Step]] = {
    "ours": ours,
    "padded": padded,
    "ready_padded": ready_padded,
    "products": products_alone,
}
GATED_SIDES: dict[str, Callable[[str], Step]] = {"ours": gated_ours, "torchmil": gated_torchmil}


def print_measurement(name: str, side: str, mix: str, repeats: int) -> None:
    """Run one side alone and print seconds a step, the peak of memory beyond the imports, and the loss."""
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak that the parent process had
    before = peak_of_this_process()
    if name == "gabmil":
        step = GATED_SIDES[side](mix)
    else:
        pooling = create_pooling(name, channels=CHANNELS)
        assert isinstance(pooling, CrossAttentionPooling)
        step = SIDES[side](pooling, mix)
    loss = step()
    peak = peak_of_this_process() - before
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"seconds": seconds, "mb": peak, "loss": None if loss is None else float(loss)}))  # type: ignore[arg-type]


def peak_of_this_process() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def measure(name: str, mix: str, sides: list[str], turns: int, repeats: int) -> dict[str, dict[str, float]]:
    """Median milliseconds and peak megabytes of each side; more turns, so that a slow minute falls on no side alone."""
    runs: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
    for _ in range(turns):
        for side in sides:
            command = [sys.executable, __file__, "--side", name, side, mix, str(repeats)]
            runs[side].append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
    if name != "gabmil":
        losses = runs["ours"][0]["loss"], runs["padded"][0]["loss"]
        assert math.isclose(*losses, rel_tol=1e-3, abs_tol=1e-2), losses
    return {
        side: {
            "ms": round(1000 * statistics.median(second for run in runs[side] for second in run["seconds"]), 1),
            "mb": round(max(run["mb"] for run in runs[side])),
        }
        for side in sides
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--mix", choices=("uniform", "skewed"), help="one mix of bag sizes only")
    parser.add_argument("--side", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    torch.manual_seed(0)
    if arguments.side:
        name, side, mix, repeats = arguments.side
        print_measurement(name, side, mix, int(repeats))
        return
    detail: dict[str, dict[str, dict[str, float]]] = {}
    effort = {"uniform": (2, arguments.repeats), "skewed": (1, 2)}
    mixes = {mix: effort[mix] for mix in ([arguments.mix] if arguments.mix else effort)}
    has_torchmil = find_spec("torchmil") is not None
    if not has_torchmil:
        print("torchmil is not installed; its row is left out.", file=sys.stderr)
    for mix, (turns, repeats) in mixes.items():
        for name in ("cap_dba_l2", "cap_vema", "gabmil"):
            sides = list(GATED_SIDES if name == "gabmil" else SIDES)
            if name == "gabmil" and not has_torchmil:
                sides.remove("torchmil")
            if mix == "skewed" and name != "gabmil":
                sides.remove("ready_padded")
            detail[f"{name}_{mix}"] = measure(name, mix, sides, turns, repeats)
            print(f"{name} {mix}: {detail[f'{name}_{mix}']}", file=sys.stderr)

    def ratio(name: str, over: str, under: str = "ours", unit: str = "ms") -> float:
        return round(detail[name][over][unit] / detail[name][under][unit], 2)

    names = ("cap_dba_l2", "cap_vema")
    result: dict[str, Any] = {}
    for mix in mixes:
        result[f"ratio_{mix}"] = min(ratio(f"{name}_{mix}", "padded") for name in names)
        result[f"overhead_{mix}"] = max(ratio(f"{name}_{mix}", "ours", "products") for name in names)
        result[f"memory_share_{mix}"] = max(ratio(f"{name}_{mix}", "ours", "padded", "mb") for name in names)
        if has_torchmil:
            result[f"ratio_torchmil_{mix}"] = ratio(f"gabmil_{mix}", "torchmil")
    if "uniform" in mixes:
        result["ratio_uniform_ready_padded"] = min(ratio(f"{name}_uniform", "ready_padded") for name in names)
    print(json.dumps(result | {"detail": detail}))


if __name__ == "__main__":
    main()
