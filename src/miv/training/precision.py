"""Whether the backbone computes in bfloat16."""

import sys
import warnings

import torch

from miv.errors import MIVWarning
from miv.training.config import TrainingConfig


def has_bfloat16(device: torch.device) -> bool:
    """Whether a device computes with bfloat16, instead of converting to float32 and back for each product."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type != "cpu":
        return False
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def settle_precision(config: TrainingConfig, device: torch.device, *, quiet: bool) -> TrainingConfig:
    """Replace ``auto`` with the actual format, so that a run records what it was trained with."""
    if config.precision == "float32":
        return config
    can = has_bfloat16(device)
    what = "processor" if device.type == "cpu" else "device"
    if config.precision == "bfloat16":
        if not can:
            warnings.warn(
                MIVWarning(f"precision is bfloat16, which this {what} cannot compute with: it is slower than float32."),
                stacklevel=2,
            )
        return config
    if not can and not quiet:
        reason = f"this {what} has no instructions for it, so it would be slower here"
        print(f"precision is float32. bfloat16 is not used: {reason}.", file=sys.stderr, flush=True)
    return config.changed({"precision": "bfloat16" if can else "float32"})
