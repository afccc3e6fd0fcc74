"""Recordings: wav files, spectrograms, windows, the speaker encoder and its weights."""

import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.io import wavfile

from miv import MIVError
from miv.backbones.audio import SpeakerEncoder, mel_spectrogram, read_wav, write_speaker_weights
from tests.backbones.sounds import RATE, random_encoder, tone, write_random_weights, write_tone


@pytest.mark.parametrize(
    ("factor", "offset", "dtype"),
    [(127, 128, np.uint8), (32767, 0, np.int16), (2**31 - 128, 0, np.int32), (1, 0, np.float32), (1, 0, np.float64)],
)
def test_every_sample_format_gives_the_same_sound(factor: int, offset: int, dtype: type, tmp_path: Path) -> None:
    sound = tone(440, 0.1)
    stored: np.ndarray = (sound * np.float64(factor) + offset).astype(dtype)
    for samples in (stored, np.stack([stored, stored], axis=1)):  # channels are averaged
        wavfile.write(tmp_path / "a.wav", RATE, samples)
        np.testing.assert_allclose(read_wav(tmp_path / "a.wav"), sound, atol=0.02 if dtype is np.uint8 else 1e-4)


@pytest.mark.parametrize("rate", [8_000, 22_050, 44_100, 48_000])
def test_other_rates_are_resampled(rate: int, tmp_path: Path) -> None:
    sound = read_wav(write_tone(tmp_path / "a.wav", 440, 0.5, rate))
    assert len(sound) == pytest.approx(RATE / 2, abs=1)
    middle = slice(1000, 7000)  # the filter rings at both ends
    np.testing.assert_allclose(sound[middle], tone(440, 0.5)[middle], atol=0.01)


@pytest.mark.parametrize("content", [b"", b"RIFF\xff\xff\xff\xffWAVEfmt ", b"ID3 this is an mp3"])
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(content)
    with pytest.raises(MIVError, match="ffmpeg -i"):
        read_wav(tmp_path / "a.wav")


def test_missing_empty_and_odd_recordings_are_refused(tmp_path: Path) -> None:
    wavfile.write(tmp_path / "empty.wav", RATE, np.zeros(0, np.int16))
    wavfile.write(tmp_path / "slow.wav", 7, np.ones(100, np.int16))
    for name, message in (
        ("none.wav", "could not be read"),
        ("", "not a file"),
        ("empty.wav", "empty"),
        ("slow.wav", "7 samples per second"),
    ):
        with pytest.raises(MIVError, match=message):
            read_wav(tmp_path / name)


def test_a_sweep_has_the_spectrogram_of_librosa() -> None:
    # librosa.feature.melspectrogram(y=y, sr=16000, n_fft=400, hop_length=160, n_mels=40), version 0.11
    expected = {(0, 0): 7.908756, (0, 5): 0.5331617, (10, 7): 0.12835945, (30, 14): 7.1205096, (50, 20): 1.0405439}
    t = np.arange(16000) / 16000
    sound = 0.4 * np.sin(2 * np.pi * (100 * t + 1800 * t**2)) + 0.1 * np.sin(2 * np.pi * 440 * t)
    mel = mel_spectrogram(sound.astype(np.float32))
    assert mel.shape == (101, 40)
    assert {place: float(mel[place]) for place in expected} == pytest.approx(expected, rel=1e-4)
    assert float(mel.sum()) == pytest.approx(2191.1323, rel=1e-4)


def test_windows_of_1_6_seconds_cover_the_recording() -> None:
    vectors = random_encoder().windows(tone(440, 4.0))
    assert vectors.shape == (4, 256)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize(("seconds", "count"), [(0.05, 1), (1.6, 1), (1.9, 1), (2.0, 2), (60.0, 77)])
def test_a_recording_of_any_length_has_windows(seconds: float, count: int) -> None:
    assert len(random_encoder().windows(tone(440, seconds))) == count


def test_silence_is_left_out() -> None:
    sound = np.concatenate([tone(440, 2.0), np.full(5 * 16_000, 1e-6, np.float32), tone(440, 2.0)])
    assert len(random_encoder().windows(tone(440, 9.0))) - len(random_encoder().windows(sound)) >= 4


def test_a_saved_encoder_reads_files(tmp_path: Path) -> None:
    encoder = SpeakerEncoder.load(write_random_weights(tmp_path / "speaker.safetensors"))
    path = write_tone(tmp_path / "a.wav", 440, 2.5)
    np.testing.assert_allclose(encoder.whole(str(path)), random_encoder().whole(tone(440, 2.5)), atol=1e-4)
    with pytest.raises(MIVError, match="There are no speaker weights"):
        SpeakerEncoder.load(tmp_path / "none.safetensors")


@pytest.mark.parametrize(
    ("sound", "message"),
    [
        (np.zeros(16_000, np.float32), "all samples are zero"),
        (np.full(16_000, np.nan, np.float32), "NaN or infinite"),
        (np.zeros((2, 16_000), np.float32), r"float \(S,\)"),
        (np.ones(16_000, np.int16), r"float \(S,\)"),
    ],
)
def test_what_is_no_sound_is_refused(sound: np.ndarray, message: str) -> None:
    with pytest.raises(MIVError, match=message):
        random_encoder().windows(sound)


def wheel_of(folder: Path, **more: Any) -> Path:
    """A wheel like Resemblyzer's."""
    state = {**random_encoder().state_dict(), "similarity_bias": torch.ones(1)}
    torch.save({"step": 7, "model_state": state, **more}, folder / "pretrained.pt")
    with zipfile.ZipFile(folder / "a.whl", "w") as wheel:
        wheel.write(folder / "pretrained.pt", "resemblyzer/pretrained.pt")
    return folder / "a.whl"


def test_the_encoder_has_the_weights_of_the_pickle(tmp_path: Path) -> None:
    write_speaker_weights(tmp_path / "speaker.safetensors", wheel_of(tmp_path))
    encoder = SpeakerEncoder.load(tmp_path / "speaker.safetensors")
    for name, tensor in random_encoder().state_dict().items():
        assert torch.equal(encoder.state_dict()[name], tensor)


class Harmful:
    def __reduce__(self) -> Any:
        return Path.touch, (Path("harm"),)


def test_a_pickle_that_runs_code_is_refused_and_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pickle.UnpicklingError):
        write_speaker_weights(Path("speaker.safetensors"), wheel_of(Path(), harm=Harmful()))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.whl", "pretrained.pt"]
