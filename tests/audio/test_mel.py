"""Mel spectrograms equal those of librosa 0.11, of which some numbers were computed once."""

import numpy as np
import pytest

from miv.audio.mel import mel_filters, mel_spectrogram

# librosa.feature.melspectrogram(y=y, sr=16000, n_fft=400, hop_length=160, n_mels=40)
OF_LIBROSA = {(0, 0): 7.908756, (0, 5): 0.5331617, (10, 7): 0.12835945, (30, 14): 7.1205096, (50, 20): 1.0405439}
SUM_OF_LIBROSA = 2191.1323


def test_a_sweep_has_the_spectrogram_of_librosa() -> None:
    t = np.arange(16000) / 16000
    sound = 0.4 * np.sin(2 * np.pi * (100 * t + 1800 * t**2)) + 0.1 * np.sin(2 * np.pi * 440 * t)
    mel = mel_spectrogram(sound.astype(np.float32))
    assert mel.shape == (101, 40)
    assert {place: float(mel[place]) for place in OF_LIBROSA} == pytest.approx(OF_LIBROSA, rel=1e-4)
    assert float(mel.sum()) == pytest.approx(SUM_OF_LIBROSA, rel=1e-4)


def test_filters_equal_those_of_librosa() -> None:
    filters = mel_filters()
    assert filters.shape == (40, 201)
    assert filters[0, 1] == pytest.approx(0.0073902095, rel=1e-6)  # librosa.filters.mel(sr=16000, n_fft=400, n_mels=40)
    assert filters[39, 190] == pytest.approx(0.0012151540, rel=1e-6)
    assert (filters >= 0).all()
