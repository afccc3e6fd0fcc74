"""A backbone of pairs with bag labels only, beside frozen and fine-tuned features, on FEVER and FEVER-Symmetric.

    PYTHONPATH=. python benchmarks/fever_pairs.py --data DATA --symmetric FILE --work DIR --row ROW --seed N

All rows train on 3,000 claims of fever-dev, with 300 of its validation split; AUROC and i-AP are those of all its test
split. FILE is as in controls.py. The encoder computes in bfloat16 where the processor has it. Each call appends a
line to docs/results/fever_pairs.jsonl; ``--candidates`` and ``--epochs`` are for the rows that train an encoder.
"""

import argparse
import json
import random
import time
from pathlib import Path
from typing import Any

import torch
from controls import auroc_of, by_words, symmetric_set  # type: ignore[import-not-found]

import miv
from miv.backbones import create_backbone
from miv.backbones.precision import lower_precision
from miv.data import ExemplarSet
from miv.evaluation import score_baselines
from miv.reproduction.grids import Cell, Setup
from miv.reproduction.jobs import TIERS
from miv.runtime import SilentProgress
from miv.tasks import create_task

Sets = dict[str, ExemplarSet]
CLAIMS = {"train": 3000, "validation": 300}
LINES = Path("docs/results/fever_pairs.jsonl")
CONTROLS = ("query_only", "bag_only", "nearest")


def few_claims(data: Path, work: Path) -> Sets:
    """Claims of the train split drawn with seed 0, the first ones of validation, and all of test."""
    raw = work / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    for split in ("train", "validation", "test"):
        lines = (data / "fever-dev" / f"{split}.jsonl").read_text("utf-8").splitlines()
        if split == "train":
            lines = [lines[place] for place in sorted(random.Random(0).sample(range(len(lines)), CLAIMS[split]))]
        (raw / f"{split}.jsonl").write_text("\n".join(lines[: CLAIMS.get(split)]) + "\n", "utf-8")
    return dict(create_task("fever-dev", raw=raw).build(SilentProgress()))


def settings_of(row: str, options: argparse.Namespace) -> dict[str, Any]:
    """The settings of ``miv.train``."""
    if row == "frozen":  # recipes selected as by default
        return {"backbone": "hf:minilm"}
    if row == "tier":  # the settings of the tier `finetuned`
        cell = Cell("fever-dev", Setup("cap_dba_l1", "cap_dba_l1"), options.seed)
        return {"config": TIERS["finetuned"].settings(cell)}
    reads: dict[str, Any] = {"backbone": "hf:minilm"}
    if row == "pairs":
        reading = {"candidates": options.candidates, "max_tokens": 96}
        reads = {"backbone": "pairs:minilm", "backbone_options": reading}
    pooling = {"pooling": "cap_dba_l2", "start": "similar", "frozen_stage": False, "full_stage": True}
    epochs = {"max_epochs": options.epochs, "trainable_layers": 4, "batch_size": 16}
    rates = {"learning_rates": ((0, 1e-3),), "backbone_learning_rate": 1e-4}
    return {**reads, **pooling, **epochs, **rates}


def trained(sets: Sets, symmetric: ExemplarSet, options: argparse.Namespace) -> dict[str, Any]:
    """Figures of one training."""
    row = options.row
    name = f"{row}-{options.candidates}-{options.epochs}-{options.seed}"
    began = time.process_time()
    with lower_precision():
        run = miv.train(
            sets,
            out=options.work / name,
            cache=options.work / "cache",
            threads=1,
            seed=options.seed,
            baselines=False,
            samples=False,
            **settings_of(row, options),
        )
    line: dict[str, Any] = {"row": row, "seed": options.seed}
    if row == "pairs":
        line |= {"candidates": options.candidates, "epochs": options.epochs}
    recipes = run.document()["recipes"]
    line |= {"recipe": recipes["chosen"]} if row == "frozen" and recipes else {}
    line |= {"processor_seconds": round(time.process_time() - began)}
    for split in ("validation", "test"):
        found = run.evaluations[split]
        line |= {split: found.classification["auroc"], f"{split}_i_ap": (found.witnesses or {}).get("i_ap")}
    return line | {"symmetric": auroc_of(run.verifier, symmetric)}


def controls(sets: Sets, symmetric: ExemplarSet) -> list[dict[str, Any]]:
    """Figures of what sees the claim or the bag alone, and of the nearest target."""
    sets = sets | {"symmetric": symmetric}
    encoder, splits = create_backbone("hf:minilm", pooling="mean"), ("test", "symmetric")
    found = score_baselines(sets, encoder, splits=splits, progress=SilentProgress()).splits
    lines: list[dict[str, Any]] = [{"row": "query_words"} | {split: by_words(sets, split) for split in splits}]
    for name in CONTROLS:
        areas = {split: found[split][name].auroc for split in splits}
        lines.append({"row": name} | areas | {"test_i_ap": found["test"][name].i_ap})
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--symmetric", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--row", choices=("controls", "frozen", "tier", "finetuned", "pairs"), required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--candidates", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    sets, symmetric = few_claims(options.data, options.work), symmetric_set(options.symmetric, options.data)
    is_plain = options.row == "controls"
    lines = controls(sets, symmetric) if is_plain else [trained(sets, symmetric, options)]
    with LINES.open("a", encoding="utf-8") as out:
        for line in lines:
            rounded = {name: round(value, 6) if isinstance(value, float) else value for name, value in line.items()}
            out.write(json.dumps(rounded) + "\n")
            print(json.dumps({name: value for name, value in rounded.items() if "test" not in name}))


if __name__ == "__main__":
    main()
