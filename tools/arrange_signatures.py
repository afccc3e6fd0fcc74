"""Arrange the Dutch signatures of SigComp2011 from a public repository for ``miv data build signature``.

    git clone https://github.com/Prashant-Tiwari26/Signature-Verification-using-Siamese-Neural-Network checkout
    python tools/arrange_signatures.py checkout data/sigcomp2011-dutch
    miv data build signature --raw data/sigcomp2011-dutch --out sets/signature

The folders 001 to 069 of ``Data/custom/full`` are writers of SigComp2011, each with a twin ``001_forg`` of forgeries;
from 070 on, they are of another collection (CEDAR) and left out. Files are copied to ``Dutch/001/genuine`` and
``Dutch/001/forged``. No image is part of this project: its owners ask you to accept their disclaimer.
"""

import argparse
import re
import shutil
import sys
from pathlib import Path

SOURCE = Path("Data/custom/full")
LAST_WRITER = 69  # of SigComp2011
FOLDER = re.compile(r"(\d{3})(_forg)?")
# The training set and the questioned signatures of the test set; its 646 reference signatures are not there.
EXPECTED = {"genuine": 887, "forged": 762}


def arrange(checkout: Path, out: Path) -> dict[str, int]:
    """Copy the images, and return how many are genuine and forged."""
    source = checkout / SOURCE
    if not source.is_dir():
        sys.exit(f"{source} is not a folder. Expected a clone of the repository that --help names.")
    if out.exists():
        sys.exit(f"{out} exists. Remove it, or name another folder.")
    counts = dict.fromkeys(EXPECTED, 0)
    for folder in sorted(source.iterdir()):
        name = FOLDER.fullmatch(folder.name)
        if name is None or int(name[1]) > LAST_WRITER:
            continue
        kind = "forged" if name[2] else "genuine"
        target = out / "Dutch" / name[1] / kind
        target.mkdir(parents=True)
        for image in sorted(folder.glob("*.png")):
            shutil.copyfile(image, target / image.name)
            counts[kind] += 1
    return counts


def main() -> None:
    """Arrange the images, and say how many there are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="clone of the repository")
    parser.add_argument("out", type=Path, help="new folder for the images")
    given = parser.parse_args()
    counts = arrange(given.checkout, given.out)
    print(f"{given.out}: {counts['genuine']} genuine and {counts['forged']} forged signatures.")
    if counts != EXPECTED:
        sys.exit(f"Expected {EXPECTED['genuine']} and {EXPECTED['forged']}: the repository has changed.")


if __name__ == "__main__":
    main()
