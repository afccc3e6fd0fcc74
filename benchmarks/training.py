"""What training costs beyond what it must. The last line of the output is one JSON object.

    python benchmarks/training.py [--raw data/qmnist] [--quick]

``step_overhead``: a whole training step (256 exemplars, compact CNN; making the batch, embedding, pooling,
gradients and optimiser included) / forward and backward of the backbone alone on the same distinct instances.
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

from miv.backbones.cache import embed_instances
from miv.data import ExemplarSet
from miv.data.batches import Batch
from miv.runtime import SilentProgress
from miv.tasks import create_task
from miv.training.config import TrainingConfig
from miv.training.new_verifier import create_verifier, resolve
from miv.training.stages import SplitFeatures, Stage, StageTraining

BATCH = 256
WARM_UP, STEPS = 4, 12
QUICK_WARM_UP, QUICK_STEPS = 1, 2


def backbone_alone(training: StageTraining, batch: Batch) -> tuple[float, float]:
    """Seconds and processor seconds of forward and backward of the backbone, once the kernels for this size exist."""
    backbone, times = training.verifier.backbone, []
    for _ in range(2):
        backbone.zero_grad()
        start, processor_start = time.perf_counter(), time.process_time()
        features = backbone(batch.instances)
        features.backward(torch.ones_like(features))
        times.append((time.perf_counter() - start, time.process_time() - processor_start))
    backbone.zero_grad()
    return times[-1]


def step_overhead(sets: dict[str, ExemplarSet], quick: bool) -> dict[str, float]:
    found = {}
    warm_up, steps = (QUICK_WARM_UP, QUICK_STEPS) if quick else (WARM_UP, STEPS)
    for augmentation in ("none", "affine"):
        config = resolve(TrainingConfig(batch_size=BATCH, augmentation=augmentation), sets["train"].pool)
        verifier = create_verifier(config, sets["train"].pool)
        training = StageTraining(Stage("all", 1, False, 1), verifier, config, sets)
        batches, whole, alone = training.draw_epoch(), [], []
        for chosen in batches[: warm_up + steps]:
            start, processor_start = time.perf_counter(), time.process_time()
            batch = training.batch(chosen)
            training.step(batch, len(batches))
            whole.append((time.perf_counter() - start, time.process_time() - processor_start))
            alone.append(backbone_alone(training, batch))
        key = "step_overhead" if augmentation == "none" else "step_overhead_augmented"
        pair = [np.median(np.array(times[warm_up:]), axis=0) for times in (whole, alone)]
        found[key], found[f"{key}_processor"] = (round(float(ratio), 3) for ratio in pair[0] / pair[1])
        found[f"{key}_backbone_ms"] = round(1000 * float(pair[1][0]), 1)
    return found


def resnet_18(folder: Path) -> str:
    """A ResNet-18 with random weights, as weights do not change what it costs."""
    from transformers import ResNetConfig, ResNetModel

    config = ResNetConfig(layer_type="basic", depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512])
    ResNetModel(config).save_pretrained(folder)
    return f"hf:{folder}"


def frozen_epoch_gain(sets: dict[str, ExemplarSet], backbone: str, options: dict[str, Any], quick: bool) -> float:
    """Both sides take the same step on the same exemplars, in turn; only where features come from differs."""
    pool = sets["train"].pool
    config = resolve(TrainingConfig(batch_size=BATCH, backbone=backbone, backbone_options=options), pool)
    verifier = create_verifier(config, pool)
    verifier.backbone.freeze()
    stage = Stage("frozen", 0, True, 1)
    parts = StageTraining(stage, verifier, config, sets).draw_epoch()[: 3 if quick else 7]
    needed = sets["train"].subset(np.concatenate(parts)).used
    cached: SplitFeatures = {"train": embed_instances(verifier.backbone, pool, needed)}
    seconds: dict[str, list[float]] = {"embeds": [], "cache": []}
    for name, features in (("embeds", None), ("cache", cached)):
        training = StageTraining(stage, verifier, config, sets, features)
        for part in parts:
            start = time.perf_counter()
            training.step(training.batch(part), len(parts))
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
