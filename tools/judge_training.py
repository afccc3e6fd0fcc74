"""Train a judge in cells of a few minutes: every cell goes on from the state that the last one saved."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from tools.judge_data import Pair, read_nli
from tools.judge_model import Judge, PairReader, Tokens, padded
from tools.judge_rules import SUPPORTS
from torch import Tensor
from torch.nn import functional
from transformers import AttentionInterface

from miv.backbones.pairs import Judge as ShippedJudge

BATCH, CHUNK = 16, 60  # pairs per step; batches that are sorted by length together
RATE, HEAD_RATE, WARM_UP, DECAY = 1e-4, 1e-3, 100, 0.4  # DECAY: last share of the steps, with a falling rate
AVERAGE, AVERAGE_EVERY = 0.97, 10  # of the weights, for evaluation
STATE, BEST, LOG = "state.pt", "best.pt", "training.jsonl"


@dataclass(frozen=True)
class DevSet:
    """Pairs whose labels choose among checkpoints."""

    name: str
    queries: list[str]
    targets: list[str]
    supported: list[bool]

    def auroc(self, judge: Judge | ShippedJudge) -> float:
        """AUROC of supports against the rest."""
        scores = judge.probabilities(self.queries, self.targets)[:, SUPPORTS]
        return float(roc_auc_score(self.supported, scores))


def plain_key(text: str) -> str:
    """A claim without spaces, signs and case."""
    return "".join(sign for sign in text.lower() if sign.isalnum())


def symmetric_dev(path: Path, fever: Path) -> DevSet:
    """FEVER-Symmetric dev without claims of the train and validation claims in ``fever``."""
    taken = set()
    for split in ("train", "validation"):
        with (fever / f"{split}.jsonl").open(encoding="utf-8") as lines:
            taken |= {plain_key(json.loads(line)["text"]) for line in lines}
    with path.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    pairs = [Pair(row["evidence"], row["claim"], 0, row["label"], "") for row in rows]
    pairs = [pair for pair in pairs if plain_key(pair.hypothesis) not in taken]
    return DevSet(
        "symmetric",
        [pair.hypothesis for pair in pairs],
        [pair.premise for pair in pairs],
        [pair.kind == "SUPPORTS" for pair in pairs],
    )


def nli_dev(path: Path, sizes: dict[str, int], seed: int = 0) -> DevSet:
    """Some validation pairs of each NLI set."""
    pairs = read_nli(path)
    random = np.random.default_rng(seed)
    some: list[Pair] = []
    for name, size in sizes.items():
        own = [pair for pair in pairs if pair.kind == name]
        some += [own[place] for place in random.permutation(len(own))[:size]]
    return DevSet(
        "nli",
        [pair.hypothesis for pair in some],
        [pair.premise for pair in some],
        [pair.label == SUPPORTS for pair in some],
    )


def attention(
    module: object, query: Tensor, key: Tensor, value: Tensor, allowed: Tensor, **_: object
) -> tuple[Tensor, None]:
    """Attention of heads ``(P, heads, L, D)`` to ``(P, L, heads, D)``; with its gradient twice as fast as torch's."""
    scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-1, -2)  # (P, heads, L, L)
    weights = scores.masked_fill(~allowed, -1e4).softmax(dim=-1).to(value.dtype)
    return (weights @ value).transpose(1, 2), None


class Training:
    """The state of a training and its next steps.

    Args:
        pairs: training pairs.
        folder: of the state and the figures.
        steps: number of steps in all.
        layers: number of trained layers.
        seed: of weights and order.
    """

    def __init__(self, pairs: Sequence[Pair], folder: Path, steps: int, layers: int, seed: int) -> None:
        torch.manual_seed(seed)
        self.folder, self.steps, self.seed = folder, steps, seed
        self.judge = Judge(layers)
        AttentionInterface.register("plain", attention)
        self.judge.encoder.set_attn_implementation("plain")
        self.pairs, self._reader = pairs, PairReader()
        self._chunk: tuple[tuple[int, int] | None, list[list[int]], dict[int, Tokens]] = (None, [], {})
        upper = [value for value in self.judge.encoder.parameters() if value.requires_grad]
        groups = [{"params": upper, "lr": RATE}, {"params": list(self.judge.head.parameters()), "lr": HEAD_RATE}]
        self.optimiser = torch.optim.AdamW(groups, weight_decay=0.01, fused=True)
        self.average = {name: value.clone() for name, value in self.judge.changed().items()}
        self.step, self.seconds, self.best = 0, 0.0, 0.0
        if (folder / STATE).is_file():
            self._load()

    def _load(self) -> None:
        state = torch.load(self.folder / STATE, weights_only=True)
        self.judge.load_state_dict(state["weights"], strict=False)
        self.optimiser.load_state_dict(state["optimiser"])
        self.average, self.step = state["average"], state["step"]
        self.seconds, self.best = state["seconds"], state["best"]

    def _save(self) -> None:
        state = {
            "weights": self.judge.changed(),
            "optimiser": self.optimiser.state_dict(),
            "average": self.average,
            "step": self.step,
            "seconds": self.seconds,
            "best": self.best,
        }
        _write(state, self.folder / STATE)

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """Tokens ``(P, 3, L)`` and labels ``(P,)`` of a step.

        Every epoch has an order of its own; pairs of similar length are together.
        """
        per_epoch = len(self.pairs) // BATCH
        epoch, place = divmod(step, per_epoch)
        chunk, inside = divmod(place, CHUNK)
        if self._chunk[0] != (epoch, chunk):
            order = np.random.default_rng([self.seed, epoch]).permutation(len(self.pairs))
            rows = order[chunk * CHUNK * BATCH : min((chunk + 1) * CHUNK, per_epoch) * BATCH].tolist()
            read = self._reader([self.pairs[row].hypothesis for row in rows], [self.pairs[row].premise for row in rows])
            tokens = dict(zip(rows, read, strict=True))
            rows.sort(key=lambda row: len(tokens[row][0]))
            batches = [rows[first : first + BATCH] for first in range(0, len(rows), BATCH)]
            places = np.random.default_rng([self.seed, epoch, chunk]).permutation(len(batches))
            self._chunk = (epoch, chunk), [batches[place] for place in places], tokens
        _, batches, tokens = self._chunk
        some = batches[inside]
        return padded([tokens[row] for row in some]), torch.tensor([self.pairs[row].label for row in some])

    def run(self, minutes: float) -> None:
        """Train until all steps are done or the time is over, and save the state."""
        began, losses = time.monotonic(), []
        start = self.step
        while self.step < self.steps and time.monotonic() - began < 60 * minutes:
            losses.append(self._step())
            if self.step % 50 == 0:
                rate = (self.step - start) / (time.monotonic() - began)
                left = (self.steps - self.step) / rate / 60
                print(
                    f"step {self.step:,} of {self.steps:,}: loss {np.mean(losses[-50:]):.4f}, "
                    f"{rate * BATCH:.1f} pairs/s, {left:.0f} minutes left",
                    flush=True,
                )
            if self.step % 300 == 0:
                self._save()
        self.seconds += time.monotonic() - began
        self._save()

    def _step(self) -> float:
        tokens, labels = self.batch(self.step)
        falling = (self.steps - self.step) / max(1.0, DECAY * self.steps)
        factor = min((self.step + 1) / WARM_UP, 1.0, max(0.02, falling))
        for group, rate in zip(self.optimiser.param_groups, (RATE, HEAD_RATE), strict=True):
            group["lr"] = factor * rate
        with torch.autocast("cpu", dtype=torch.bfloat16):  # 1.7 times as fast where the CPU has it
            logits = self.judge(tokens)
        loss = functional.cross_entropy(logits.float(), labels)
        self.optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.judge.parameters(), 1.0)
        self.optimiser.step()
        self.step += 1
        if self.step % AVERAGE_EVERY == 0:
            share = min(AVERAGE, self.step / (self.step + 10 * AVERAGE_EVERY))
            for name, value in self.judge.changed().items():
                self.average[name].lerp_(value, 1 - share)
        return loss.item()

    def evaluate(self, sets: Sequence[DevSet]) -> dict[str, float]:
        """AUROC of the averaged weights on each set; the best mean is kept in a file of its own."""
        weights: dict[str, Tensor] = {name: value.clone() for name, value in self.judge.changed().items()}
        self.judge.load_state_dict(self.average, strict=False)
        figures = {one.name: one.auroc(self.judge) for one in sets}
        self.judge.load_state_dict(weights, strict=False)
        mean = float(np.mean(list(figures.values())))
        row = {"step": self.step, "pairs": self.step * BATCH, "seconds": round(self.seconds), **figures}
        with (self.folder / LOG).open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        if mean > self.best:
            self.best = mean
            _write({"average": self.average, **{key: row[key] for key in row}}, self.folder / BEST)
            self._save()
        return figures


def _write(state: dict[str, object], path: Path) -> None:
    temporary = path.with_suffix(".part")
    torch.save(state, temporary)
    temporary.replace(path)
