"""What a step of fine-tuning a text encoder costs beyond the encoder. The last line of the output is one JSON object.

    python benchmarks/scale_finetune.py [--exemplars 10000] [--steps 4] [--batch 32]

The encoder is MiniLM (22 million parameters), the exemplars are invented claims with their pages. A step is a whole
one: making the batch, tokenising, embedding each distinct text once, pooling, gradients, optimiser. Times are
processor times, which do not count what else the machine does.
``finetune_step_overhead``: a step / the encoder's own forward and backward on the same tokens, in the same chunks of
similar length.
``finetune_step_overhead_gradcache``: the same if no graph fits in memory, so that every text is embedded twice.
``finetune_last_2_gain``: a step that trains all six layers / one that trains the last two.
``finetune_bfloat16``: the encoder in bfloat16 / in float32; above 1 it is slower.
``finetune_epoch_minutes``: an epoch over all exemplars on one core, from the median step; likewise for two layers.
"""

import argparse
import json
import math
import os
import statistics
import sys
import time
from dataclasses import dataclass, field
from typing import Any, Literal

from shared import restart_with_settings  # type: ignore[import-not-found]

if __name__ == "__main__":
    restart_with_settings()

import torch
from torch import Tensor

from miv.backbones.hf_text import chunks_by_length, token_counts, token_vectors
from miv.data import ExemplarSet
from miv.runtime import SilentProgress
from miv.training.config import TrainingConfig
from miv.training.new_verifier import create_verifier, resolve
from miv.training.stages import Stage, StageTraining

Beside = Literal["nothing", "encoder", "bfloat16"]

WARM_UP = 1


def encoder_alone(backbone: Any, tokens: Tensor, *, bfloat16: bool = False) -> float:
    """Processor seconds of the encoder's forward and backward on texts ``(U, 2, L)``."""
    lengths = token_counts(tokens)
    backbone.zero_grad()
    since = time.process_time()
    for rows in chunks_by_length(lengths):
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            hidden, _ = token_vectors(backbone.model, tokens[rows, :, : int(lengths[rows[0]])])
        hidden.backward(torch.ones_like(hidden))
    seconds = time.process_time() - since
    backbone.zero_grad()
    return seconds


@dataclass
class StepTimer:
    """Processor times of steps.

    Args:
        beside: what to time after each step, on its tokens: the encoder alone, or also, once, its ratio in bfloat16.
    """

    beside: Beside
    whole: list[float] = field(default_factory=list)
    alone: list[float] = field(default_factory=list)
    bfloat16: float = math.nan
    texts: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)

    def step(self, training: StageTraining, chosen: Any, steps: int) -> None:
        """Take one step of an epoch and time it."""
        since = time.process_time()
        batch = training.batch(chosen)
        training.step(batch, steps)
        self.whole.append(time.process_time() - since)
        instances, backbone = batch.instances, training.verifier.backbone
        if self.beside != "nothing":
            self.alone.append(encoder_alone(backbone, instances))
        if self.beside == "bfloat16" and len(self.whole) == WARM_UP + 1:
            some = instances[::4]  # a part, because it may be slow
            self.bfloat16 = encoder_alone(backbone, some, bfloat16=True) / encoder_alone(backbone, some)
        self.texts.append(len(instances))
        self.tokens.append(int(token_counts(instances).sum()))


def measure(
    sets: dict[str, ExemplarSet], batch: int, steps: int, beside: Beside, memory: int = 1 << 62, last: int | None = None
) -> StepTimer:
    """Time some steps of ``batch`` exemplars; all layers, or the ``last`` ones."""
    config = TrainingConfig(
        batch_size=batch, backbone="hf:minilm", optimiser="adamw", trainable_layers=last, backbone_learning_rate=2e-5
    )
    config = resolve(config, sets["train"].pool)
    verifier = create_verifier(config, sets["train"].pool)
    verifier.backbone.train_only_last(last)
    training = StageTraining(Stage("all", 1, False, 1), verifier, config, sets, None, memory)
    timer, batches = StepTimer(beside), training.draw_epoch()
    for chosen in batches[: WARM_UP + steps]:
        timer.step(training, chosen, len(batches))
    print(f"memory {memory:.0e}, last {last}: {timer}", f"load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    return timer


def overhead(timer: StepTimer) -> float:
    return statistics.median(a / b for a, b in zip(timer.whole[WARM_UP:], timer.alone[WARM_UP:], strict=True))


def finetune_step_overhead(exemplars: int = 10_000, batch: int = 32, steps: int = 4) -> dict[str, object]:
    """Time of a training step / of the encoder alone on its texts, and what other ways to train cost.

    Args:
        exemplars: exemplars of train.
        batch: exemplars per step.
        steps: steps per measurement; half of them if texts are embedded twice.
    """
    from claims_twin import SyntheticClaims  # type: ignore[import-not-found]

    torch.set_num_threads(1)  # processor time of several threads also counts their waiting
    task = SyntheticClaims(pages=exemplars // 4, held_out_pages=8)
    sets = task.build(SilentProgress())
    train = sets["train"]
    print(f"{train}, {len(train.used):,} texts in use", file=sys.stderr)
    plain = measure(sets, batch, steps, "bfloat16")
    twice = measure(sets, batch, -(-steps // 2), "encoder", memory=0)
    last = measure(sets, batch, steps, "nothing", last=2)
    epoch = -(-len(train) // batch)
    seconds = {name: statistics.median(one.whole[WARM_UP:]) for name, one in (("all", plain), ("last_2", last))}
    return {
        "finetune_step_overhead": round(overhead(plain), 3),
        "finetune_step_overhead_gradcache": round(overhead(twice), 3),
        "finetune_last_2_gain": round(seconds["all"] / seconds["last_2"], 2),
        "finetune_bfloat16": round(plain.bfloat16, 2),
        "finetune_epoch_minutes": round(epoch * seconds["all"] / 60, 1),
        "finetune_epoch_minutes_last_2": round(epoch * seconds["last_2"] / 60, 1),
        "finetune_texts_per_step": round(statistics.median(plain.texts)),
        "finetune_tokens_per_second": round(sum(plain.tokens[WARM_UP:]) / sum(plain.whole[WARM_UP:])),
        "exemplars": len(train),
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exemplars", type=int, default=10_000, help="exemplars of train")
    parser.add_argument("--batch", type=int, default=32, help="exemplars per step")
    parser.add_argument("--steps", type=int, default=4, help="steps per measurement")
    arguments = parser.parse_args()
    print(json.dumps(finetune_step_overhead(arguments.exemplars, arguments.batch, arguments.steps)))


if __name__ == "__main__":
    main()
