"""Encoders of texts in bfloat16, twice as fast as float32 on a processor that computes with it."""

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import cache
from hashlib import sha256
from typing import Any

import torch

from miv.errors import MIVError
from miv.files.atomic import whole_file
from miv.files.cache import cache_folder

_PROBE = """
import torch
one = torch.linspace(-1, 1, 4096).reshape(64, 64)
with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
    product = torch.nn.functional.linear(one, one).float()
raise SystemExit(int((product - one @ one.T).abs().max() > 0.5))
"""
_PROBE_SECONDS = 60
_is_lower = ContextVar("is_lower", default=False)


@contextmanager
def lower_precision() -> Iterator[None]:
    """Let encoders of texts compute in bfloat16 in this block, if ``has_native_bfloat16``."""
    before = _is_lower.set(True)
    try:
        yield
    finally:
        _is_lower.reset(before)


def precision_of(device: torch.device) -> AbstractContextManager[Any]:
    """The context in which an encoder of texts computes."""
    if _is_lower.get() and device.type == "cpu" and has_native_bfloat16():
        return torch.autocast("cpu", torch.bfloat16)
    return nullcontext()


@cache
def has_native_bfloat16() -> bool:
    """Whether the processor computes with bfloat16, and does so without failing; ``MIV_BFLOAT16=0`` says no.

    Some machines announce instructions that end the process. So another process tries them, once per machine and
    version of torch; the answer is kept in the cache folder.
    """
    names = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    announced = [name for name in names if getattr(torch.cpu, name, bool)()]
    if not announced or os.environ.get("MIV_BFLOAT16") == "0":
        return False
    machine = f"{torch.__version__} {platform.node()} {announced}"
    answer = cache_folder() / f"bfloat16-{sha256(machine.encode()).hexdigest()[:16]}"
    with suppress(OSError):
        return answer.read_text() == "yes"
    works = False
    with suppress(OSError, subprocess.TimeoutExpired):
        words = [sys.executable, "-c", _PROBE]
        works = not subprocess.run(words, capture_output=True, timeout=_PROBE_SECONDS, check=False).returncode  # noqa: S603
    with suppress(OSError, MIVError), whole_file(answer) as temporary:
        temporary.write_text("yes" if works else "no")
    return works
