"""Sounds that tests make, and an encoder with random weights: enough for shapes, windows and files."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from scipy.io import wavfile

from miv.backbones.audio import SpeakerEncoder

RATE = 16_000


def tone(hertz: float, seconds: float, rate: int = RATE) -> NDArray[np.float32]:
    return (0.4 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


def write_tone(path: Path, hertz: float, seconds: float, rate: int = RATE) -> Path:
    return _write(path, tone(hertz, seconds, rate), rate)


def write_voice(path: Path, hertz: float, seconds: float) -> Path:
    """A tone that swells, so that no two windows are equal."""
    sound = tone(hertz, seconds)
    return _write(path, sound * np.linspace(0.5, 1, len(sound), dtype=np.float32), RATE)


def _write(path: Path, sound: NDArray[np.float32], rate: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    wavfile.write(path, rate, np.round(sound * 32767).astype(np.int16))
    return path


def random_encoder() -> SpeakerEncoder:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return SpeakerEncoder().eval()


def write_random_weights(path: Path) -> Path:
    save_file(random_encoder().state_dict(), path)
    return path
