r"""The file of a judge: what its weights add to those of the installed encoder, in four bits per weight.

.. math:: W = W_\text{encoder} + s \, (q - 8), \qquad q \in \{1, \dots, 15\}

Each run of 64 weights of a row has one scale :math:`s` (float16). Two :math:`q` share a byte, the one of the even
column in its lower half. Biases and norms are differences in float16, the head is whole in float32.
"""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tools.judge_model import MAX_TOKENS, Judge
from tools.judge_rules import LABELS
from torch import Tensor

from miv.backbones.hf_files import MINILM, find_model

GROUP = 64  # weights with one scale
SCALE = ".scale"
_LEVELS = 7
_SHRINK = (1.0, 0.95, 0.9, 0.85, 0.8, 0.7)  # a smaller scale cuts the largest weights and rounds the others less
ENCODER_FILES = ("config.json", "model.safetensors", "tokenizer.json")
WEIGHTS, CONFIG = "model.safetensors", "config.json"


def packed(difference: Tensor) -> tuple[Tensor, Tensor]:
    """A matrix ``(R, C)`` as bytes ``(R, C / 2)`` and scales ``(R, C / 64)``."""
    rows, columns = difference.shape
    groups = difference.reshape(rows, columns // GROUP, GROUP)
    largest = groups.abs().amax(dim=2, keepdim=True).clamp(min=1e-6) / _LEVELS
    best, scale = torch.full_like(largest, torch.inf), largest
    for share in _SHRINK:
        some = largest * share
        error = (_rounded(groups, some) * some - groups).square().sum(dim=2, keepdim=True)
        scale = torch.where(error < best, some, scale)
        best = torch.minimum(best, error)
    scale = scale.half().float().clamp(min=6e-8)  # the least float16 above 0
    whole = (_rounded(groups, scale) + 8).to(torch.uint8).reshape(rows, columns)
    return whole[:, 0::2] | (whole[:, 1::2] << 4), scale.squeeze(2).half()


def _rounded(groups: Tensor, scale: Tensor) -> Tensor:
    return (groups / scale).round().clamp(-_LEVELS, _LEVELS)


def unpacked(values: Tensor, scale: Tensor) -> Tensor:
    """The matrix ``(R, C)`` of ``packed``."""
    whole = torch.stack([values & 15, values >> 4], dim=2).flatten(1).float() - 8  # (R, C)
    return (whole.unflatten(1, (-1, GROUP)) * scale.float().unsqueeze(2)).flatten(1)


def encoder_sha256() -> str:
    """Hash of the files of the installed encoder, as the backbone ``tokens`` computes it."""
    digest = sha256()
    for name in ENCODER_FILES:
        digest.update((Path(find_model(MINILM)) / name).read_bytes())
    return digest.hexdigest()


def ship(weights: dict[str, Tensor], trained: int, folder: Path, about: dict[str, Any]) -> None:
    """Write the changed weights of a judge and what they are."""
    base = Judge(trained).state_dict()
    tensors: dict[str, Tensor] = {}
    for name, value in weights.items():
        if name.startswith("head."):
            tensors[name] = value.float().contiguous()
        elif value.ndim == 2:
            tensors[name], tensors[name + SCALE] = packed(value - base[name])
        else:
            tensors[name] = (value - base[name]).half()
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    config = {
        "backbone": "pairs:minilm",
        "encoder": MINILM,
        "encoder_sha256": encoder_sha256(),
        "trained_layers": trained,
        "max_tokens": MAX_TOKENS,
        "first_segment": "query",
        "second_segment": "target",
        "pooling": "cls",
        "labels": list(LABELS),
        "difference": {"bits": 4, "group": GROUP},
        "weights_sha256": sha256((folder / WEIGHTS).read_bytes()).hexdigest(),
        "about": about,
    }
    (folder / CONFIG).write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def load(folder: Path) -> Judge:
    """The judge in a folder that ``ship`` wrote."""
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    if config["encoder_sha256"] != encoder_sha256():
        raise SystemExit(f"{folder} was made from another encoder than the installed one.")
    judge = Judge(config["trained_layers"])
    tensors, weights = load_file(folder / WEIGHTS), judge.state_dict()
    for name, value in tensors.items():
        if name.endswith(SCALE):
            continue
        if name.startswith("head."):
            weights[name] = value
        else:
            difference = unpacked(value, tensors[name + SCALE]) if name + SCALE in tensors else value.float()
            weights[name] = weights[name] + difference
    judge.load_state_dict(weights)
    return judge.eval()
