"""The speaker encoder: windows of speech to vectors that are near for one voice."""

from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from miv.audio.mel import BANDS, STEP, mel_spectrogram
from miv.audio.wav_files import RATE, check_sound, read_wav
from miv.errors import MIVError
from miv.io.model_files import read_weights

CHANNELS = 256
WINDOW_FRAMES = 160  # 1.6 s
STEP_FRAMES = 77  # 0.77 s from one window to the next
_LEAST_FILLED = 0.75  # share of the last window that must be sound
_LEAST_LOUDNESS = 10 ** (-30 / 20)  # root mean square, to which quieter recordings are raised
_SILENCE = 10 ** (-40 / 20)  # of the loudest window: quieter windows hold no speech
_BATCH = 64  # windows at a time

Sound = str | PathLike[str] | NDArray[np.floating]


@dataclass(frozen=True)
class SpokenWindows:
    """The windows of a recording, without silent ones.

    Args:
        vectors: ``(N, 256)`` float32, one per window, of length 1.
        start: ``(N,)`` where each window starts, in seconds; it lasts 1.6 seconds.
    """

    vectors: NDArray[np.float32]
    start: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.vectors)


class SpeakerEncoder(nn.Module):
    r"""Turns recordings into vectors of the voice, with the network of Wan et al. (2018) that Resemblyzer trained.

    .. math:: v = \frac{relu(W h + b)}{\lVert relu(W h + b) \rVert}

    where :math:`h` is the last state of a three-layer LSTM over the mel spectrogram of 1.6 seconds. A recording is one
    vector as a query (``whole``) and several as a bag (``windows``).
    """

    channels = CHANNELS

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(BANDS, CHANNELS, num_layers=3, batch_first=True)
        self.linear = nn.Linear(CHANNELS, CHANNELS)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "SpeakerEncoder":
        """Load the file that ``miv audio weights`` writes."""
        with torch.device("meta"):
            outline = cls()
        if not Path(path).is_file():
            raise MIVError(f"There are no speaker weights {path}. Create them: miv audio weights {path}")
        weights = read_weights(Path(path), outline)
        outline.load_state_dict(weights, assign=True)
        return outline.float().eval().requires_grad_(False)

    def forward(self, mels: Tensor) -> Tensor:
        """Embed mel spectrograms of one length: ``(N, F, 40)`` to ``(N, 256)``, rows of length 1."""
        _, (states, _) = self.lstm(mels)  # (3, N, 256)
        raw = self.linear(states[-1]).relu()
        return raw / raw.norm(dim=1, keepdim=True).clamp(min=1e-12)

    def windows(self, sound: Sound) -> SpokenWindows:
        """Embed windows of 1.6 seconds, one every 0.77 seconds; silent ones are left out.

        Args:
            sound: a wav file, or samples ``(S,)`` from -1 to 1 at 16 kHz.
        """
        samples = _raised(_samples_of(sound))
        first = _window_starts(len(samples))  # (N,) in frames
        end = (int(first[-1]) + WINDOW_FRAMES) * STEP
        padded = np.pad(samples, (0, max(0, end - len(samples))))
        spoken = first[_loud(padded, first)]
        mel = mel_spectrogram(padded)
        frames = torch.from_numpy(np.stack([mel[start : start + WINDOW_FRAMES] for start in spoken]))
        with torch.inference_mode():
            vectors = torch.cat([self(batch) for batch in frames.split(_BATCH)]).numpy()
        return SpokenWindows(vectors, spoken * STEP / RATE)

    def whole(self, sound: Sound) -> NDArray[np.float32]:
        """Embed a recording as one vector ``(256,)`` of length 1, the mean direction of its windows."""
        mean = self.windows(sound).vectors.mean(axis=0)
        vector: NDArray[np.float32] = mean / max(float(np.linalg.norm(mean)), 1e-12)
        return vector


def wav_files_in(folder: Path) -> Iterator[Path]:
    """All wav files below a folder, sorted; hidden files and folders are ignored."""
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.suffix.lower() == ".wav" and path.is_file() and not hidden:
            yield path


def _samples_of(sound: Sound) -> NDArray[np.float32]:
    if isinstance(sound, np.ndarray):
        return check_sound(sound, "The sound")
    return check_sound(read_wav(Path(sound)), str(sound))


def _raised(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """Raise a quiet recording to the loudness that the encoder was trained with."""
    loudness = float(np.sqrt(np.mean(samples.astype(np.float64) ** 2)))
    return samples * np.float32(max(1.0, _LEAST_LOUDNESS / loudness))


def _window_starts(samples: int) -> NDArray[np.int64]:
    """First frame of each window; the last window may pass the end by a quarter of itself, the only one by more."""
    frames = -(-(samples + 1) // STEP)
    starts = np.arange(0, max(1, frames - WINDOW_FRAMES + STEP_FRAMES + 1), STEP_FRAMES)
    filled = (samples - starts[-1] * STEP) / (WINDOW_FRAMES * STEP)
    return starts[:-1] if filled < _LEAST_FILLED and len(starts) > 1 else starts


def _loud(samples: NDArray[np.float32], first: NDArray[np.int64]) -> NDArray[np.bool_]:
    power = np.array([np.mean(samples[start * STEP :][: WINDOW_FRAMES * STEP] ** 2) for start in first])
    loud: NDArray[np.bool_] = power >= power.max() * _SILENCE**2
    return loud
