"""Recordings as embeddings of the speaker encoder of Wan et al. (2018), with the weights that Resemblyzer trained."""

import io
import math
import os
import warnings
import zipfile
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from scipy.io import wavfile
from scipy.signal import resample_poly
from torch import Tensor, nn

from miv.errors import MIVError
from miv.files.arrays import Floats
from miv.files.atomic import make_ordinary, refuse_existing, whole_file
from miv.files.cache import RemoteFile, cache_folder, fetch
from miv.files.weights import read_weights
from miv.runtime import Progress, SilentProgress

RATE = 16_000
"""Samples per second of everything that is embedded."""
CHANNELS = 256
MAX_WAV_BYTES = 2_000_000_000
_RATES = (1_000, 768_000)  # outside, the header is wrong

_FRAME, _STEP, _BANDS = 400, 160, 40  # a frame has 25 ms, one every 10 ms
_BREAK_HZ, _BREAK_MEL = 1000.0, 15.0  # Slaney's mel scale is linear below and logarithmic above
_LOG_STEP = np.log(6.4) / 27

_WINDOW_FRAMES = 160  # 1.6 s
_STEP_FRAMES = 77  # 0.77 s from one window to the next
_LEAST_FILLED = 0.75  # share of the last window that must be sound
_LEAST_LOUDNESS = 10 ** (-30 / 20)  # root mean square, to which quieter recordings are raised
_SILENCE = 10 ** (-40 / 20)  # of the loudest window: quieter windows hold no speech
_BATCH = 64  # windows at a time

WHEEL = RemoteFile(
    "https://files.pythonhosted.org/packages/d9/b5/d897d5de5b2123a1ad5d32e8e007d83f76582f5c32c60992577263bd7c7e/"
    "Resemblyzer-0.1.4-py3-none-any.whl",
    15_747_704,
    "8f12eb2f1a9982d32e8db7856de754709b59c93a77bcf0ff536584b619a9dd1f",
)
"""The package on PyPI whose weights are used (Apache 2.0); nothing in it is run."""
_MEMBER = "resemblyzer/pretrained.pt"

Sound = str | PathLike[str] | NDArray[np.floating]


class SpeakerEncoder(nn.Module):
    r"""Turns recordings into speaker embeddings.

    .. math:: v = \frac{relu(W h + b)}{\lVert relu(W h + b) \rVert}

    where :math:`h` is the last state of a three-layer LSTM over the mel spectrogram of 1.6 seconds. A recording is one
    vector as a query (``whole``) and several as a bag (``windows``).
    """

    channels = CHANNELS

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(_BANDS, CHANNELS, num_layers=3, batch_first=True)
        self.linear = nn.Linear(CHANNELS, CHANNELS)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "SpeakerEncoder":
        """Load weights that ``write_speaker_weights`` wrote."""
        with torch.device("meta"):
            encoder = cls()
        if not Path(path).is_file():
            raise MIVError(
                f"There are no speaker weights {path}. Expected a .safetensors file; omit it for Resemblyzer's."
            )
        encoder.load_state_dict(read_weights(Path(path), encoder), assign=True)
        return encoder.float().eval().requires_grad_(False)

    @classmethod
    def pretrained(cls, progress: Progress) -> "SpeakerEncoder":
        """Load the weights in Resemblyzer's wheel, which is downloaded and converted in the cache, once."""
        path = cache_folder() / "speaker.safetensors"
        if not path.is_file():
            write_speaker_weights(path, fetch(WHEEL, cache_folder(), progress))
        return cls.load(path)

    def forward(self, mels: Tensor) -> Tensor:
        """Embed mel spectrograms of one length: ``(N, F, 40)`` to ``(N, 256)``, rows of length 1."""
        _, (states, _) = self.lstm(mels)  # (3, N, 256)
        raw = self.linear(states[-1]).relu()
        return raw / raw.norm(dim=1, keepdim=True).clamp(min=1e-12)

    def windows(self, sound: Sound) -> NDArray[np.float32]:
        """Embed windows of 1.6 s of a wav file or samples ``(S,)`` at 16 kHz, one every 0.77 s, without silent ones.

        Returns ``(N, 256)``, rows of length 1.
        """
        return self.timed_windows(sound)[1]

    def timed_windows(self, sound: Sound) -> tuple[Floats, NDArray[np.float32]]:
        """Embed windows likewise; return the second ``(N,)`` in which each starts, too."""
        samples = _samples_of(sound)
        loudness = float(np.sqrt(np.mean(samples.astype(np.float64) ** 2)))
        samples = samples * np.float32(max(1.0, _LEAST_LOUDNESS / loudness))
        first = _window_starts(len(samples))  # (N,) in frames
        end = (int(first[-1]) + _WINDOW_FRAMES) * _STEP
        padded = np.pad(samples, (0, max(0, end - len(samples))))
        power = np.array([np.mean(padded[start * _STEP :][: _WINDOW_FRAMES * _STEP] ** 2) for start in first])
        spoken = first[power >= power.max() * _SILENCE**2]
        mel = mel_spectrogram(padded)
        frames = torch.from_numpy(np.stack([mel[start : start + _WINDOW_FRAMES] for start in spoken]))
        with torch.inference_mode():
            vectors: NDArray[np.float32] = torch.cat([self(batch) for batch in frames.split(_BATCH)]).numpy()
        return spoken * (_STEP / RATE), vectors

    def whole(self, sound: Sound) -> NDArray[np.float32]:
        """Embed a recording as one vector ``(256,)`` of length 1, the mean direction of its windows."""
        mean = self.windows(sound).mean(axis=0)
        vector: NDArray[np.float32] = mean / max(float(np.linalg.norm(mean)), 1e-12)
        return vector


def mel_spectrogram(sound: NDArray[np.float32]) -> NDArray[np.float32]:
    r"""Power in 40 bands of frequency every 10 ms, as librosa's: ``(S,)`` at 16 kHz to ``(1 + S // 160, 40)``.

    .. math:: x_{f m} = \sum_k b_{m k} \; \Big| \sum_{s=0}^{399} w_s \, y_{160 f - 200 + s} \, e^{-2 \pi i k s / 400}
        \Big|^2

    with the Hann window :math:`w` and zeros outside the sound. There is no logarithm: the encoder was trained without.
    """
    frames = np.lib.stride_tricks.sliding_window_view(np.pad(sound, _FRAME // 2), _FRAME)[::_STEP]  # (F, 400)
    hann = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(_FRAME) / _FRAME)).astype(np.float32)
    power = np.abs(np.fft.rfft(frames * hann)) ** 2  # (F, 201)
    return (power @ _mel_filters().T).astype(np.float32)


@cache
def _mel_filters() -> NDArray[np.float64]:
    """``(40, 201)`` weights of the frequencies in each band: triangles of area 1 on Slaney's mel scale."""
    hertz = np.linspace(0, RATE / 2, _FRAME // 2 + 1)  # (201,)
    highest = _BREAK_MEL + np.log(RATE / 2 / _BREAK_HZ) / _LOG_STEP
    mel = np.linspace(0, highest, _BANDS + 2)  # (42,)
    above = _BREAK_HZ * np.exp(_LOG_STEP * (mel - _BREAK_MEL))
    edges = np.where(mel < _BREAK_MEL, mel * _BREAK_HZ / _BREAK_MEL, above)
    rising = (hertz - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - hertz) / np.diff(edges)[1:, None]
    triangles = np.clip(np.minimum(rising, falling), 0, None)
    filters: NDArray[np.float64] = triangles * (2 / (edges[2:] - edges[:-2]))[:, None]
    return filters


def read_wav(path: Path) -> NDArray[np.float32]:
    """Return the sound of a wav file, ``(S,)`` from -1 to 1 at 16 kHz; several channels are averaged."""
    if path.exists() and not path.is_file():  # a folder, or a pipe that would never end
        raise MIVError(f"{path}: not a file. Expected a wav file.")
    if path.exists() and path.stat().st_size > MAX_WAV_BYTES:
        raise MIVError(f"{path}: longer than {MAX_WAV_BYTES:,} bytes. Split it first.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", wavfile.WavFileWarning)  # chunks with the title, the place and so on
            rate, samples = wavfile.read(path, mmap=False)
    except OSError as error:
        raise MIVError(f"{path}: could not be read ({error.strerror or error}).") from error
    except Exception as error:  # damaged headers raise many types
        remedy = "Convert other formats first: ffmpeg -i talk.mp3 -ac 1 -ar 16000 talk.wav"
        raise MIVError(f"{path}: not a wav file, or damaged ({error}). {remedy}") from error
    if not samples.size:
        raise MIVError(f"{path}: the recording is empty.")
    if not _RATES[0] <= rate <= _RATES[1]:
        raise MIVError(f"{path}: {rate:,} samples per second. Expected {_RATES[0]:,} to {_RATES[1]:,}.")
    sound = _one_channel(samples)
    common = math.gcd(RATE, rate)
    return sound if rate == RATE else resample_poly(sound, RATE // common, rate // common).astype(np.float32)


def embed_recordings(
    encoder: SpeakerEncoder,
    source: Path,
    out: Path,
    *,
    whole: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> list[Path]:
    """Embed a wav file to the file ``out``, or all below a folder to the same names below ``out``; return the files.

    A recording becomes its windows ``(N, 256)`` or, if ``whole``, one vector ``(256,)``.
    """
    if source.is_dir():
        files = recordings_in(source)
        pairs = [(path, (out / path.relative_to(source)).with_suffix(".npy")) for path in files]
    elif out.suffix != ".npy":
        raise MIVError(f"--out is {out}. Expected the name of a .npy file, because {source} is not a folder.")
    else:
        pairs = [(source, out)]
    for _, target in pairs:
        refuse_existing(target, overwrite=overwrite)
    with (progress or SilentProgress()).step("Embedding recordings", total=len(pairs)) as advance:
        for path, target in pairs:
            vectors = encoder.whole(path) if whole else encoder.windows(path)
            with whole_file(target) as temporary, temporary.open("wb") as file:
                np.save(file, vectors)
            advance(1)
    return [target for _, target in pairs]


def recordings_in(folder: Path) -> list[Path]:
    """The wav files below a folder, also behind links to folders, sorted by name; hidden ones are ignored."""
    files, seen = [], set()
    for place, below, names in os.walk(folder, followlinks=True):
        seen.add(os.path.realpath(place))
        below[:] = [
            name
            for name in below
            if name[0] != "." and os.path.realpath(Path(place, name)) not in seen  # no circles
        ]
        files += [Path(place, name) for name in names if name[0] != "." and name.lower().endswith(".wav")]
    if not (found := sorted(path for path in files if path.is_file())):
        raise MIVError(f"The folder {folder} contains no .wav files.")
    return found


def write_speaker_weights(out: Path, wheel: Path) -> None:
    """Write the weights in Resemblyzer's wheel, whose hash ``fetch`` has checked, as safetensors."""
    with zipfile.ZipFile(wheel) as archive:
        content = io.BytesIO(archive.read(_MEMBER))
    # weights_only: a pickle may otherwise run any code.
    stored = torch.load(content, map_location="cpu", weights_only=True)["model_state"]
    with torch.device("meta"):
        names = SpeakerEncoder().state_dict()  # without those of its training loss
    weights = {name: stored[name].float().contiguous() for name in names}
    with whole_file(out) as temporary:
        save_file(weights, temporary, metadata={"source": "Resemblyzer 0.1.4, Apache-2.0"})
        make_ordinary(temporary)


def _samples_of(sound: Sound) -> NDArray[np.float32]:
    """The samples of a file or an array, if there are any, all finite and not all zero."""
    place = "The sound" if isinstance(sound, np.ndarray) else str(sound)
    samples = sound if isinstance(sound, np.ndarray) else read_wav(Path(sound))
    if samples.ndim != 1 or samples.dtype.kind != "f" or not len(samples):
        wanted = f"float (S,), one channel at {RATE:,} samples per second"
        raise MIVError(f"{place}: {samples.dtype} {samples.shape}. Expected a sound as {wanted}.")
    if not np.isfinite(samples).all():
        raise MIVError(f"{place}: some samples are NaN or infinite.")
    if not samples.any():
        raise MIVError(f"{place}: all samples are zero. Expected a sound; leave this recording out.")
    return samples.astype(np.float32, copy=False)


def _one_channel(samples: NDArray[Any]) -> NDArray[np.float32]:
    """Samples ``(S,)`` or ``(S, channels)`` as stored, to float32 ``(S,)`` from -1 to 1."""
    middle, largest = 0, 1
    if samples.dtype == np.uint8:
        middle, largest = 128, 128
    elif samples.dtype.kind == "i":  # 24 bits come as the upper ones of 32
        largest = 2 ** (8 * samples.dtype.itemsize - 1)
    sound: NDArray[np.float32] = (samples.astype(np.float32) - np.float32(middle)) / np.float32(largest)
    return sound.mean(axis=1, dtype=np.float32) if sound.ndim == 2 else sound


def _window_starts(samples: int) -> NDArray[np.int64]:
    """First frame of each window; the last window may pass the end by a quarter of itself, the only one by more."""
    frames = -(-(samples + 1) // _STEP)
    starts = np.arange(0, max(1, frames - _WINDOW_FRAMES + _STEP_FRAMES + 1), _STEP_FRAMES)
    filled = (samples - starts[-1] * _STEP) / (_WINDOW_FRAMES * _STEP)
    return starts[:-1] if filled < _LEAST_FILLED and len(starts) > 1 else starts
