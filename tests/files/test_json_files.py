from pathlib import Path

import pytest

from miv.cli.app import print_json
from miv.errors import MIVError
from miv.files.json import MAX_BYTES, read_json_object, write_json


def test_an_object_survives(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"writer": "björn", "rates": [[0, 0.1]]})
    assert read_json_object(tmp_path / "a.json", "") == {"writer": "björn", "rates": [[0, 0.1]]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"^\S+a.json is missing. Do this.$"),
        (b"{", r"^\S+a.json is not JSON: .* Do this.$"),
        (b"\xff", r"^\S+a.json is not JSON: .* Do this.$"),
        (b"[" * 100_000, r"^\S+a.json is not JSON: .* Do this.$"),
        (b"[1]", r"^\S+a.json contains a list. Expected an object. Do this.$"),
        (b" " * (MAX_BYTES + 1), r"^\S+a.json has 16777217 bytes. .* Do this.$"),
    ],
)
def test_what_is_none_is_refused_with_the_remedy(tmp_path: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(MIVError, match=message):
        read_json_object(tmp_path / "a.json", "Do this.")


def test_a_folder_is_not_read_as_a_file(tmp_path: Path) -> None:
    with pytest.raises(MIVError, match=r"is not a file. Do this.$"):
        read_json_object(tmp_path, "Do this.")


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_json_cannot_hold_is_refused_and_the_file_stays(
    tmp_path: Path, number: float, capsys: pytest.CaptureFixture[str]
) -> None:
    write_json(tmp_path / "a.json", {"kept": 1})
    with pytest.raises(MIVError, match="NaN or infinite"):
        write_json(tmp_path / "a.json", {"rate": number})
    assert read_json_object(tmp_path / "a.json", "") == {"kept": 1}
    with pytest.raises(MIVError, match="NaN or infinite"):
        print_json({"rate": [number]})
    assert capsys.readouterr().out == ""
