"""Windows of a recording, and one vector for all of it; with random weights, which suffice for both."""

from pathlib import Path

import numpy as np
import pytest
import torch

from miv import MIVError
from miv.audio import SpeakerEncoder
from miv.audio.mel import mel_spectrogram
from tests.audio.sounds import random_encoder, tone, write_random_weights, write_tone


def test_windows_of_1_6_seconds_cover_the_recording() -> None:
    found = random_encoder().windows(tone(440, 4.0))
    assert found.start.tolist() == pytest.approx([0.0, 0.77, 1.54, 2.31])
    assert found.vectors.shape == (4, 256)
    np.testing.assert_allclose(np.linalg.norm(found.vectors, axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize(("seconds", "count"), [(0.05, 1), (1.6, 1), (1.9, 1), (2.0, 2), (60.0, 77)])
def test_a_recording_of_any_length_has_windows(seconds: float, count: int) -> None:
    assert len(random_encoder().windows(tone(440, seconds))) == count


def test_a_window_is_the_last_state_of_the_lstm_over_its_spectrogram() -> None:
    encoder, sound = random_encoder(), tone(300, 1.6)
    mel = torch.from_numpy(mel_spectrogram(sound))[:160]
    weights = dict(encoder.lstm.named_parameters())
    with torch.no_grad():
        rows = mel
        for layer in range(3):
            w_i, w_h, b_i, b_h = (
                weights[f"{name}_l{layer}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            )
            hidden, cell, outputs = torch.zeros(256), torch.zeros(256), []
            for row in rows:
                i, f, g, o = (w_i @ row + b_i + w_h @ hidden + b_h).split(256)
                cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
                hidden = o.sigmoid() * cell.tanh()
                outputs.append(hidden)
            rows = torch.stack(outputs)
        state = (encoder.linear.weight @ rows[-1] + encoder.linear.bias).relu()
    expected = (state / state.norm()).numpy()
    np.testing.assert_allclose(encoder.windows(sound).vectors[0], expected, atol=1e-5)


def test_tones_differ_and_equal_tones_agree() -> None:
    encoder = random_encoder()
    low, again, high = (encoder.whole(tone(hertz, 2.0)) for hertz in (200, 200, 3000))
    np.testing.assert_array_equal(low, again)
    assert np.linalg.norm(low) == pytest.approx(1, rel=1e-5)
    assert float(low @ high) < 0.999


def test_silence_is_left_out_and_times_stay() -> None:
    sound = np.concatenate([tone(440, 2.0), np.full(5 * 16_000, 1e-6, np.float32), tone(440, 2.0)])
    found = random_encoder().windows(sound)
    assert found.start.min() == 0
    assert not ((found.start > 2.0) & (found.start + 1.6 < 7.0)).any()
    assert found.start.max() > 5


def test_a_quiet_recording_is_raised() -> None:
    encoder = random_encoder()
    np.testing.assert_allclose(encoder.whole(tone(440, 2) * 1e-3), encoder.whole(tone(440, 2) * 1e-2), atol=1e-4)


def test_a_saved_encoder_reads_files(tmp_path: Path) -> None:
    encoder = SpeakerEncoder.load(write_random_weights(tmp_path / "speaker.safetensors"))
    path = write_tone(tmp_path / "a.wav", 440, 2.5)
    np.testing.assert_allclose(encoder.whole(path), random_encoder().whole(tone(440, 2.5)), atol=1e-4)
    np.testing.assert_allclose(encoder.windows(str(path)).vectors, encoder.windows(path).vectors)


@pytest.mark.parametrize(
    ("sound", "message"),
    [
        (np.zeros(16_000, np.float32), "all samples are zero"),
        (np.full(16_000, np.nan, np.float32), "NaN or infinite"),
        (np.zeros((2, 16_000), np.float32), r"Expected a sound as float \(S,\)"),
        (np.ones(16_000, np.int16), r"Expected a sound as float \(S,\)"),
    ],
)
def test_what_is_no_sound_is_refused(sound: np.ndarray, message: str) -> None:
    with pytest.raises(MIVError, match=message):
        random_encoder().windows(sound)


def test_missing_weights_name_the_command(tmp_path: Path) -> None:
    with pytest.raises(MIVError, match="miv audio weights"):
        SpeakerEncoder.load(tmp_path / "none.safetensors")
