"""A judge with made-up weights: what training would have added to the encoder, in four bits per weight."""

import json
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from miv.backbones.hf_files import MINILM, find_model
from miv.backbones.tokens import hash_of_files

MATRIX = "encoder.encoder.layer.5.attention.self.query.weight"
NORM = "encoder.encoder.layer.5.output.LayerNorm.bias"


def write_judge(folder: Path, head: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
    """Write the folder of a judge, and return its differences and its head ``(3, 384)`` in full."""
    random = np.random.default_rng(0)
    steps = random.integers(1, 16, (384, 384))
    scale = random.uniform(0.001, 0.003, (384, 6)).astype(np.float16)
    difference = np.zeros((384, 384), np.float32)
    for row in range(384):
        for column in range(384):
            difference[row, column] = float(scale[row, column // 64]) * (steps[row, column] - 8)
    norm = torch.from_numpy(random.normal(0, 0.1, 384).astype(np.float16))
    head = torch.from_numpy(random.normal(0, 0.2, (3, 384)).astype(np.float32)) if head is None else head
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        MATRIX: torch.from_numpy((steps[:, 0::2] + 16 * steps[:, 1::2]).astype(np.uint8)),
        f"{MATRIX}.scale": torch.from_numpy(scale),
        NORM: norm,
        "head.weight": head,
        "head.bias": torch.tensor([0.1, 0.0, -0.1]),
    }
    save_file(tensors, folder / "model.safetensors")
    config = {
        "labels": ["supports", "contradicts", "neither"],
        "encoder_sha256": hash_of_files(Path(find_model(MINILM))),
        "weights_sha256": sha256((folder / "model.safetensors").read_bytes()).hexdigest(),
    }
    (folder / "config.json").write_text(json.dumps(config))
    return {MATRIX: torch.from_numpy(difference), NORM: norm.float(), "head": head}
