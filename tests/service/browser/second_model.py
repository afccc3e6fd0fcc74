"""A second model for images, to compare with."""

import json
import shutil
from pathlib import Path

import miv.verifier


def cautious_digits(folder: Path) -> Path:
    """A copy of miv/digits that is unsure between 0.3 and 0.9."""
    shutil.copytree(Path(miv.verifier.__file__).parent / "shipped_verifiers" / "digits", folder)
    file = folder / "operating_point.json"
    point = json.loads(file.read_text())
    point |= {"format_version": 2, "threshold": 0.9, "lower_threshold": 0.3, "goal": "stated thresholds 0.3 and 0.9"}
    file.write_text(json.dumps(point))
    return folder
