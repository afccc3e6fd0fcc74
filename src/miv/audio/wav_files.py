"""Read wav files as one channel at the rate that the speaker encoder takes."""

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.io import wavfile
from scipy.signal import resample_poly

from miv.errors import MIVError

RATE = 16_000
"""Samples per second of everything that is embedded."""

MAX_WAV_BYTES = 2_000_000_000
_RATES = (1_000, 768_000)  # outside, the header is wrong
_OTHER_FORMATS = "Convert other formats first, for example: ffmpeg -i talk.mp3 -ac 1 -ar 16000 talk.wav"


def read_wav(path: Path) -> NDArray[np.float32]:
    """Return the sound of a wav file, ``(S,)`` from -1 to 1 at 16 kHz; several channels are averaged."""
    try:
        if path.exists() and not path.is_file():  # a folder, or a pipe that would never end
            raise MIVError(f"{path}: not a file. Expected a wav file.")
        if path.stat().st_size > MAX_WAV_BYTES:
            raise MIVError(f"{path}: longer than {MAX_WAV_BYTES:,} bytes. Split it first.")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", wavfile.WavFileWarning)  # chunks with the title, the place and so on
            rate, samples = wavfile.read(path, mmap=False)
    except MIVError:
        raise
    except OSError as error:
        raise MIVError(f"{path}: could not be read ({error.strerror or error}).") from error
    except Exception as error:  # damaged headers raise many types
        raise MIVError(f"{path}: not a wav file, or damaged ({error}). {_OTHER_FORMATS}") from error
    return at_rate(_one_channel(samples, str(path)), rate, str(path))


def at_rate(sound: NDArray[np.float32], rate: int, place: str) -> NDArray[np.float32]:
    """Resample a sound ``(S,)`` from ``rate`` to 16 kHz."""
    if not _RATES[0] <= rate <= _RATES[1]:
        raise MIVError(f"{place}: {rate:,} samples per second. Expected {_RATES[0]:,} to {_RATES[1]:,}.")
    if rate == RATE:
        return sound
    common = math.gcd(RATE, rate)
    return resample_poly(sound, RATE // common, rate // common).astype(np.float32)


def check_sound(sound: NDArray[Any], place: str) -> NDArray[np.float32]:
    """Return a sound ``(S,)`` as float32 if it has samples, all finite and not all zero."""
    if sound.ndim != 1 or sound.dtype.kind != "f" or not len(sound):
        raise MIVError(
            f"{place}: {sound.dtype} {sound.shape}. Expected a sound as float (S,), one channel at {RATE:,} samples "
            "per second."
        )
    if not np.isfinite(sound).all():
        raise MIVError(f"{place}: some samples are NaN or infinite.")
    if not sound.any():
        raise MIVError(f"{place}: all samples are zero. Expected a sound; leave this recording out.")
    return sound.astype(np.float32, copy=False)


def _one_channel(samples: NDArray[Any], place: str) -> NDArray[np.float32]:
    """Samples ``(S,)`` or ``(S, channels)`` as stored, to float32 ``(S,)`` from -1 to 1."""
    if not samples.size:
        raise MIVError(f"{place}: the recording is empty.")
    middle, largest = 0, 1
    if samples.dtype == np.uint8:
        middle, largest = 128, 128
    elif samples.dtype.kind == "i":  # 24 bits come as the upper ones of 32
        largest = 2 ** (8 * samples.dtype.itemsize - 1)
    sound: NDArray[np.float32] = (samples.astype(np.float32) - np.float32(middle)) / np.float32(largest)
    return sound.mean(axis=1, dtype=np.float32) if sound.ndim == 2 else sound
