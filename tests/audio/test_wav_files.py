"""Wav files of every common kind are read as one channel at 16 kHz, and wrong ones are refused."""

from pathlib import Path

import numpy as np
import pytest
from scipy.io import wavfile

from miv import MIVError
from miv.audio import read_wav
from tests.audio.sounds import RATE, tone, write_tone


@pytest.mark.parametrize(
    ("factor", "offset", "dtype"),
    [(127, 128, np.uint8), (32767, 0, np.int16), (2**31 - 128, 0, np.int32), (1, 0, np.float32), (1, 0, np.float64)],
)
def test_every_sample_format_gives_the_same_sound(factor: int, offset: int, dtype: type, tmp_path: Path) -> None:
    sound = tone(440, 0.1)
    wavfile.write(tmp_path / "a.wav", RATE, (sound * np.float64(factor) + offset).astype(dtype))
    np.testing.assert_allclose(read_wav(tmp_path / "a.wav"), sound, atol=0.02 if dtype is np.uint8 else 1e-4)


def test_channels_are_averaged(tmp_path: Path) -> None:
    left, right = tone(440, 0.1), tone(900, 0.1)
    wavfile.write(tmp_path / "a.wav", RATE, np.stack([left, right], axis=1))
    np.testing.assert_allclose(read_wav(tmp_path / "a.wav"), (left + right) / 2, atol=1e-6)


@pytest.mark.parametrize("rate", [8_000, 22_050, 44_100, 48_000])
def test_other_rates_are_resampled(rate: int, tmp_path: Path) -> None:
    sound = read_wav(write_tone(tmp_path / "a.wav", 440, 0.5, rate))
    assert len(sound) == pytest.approx(RATE / 2, abs=1)
    middle = slice(1000, 7000)  # the filter rings at both ends
    np.testing.assert_allclose(sound[middle], tone(440, 0.5)[middle], atol=0.01)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a wav file, or damaged"),
        (b"RIFF\xff\xff\xff\xffWAVEfmt ", "not a wav file, or damaged"),
        (b"ID3 this is an mp3", "ffmpeg -i"),
    ],
)
def test_other_files_are_refused(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(content)
    with pytest.raises(MIVError, match=message):
        read_wav(tmp_path / "a.wav")


def test_missing_empty_and_odd_recordings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MIVError, match="could not be read"):
        read_wav(tmp_path / "none.wav")
    with pytest.raises(MIVError, match="not a file"):
        read_wav(tmp_path)
    wavfile.write(tmp_path / "empty.wav", RATE, np.zeros(0, np.int16))
    with pytest.raises(MIVError, match="the recording is empty"):
        read_wav(tmp_path / "empty.wav")
    wavfile.write(tmp_path / "slow.wav", 7, np.ones(100, np.int16))
    with pytest.raises(MIVError, match="7 samples per second"):
        read_wav(tmp_path / "slow.wav")
