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
from safetensors.torch import save_file
from tools.judge_model import MAX_TOKENS, Judge
from torch import Tensor

from miv.backbones.hf_files import MINILM, find_model
from miv.backbones.pairs import JUDGE_CONFIG, JUDGE_WEIGHTS, LABELS
from miv.backbones.tokens import hash_of_files

GROUP = 64  # weights with one scale
SCALE = ".scale"
_LEVELS = 7
_SHRINK = (1.0, 0.95, 0.9, 0.85, 0.8, 0.7)  # a smaller scale cuts the largest weights and rounds the others less


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
    save_file(tensors, folder / JUDGE_WEIGHTS, metadata={"format": "pt"})
    config = {
        "backbone": "pairs:minilm",
        "encoder": MINILM,
        "encoder_sha256": hash_of_files(Path(find_model(MINILM))),
        "trained_layers": trained,
        "max_tokens": MAX_TOKENS,
        "first_segment": "query",
        "second_segment": "target",
        "pooling": "cls",
        "labels": list(LABELS),
        "difference": {"bits": 4, "group": GROUP},
        "weights_sha256": sha256((folder / JUDGE_WEIGHTS).read_bytes()).hexdigest(),
        "about": about,
    }
    (folder / JUDGE_CONFIG).write_text(lines_of(config), encoding="utf-8")


def lines_of(document: dict[str, Any]) -> str:
    """A JSON object with one line per key."""
    lines = [f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in document.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"
