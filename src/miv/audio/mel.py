"""Mel spectrograms, as librosa computes them by default."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from miv.audio.wav_files import RATE

WINDOW = 400  # samples: 25 ms
STEP = 160  # samples: 10 ms
BANDS = 40

_LINEAR_HZ = 200 / 3  # Hz per mel below 1 kHz
_BREAK_HZ, _BREAK_MEL = 1000.0, 15.0
_LOG_STEP = np.log(6.4) / 27  # above it


def mel_spectrogram(sound: NDArray[np.float32]) -> NDArray[np.float32]:
    r"""Power in ``M`` = 40 bands of frequency every 10 ms: ``(S,)`` at 16 kHz to ``(F, 40)``, ``F = 1 + S // 160``.

    .. math:: x_{f m} = \sum_k b_{m k} \; \Big| \sum_{s=0}^{399} w_s \, y_{160 f - 200 + s} \, e^{-2 \pi i k s / 400}
        \Big|^2

    with the Hann window :math:`w` and zeros outside the sound. There is no logarithm: the encoder was trained without.
    """
    padded = np.pad(sound, WINDOW // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::STEP]  # (F, 400)
    hann = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)).astype(np.float32)
    power = np.abs(np.fft.rfft(frames * hann)) ** 2  # (F, 201)
    return (power @ mel_filters().T).astype(np.float32)


@cache
def mel_filters() -> NDArray[np.float64]:
    """``(40, 201)`` weights of the frequencies in each band: triangles of area 1 on Slaney's mel scale."""
    hertz = np.linspace(0, RATE / 2, WINDOW // 2 + 1)  # (201,)
    edges = _hertz(np.linspace(0, _mel(RATE / 2), BANDS + 2))  # (42,)
    rising = (hertz - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - hertz) / np.diff(edges)[1:, None]
    triangles = np.clip(np.minimum(rising, falling), 0, None)
    filters: NDArray[np.float64] = triangles * (2 / (edges[2:] - edges[:-2]))[:, None]
    return filters


def _mel(hertz: float) -> float:
    return _BREAK_MEL + float(np.log(hertz / _BREAK_HZ) / _LOG_STEP)  # only asked for above 1 kHz


def _hertz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    above = _BREAK_HZ * np.exp(_LOG_STEP * (mel - _BREAK_MEL))
    return np.where(mel < _BREAK_MEL, mel * _LINEAR_HZ, above)
