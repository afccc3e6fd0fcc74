"""The real encoder tells voices apart: speech that espeak-ng makes, and the weights from PyPI."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from miv import MIVError, Verifier
from miv.audio import SpeakerEncoder, write_speaker_weights
from miv.runtime.progress import SilentProgress
from tests.audio.sounds import tone

VOICES = ("en-us+m3", "en-us+f2", "en-gb+m7")
SENTENCES = (
    "The quick brown fox jumps over the lazy dog and runs away into the forest.",
    "My grandmother keeps seven old clocks in the kitchen, and none of them is right.",
    "Tomorrow morning the train to the harbour will leave at half past nine.",
)
pytestmark = pytest.mark.slow  # downloads 16 MB, unless MIV_SPEAKER_WEIGHTS names the file of `miv audio weights`


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> SpeakerEncoder:
    given = os.environ.get("MIV_SPEAKER_WEIGHTS")
    path = Path(given) if given else tmp_path_factory.mktemp("weights") / "speaker.safetensors"
    try:
        if not given:
            write_speaker_weights(path, None, SilentProgress())
    except MIVError as error:
        pytest.skip(f"no speaker weights: {error}")
    return SpeakerEncoder.load(path)


@pytest.fixture(scope="module")
def speech(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Path]:
    if shutil.which("espeak-ng") is None:
        pytest.skip("espeak-ng is not installed: apt-get install espeak-ng")
    folder = tmp_path_factory.mktemp("speech")
    made = {}
    for voice in VOICES:
        for number, sentence in enumerate(SENTENCES):
            made[voice, number] = folder / f"{voice}-{number}.wav"
            subprocess.run(["espeak-ng", "-v", voice, "-w", str(made[voice, number]), sentence], check=True)
    return made


def test_the_same_voice_with_other_words_is_nearer_than_another_voice(
    encoder: SpeakerEncoder, speech: dict[tuple[str, int], Path]
) -> None:
    vector = {name: encoder.whole(path) for name, path in speech.items()}
    for name, one in vector.items():
        others = {other: float(one @ two) for other, two in vector.items() if other != name}
        nearest = max(others, key=others.__getitem__)
        assert nearest[0] == name[0], f"{name} is nearest to {nearest}"


def test_the_windows_of_a_voice_are_found_in_a_conversation(
    encoder: SpeakerEncoder, speech: dict[tuple[str, int], Path]
) -> None:
    first, second = (encoder.windows(speech[voice, 1]).vectors for voice in VOICES[:2])
    query = encoder.whole(speech[VOICES[1], 0])
    verdict = Verifier("nearest", channels=256).verify(query, np.concatenate([first, second]))
    assert verdict.scores is not None
    assert int(np.argmax(verdict.scores)) >= len(first)


def test_tones_are_unlike_speech(encoder: SpeakerEncoder, speech: dict[tuple[str, int], Path]) -> None:
    voice = encoder.whole(speech[VOICES[0], 0])
    again = float(voice @ encoder.whole(speech[VOICES[0], 1]))
    assert max(float(voice @ encoder.whole(tone(hertz, 3.0))) for hertz in (200, 800)) < again - 0.1
