"""What training costs beyond what it must. The last line of the output is one JSON object.

    python benchmarks/training.py [--raw data/qmnist] [--quick]

``step_overhead``: a whole training step in Lightning (256 exemplars, compact CNN; making the batch, embedding, pooling,
gradients and optimiser included) / forward and backward of the backbone alone on the same distinct instances.
``dedup_gain``: instances drawn / instances embedded with batches of 768 that the sampler grouped.
``frozen_epoch_gain``: an epoch that embeds its batches with the frozen backbone / one from the feature cache, for a
ResNet-18 at 32 × 32, the extractor that the paper freezes; also for both sizes of the compact CNN.
``witness_metric_gain``: see ``benchmarks/witness_metrics.py``.

Without ``--raw`` the handwriting twin stands in for QMNIST.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from shared import restart_with_settings  # type: ignore[import-not-found]

if __name__ == "__main__":
    restart_with_settings()

import numpy as np
import torch
from lightning.pytorch import Callback, Trainer

from miv.backbones.cache import embed_instances
from miv.data import ExemplarSet
from miv.runtime import SilentProgress
from miv.tasks import create_task
from miv.training.config import TrainingConfig
from miv.training.new_verifier import create_verifier, resolve_backbone
from miv.training.stage_module import SplitFeatures, StageModule, draw_order
from miv.training.stages import train_loader

BATCH = 256
WARM_UP, STEPS = 4, 12
QUICK_WARM_UP, QUICK_STEPS = 1, 2


class StepsOnly(StageModule):
    """A stage that is not measured on validation."""

    def on_train_epoch_end(self) -> None:
        return


class StepTimer(Callback):
    """Times each step from the end of the last, and after it the backbone alone on the same instances."""

    def __init__(self) -> None:
        self.whole: list[float] = []
        self.alone: list[float] = []
        self.whole_processor: list[float] = []  # processor time, which other work on the machine does not change
        self.alone_processor: list[float] = []
        self._since, self._processor_since = time.perf_counter(), time.process_time()

    def on_train_batch_end(self, trainer: Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.whole.append(time.perf_counter() - self._since)
        self.whole_processor.append(time.process_time() - self._processor_since)
        backbone, instances = module.verifier.backbone, batch[0].instances
        times = []
        for _ in range(2):  # the second time the kernels for this very size are there
            backbone.zero_grad()
            start, processor_start = time.perf_counter(), time.process_time()
            features = backbone(instances)
            features.backward(torch.ones_like(features))
            times.append((time.perf_counter() - start, time.process_time() - processor_start))
        backbone.zero_grad()
        self.alone.append(times[-1][0])
        self.alone_processor.append(times[-1][1])
        self._since, self._processor_since = time.perf_counter(), time.process_time()


def step_overhead(sets: dict[str, ExemplarSet], quick: bool) -> dict[str, float]:
    found = {}
    warm_up, steps = (QUICK_WARM_UP, QUICK_STEPS) if quick else (WARM_UP, STEPS)
    for augmentation in ("none", "affine"):
        config = resolve_backbone(TrainingConfig(batch_size=BATCH, augmentation=augmentation), sets["train"].pool)
        module = StepsOnly(create_verifier(config, sets["train"].pool), config, 1, sets, None)
        timer = StepTimer()
        trainer = Trainer(
            accelerator="cpu",
            max_epochs=1,
            limit_train_batches=warm_up + steps,
            limit_val_batches=0,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=[timer],
        )
        trainer.fit(module, train_loader(module))
        key = "step_overhead" if augmentation == "none" else "step_overhead_augmented"
        pairs = {key: (timer.whole, timer.alone), f"{key}_processor": (timer.whole_processor, timer.alone_processor)}
        for name, (whole, alone) in pairs.items():
            found[name] = round(statistics.median(whole[warm_up:]) / statistics.median(alone[warm_up:]), 3)
        found[f"{key}_backbone_ms"] = round(1000 * statistics.median(timer.alone[warm_up:]), 1)
    return found


def dedup_gain(exemplars: ExemplarSet) -> dict[str, float]:
    found = {}
    for grouping in (1, 128, 768):
        order = draw_order(exemplars, grouping, np.random.default_rng(0))
        parts = [exemplars.subset(order[start : start + 768]) for start in range(0, len(order), 768)]
        drawn = sum(len(part) + len(part.bag_index) for part in parts)
        found[f"dedup_gain_{grouping}"] = round(drawn / sum(len(part.used) for part in parts), 3)
    return {"dedup_gain": found["dedup_gain_768"], **found}


def resnet_18(folder: Path) -> str:
    """A ResNet-18 with random weights, as weights do not change what it costs."""
    from transformers import ResNetConfig, ResNetModel

    config = ResNetConfig(layer_type="basic", depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512])
    ResNetModel(config).save_pretrained(folder)
    return f"hf:{folder}"


def frozen_epoch_gain(sets: dict[str, ExemplarSet], backbone: str, options: dict[str, Any], quick: bool) -> float:
    """Both sides take the same step on the same exemplars, in turn; only where features come from differs."""
    pool = sets["train"].pool
    config = resolve_backbone(TrainingConfig(batch_size=BATCH, backbone=backbone, backbone_options=options), pool)
    verifier = create_verifier(config, pool)
    verifier.backbone.freeze()
    sampler = train_loader(StageModule(verifier, config, 0, sets, None)).sampler
    parts = [part for part, _ in zip(sampler, range(3 if quick else 7), strict=False)]
    needed = sets["train"].subset(np.concatenate([chosen for chosen, _ in parts])).used
    cached: SplitFeatures = {"train": embed_instances(verifier.backbone, pool, needed)}
    seconds: dict[str, list[float]] = {"embeds": [], "cache": []}
    for name, features in (("embeds", None), ("cache", cached)):
        module = StageModule(verifier, config, 0, sets, features)
        batches = train_loader(module).dataset
        optimiser = module.configure_optimizers()
        for part in parts:
            start = time.perf_counter()
            optimiser.zero_grad()
            module.training_step(batches[part], 0).backward()
            optimiser.step()
            seconds[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(times[2:]) for name, times in seconds.items()}
    print(f"{backbone} {options}: {medians}", file=sys.stderr)
    return round(medians["embeds"] / medians["cache"], 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--raw", type=Path, help="folder of QMNIST's raw files")
    parser.add_argument("--quick", action="store_true", help="fewer steps, for a look at whether it runs")
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    if arguments.raw:
        task = create_task("qmnist", raw=arguments.raw, download=False)
    else:
        task = create_task("digits-twin", writers=400, copies=10)
    sets = task.build(SilentProgress())
    result: dict[str, Any] = {
        "data": "qmnist" if arguments.raw else "digits-twin",
        **step_overhead(sets, arguments.quick),
    }
    print(result, file=sys.stderr)
    result |= dedup_gain(sets["train"])
    with tempfile.TemporaryDirectory() as folder:
        resnet = resnet_18(Path(folder))
        result["frozen_epoch_gain"] = frozen_epoch_gain(
            sets, resnet, {"image_size": (32, 32), "image_mean": (0.5,) * 3, "image_std": (0.5,) * 3}, arguments.quick
        )
    for size in ("small", "large"):
        result[f"frozen_epoch_gain_{size}"] = frozen_epoch_gain(sets, "compact_cnn", {"size": size}, arguments.quick)
    from witness_metrics import measure  # type: ignore[import-not-found]

    result |= measure()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
