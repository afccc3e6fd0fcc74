"""The weights of Resemblyzer are converted without running anything, and others are refused."""

import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from miv import MIVError
from miv.audio import SpeakerEncoder, write_speaker_weights
from miv.runtime.progress import SilentProgress
from tests.audio.sounds import random_encoder


def checkpoint(**changed: Any) -> dict[str, Any]:
    extra = {"similarity_weight": torch.ones(1), "similarity_bias": torch.ones(1)}
    return {"step": 7, "model_state": {**random_encoder().state_dict(), **extra, **changed}}


def convert(source: Path, out: Path) -> SpeakerEncoder:
    write_speaker_weights(out, source, SilentProgress())
    return SpeakerEncoder.load(out)


@pytest.mark.parametrize("as_wheel", [False, True])
def test_the_encoder_has_the_weights_of_the_pickle(as_wheel: bool, tmp_path: Path) -> None:
    source = tmp_path / "pretrained.pt"
    torch.save(checkpoint(), source)
    if as_wheel:
        with zipfile.ZipFile(tmp_path / "a.whl", "w") as wheel:
            wheel.write(source, "resemblyzer/pretrained.pt")
        source = tmp_path / "a.whl"
    encoder = convert(source, tmp_path / "speaker.safetensors")
    for name, tensor in random_encoder().state_dict().items():
        assert torch.equal(encoder.state_dict()[name], tensor)


class Harmful:
    def __reduce__(self) -> Any:
        return Path.touch, (Path("harm"),)


def test_a_pickle_that_runs_code_is_refused_and_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({**checkpoint(), "harm": Harmful()}, "pretrained.pt")
    with pytest.raises(MIVError, match="does not hold the weights"):
        convert(Path("pretrained.pt"), Path("speaker.safetensors"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pretrained.pt"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"linear.bias": torch.zeros(255)}, r"linear.bias is \(255,\)"),
        ({"linear.bias": torch.full((256,), torch.nan)}, "Expected finite numbers"),
        ({"linear.bias": "no tensor"}, "does not hold the weights"),
    ],
)
def test_other_weights_are_refused(changed: dict[str, Any], message: str, tmp_path: Path) -> None:
    torch.save(checkpoint(**changed), tmp_path / "pretrained.pt")
    with pytest.raises(MIVError, match=message):
        convert(tmp_path / "pretrained.pt", tmp_path / "speaker.safetensors")
    assert not (tmp_path / "speaker.safetensors").exists()


@pytest.mark.parametrize("name", ["a.whl", "a.pt"])
@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 damaged", pickle.dumps([1, 2], protocol=2)])
def test_damaged_files_are_refused(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(MIVError, match=r"is not the wheel|does not hold the weights"):
        convert(tmp_path / name, tmp_path / "speaker.safetensors")
    with pytest.raises(MIVError, match="is not a file"):
        convert(tmp_path / "none.whl", tmp_path / "speaker.safetensors")
