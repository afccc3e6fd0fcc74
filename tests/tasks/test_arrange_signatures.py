"""The Dutch signatures of a public repository, arranged as the task reads them."""

from pathlib import Path

import pytest
from tools.arrange_signatures import SOURCE, arrange

from miv.tasks.signature import find_signatures


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """One writer of SigComp2011 with two genuine and one forged signature, and one of CEDAR."""
    for name in ("001/001_00", "001/001_01", "001_forg/001_forg_00", "070/070_00", "070_forg/070_forg_00"):
        image = tmp_path / "checkout" / SOURCE / f"{name}.png"
        image.parent.mkdir(parents=True, exist_ok=True)
        image.write_bytes(name.encode())
    return tmp_path / "checkout"


def test_writers_of_sigcomp_are_found_and_those_of_cedar_left_out(checkout: Path, tmp_path: Path) -> None:
    assert arrange(checkout, tmp_path / "raw") == {"genuine": 2, "forged": 1}
    found = find_signatures(tmp_path / "raw")
    assert [(file.script, file.writer, file.forged) for file in found] == [
        ("dutch", "001", True),
        ("dutch", "001", False),
        ("dutch", "001", False),
    ]
    assert found[0].path.read_bytes() == b"001_forg/001_forg_00"


def test_another_folder_and_existing_images_are_refused(checkout: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="Expected a clone"):
        arrange(tmp_path, tmp_path / "raw")
    (tmp_path / "raw").mkdir()
    with pytest.raises(SystemExit, match="exists"):
        arrange(checkout, tmp_path / "raw")
