"""A verifier saved over another one, and killed at any moment: one of the two can always be loaded."""

from itertools import count
from pathlib import Path

import pytest

from miv import Verifier
from miv.verifier.decisions import OperatingPoint
from miv.verifier.scalings import Platt
from tests.files.killing import kill_at_change, names_in

CALIBRATED = OperatingPoint(Platt(1.5, -0.5), 0.7, "equal error rate")
OLD, NEW = 8, 6  # channels: config.json of one does not fit model.safetensors of the other


def verifier(channels: int, point: OperatingPoint) -> Verifier:
    made = Verifier("baseline", channels=channels)
    made.operating_point = point
    return made


@pytest.mark.parametrize("calibrated_before", [False, True])
def test_a_kill_at_any_moment_leaves_the_old_or_the_new_verifier(tmp_path: Path, calibrated_before: bool) -> None:
    default = OperatingPoint.default()
    before, after = (CALIBRATED, default) if calibrated_before else (default, CALIBRATED)
    folder = tmp_path / "verifier"
    found = []
    for number in count(1):
        verifier(OLD, before).save_pretrained(folder)
        (folder / "notes.txt").write_text("mine")
        killed = kill_at_change(number, verifier(NEW, after).save_pretrained, folder)
        loaded = Verifier.from_pretrained(folder)
        found.append(loaded.backbone.channels)
        assert loaded.operating_point == (before if found[-1] == OLD else after)
        assert (folder / "notes.txt").read_text() == "mine"
        if not killed:
            break
    assert found == sorted(found, reverse=True)  # old up to a moment, then new
    assert (found[0], found[-1]) == (OLD, NEW)
    assert len(found) > 3
    expected = {"README.md", "config.json", "model.safetensors", "notes.txt"}
    assert {name for name in names_in(folder) if not name.endswith(".part")} - {"operating_point.json"} == expected
