"""``miv audio``: from recordings to files that the other commands read."""

from pathlib import Path

import numpy as np
import pytest

from miv import MIVError
from miv.data.sources import splits_from_folder
from tests.backbones.sounds import write_random_weights, write_voice
from tests.cli.running import run_command


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    return write_random_weights(tmp_path / "speaker.safetensors")


def test_a_folder_of_recordings_becomes_classes_of_vectors(weights: Path, tmp_path: Path) -> None:
    for number in range(6):
        write_voice(tmp_path / "voices" / f"speaker{number}" / "talk.WAV", 150 + 100 * number, 4.0)
    out = tmp_path / "vectors"
    run_command("audio", "embed", str(tmp_path / "voices"), "--out", str(out), "--weights", str(weights))
    assert np.load(out / "speaker3" / "talk.npy").shape == (4, 256)
    splits = splits_from_folder(out, exemplars=20, bag_mean=3, bag_max=3)
    assert splits["train"].pool.summary.endswith("vectors of 256")


def test_a_recording_becomes_one_vector_or_its_windows(weights: Path, tmp_path: Path) -> None:
    wav = write_voice(tmp_path / "anna.wav", 300, 4.0)
    for name, flags, shape in (("windows.npy", [], (4, 256)), ("anna.npy", ["--whole"], (256,))):
        run_command("audio", "embed", str(wav), "--out", str(tmp_path / name), "--weights", str(weights), *flags)
        assert np.load(tmp_path / name).shape == shape


def test_what_cannot_be_embedded_is_refused_before_the_work(weights: Path, tmp_path: Path) -> None:
    wav = write_voice(tmp_path / "sounds" / "anna.wav", 300, 1.0)
    (tmp_path / "empty").mkdir()
    for source, out, message in (
        (wav, "vectors", "Expected the name of a .npy file"),
        (tmp_path / "empty", "vectors", "contains no .wav files"),
        (tmp_path / "none.wav", "a.npy", "could not be read"),
    ):
        with pytest.raises(MIVError, match=message):
            run_command("audio", "embed", str(source), "--out", str(tmp_path / out), "--weights", str(weights))
    assert not (tmp_path / "vectors").exists()
    assert not (tmp_path / "a.npy").exists()
