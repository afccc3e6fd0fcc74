"""Folders of signature images: those of SigComp2011, and any ``writer/genuine|forged``."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from miv.errors import MIVError
from miv.io.image_files import IMAGE_SUFFIXES

_SCRIPTS = ("dutch", "chinese")
_GENUINE = {"genuine", "original", "originals", "real"}
_FORGED = {"forged", "forgery", "forgeries", "fake", "simulated"}
# Two numbers: one of the signature, and the writer's three digits, after the forger's where it is forged.
_NAME = re.compile(r"(\d+)[_-](\d+)")


@dataclass(frozen=True)
class SignatureFile:
    """An image of a signature: the script, whose name it is, and whether somebody else wrote it."""

    path: Path
    script: str
    writer: str
    forged: bool


def find_signatures(folder: Path) -> list[SignatureFile]:
    """Find the signatures below a folder, in the order of their paths.

    Two layouts are supported, ignoring case and any folders above:

    - SigComp2011, offline, as its archives unpack: a folder of the path has ``Dutch`` or ``Chinese`` in its
      name, and below it are ``Offline Genuine`` and ``Offline Forgeries`` (files ``001_02.PNG``: writer,
      number; ``0102001_03.png``: forger, writer, number), ``Reference(646)`` or ``Ref(115)``, and
      ``Questioned(1287)`` or ``Questioned(487)`` with a folder for each writer (``02_001.PNG``,
      ``03_0102001.PNG``: the number comes first).
    - ``writer/genuine`` and ``writer/forged``, with any file names; a folder above the writers, if there is
      one, is the script.
    """
    if not folder.is_dir():
        raise MIVError(
            f"{folder} is not a folder. Expected the unpacked archives of SigComp2011 (iapr-tc11.org gives "
            "them to those who accept its disclaimer), or folders writer/genuine and writer/forged."
        )
    found = [_understand(path, folder) for path in sorted(_images(folder))]
    if not found:
        raise MIVError(f"{folder} contains no images. Expected PNG or other image files.")
    have_genuine = {(file.script, file.writer) for file in found if not file.forged}
    for file in found:
        if (file.script, file.writer) not in have_genuine:
            raise MIVError(
                f"{file.path}: a forgery of writer {file.writer!r}, who has no genuine signature. "
                "Add genuine ones, or remove the writer."
            )
    return found


def _images(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        hidden = any(part.startswith((".", "__MACOSX")) for part in path.relative_to(folder).parts)
        if path.suffix.lower() in IMAGE_SUFFIXES and not hidden and path.is_file():
            yield path


def _understand(path: Path, folder: Path) -> SignatureFile:
    parents = [part.lower() for part in path.relative_to(folder).parts[:-1]]
    if parents and parents[-1] in _GENUINE | _FORGED:
        if len(parents) < 2:
            raise MIVError(f"{path}: there is no writer folder above. Expected writer/{parents[-1]}/{path.name}.")
        writer = path.parent.parent.name
        return SignatureFile(path, "/".join(parents[:-2]), writer, forged=parents[-1] in _FORGED)
    return _understand_sigcomp(path, [part.lower() for part in folder.resolve().parts] + parents)


def _understand_sigcomp(path: Path, parents: list[str]) -> SignatureFile:
    script = next((script for part in reversed(parents) for script in _SCRIPTS if script in part), None)
    name = _NAME.fullmatch(path.stem.replace(" ", ""))
    if script is None or name is None:
        raise MIVError(
            f"{path}: neither in a folder 'genuine' or 'forged' of a writer, nor named as in SigComp2011 "
            "(such as 'Dutch/.../001_02.PNG' or 'Chinese/.../03_0102001.PNG'). Rename or remove it."
        )
    first, second = name.groups()
    # The writer's number is the longer one; of equals, the second in the folder of a writer.
    in_writers_folder = re.fullmatch(r"\d{3}", parents[-1]) is not None
    identity = max(second, first, key=len) if in_writers_folder else max(first, second, key=len)
    if len(identity) < 3:
        raise MIVError(f"{path}: expected the three digits of the writer, got {identity!r}. Rename it.")
    forged = len(identity) > 3
    above = " ".join(parents[-2:])
    if (forged and re.search(r"genuine|\bref", above)) or (not forged and "forger" in above):
        said = "forged" if forged else "genuine"
        raise MIVError(f"{path}: its name says it is a {said} signature, but its folder does not. Move or remove it.")
    return SignatureFile(path, script, identity[-3:], forged)
