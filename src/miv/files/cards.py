"""The model card, README.md: its sentence on what the verifier decides, and sections that are written anew."""

from itertools import takewhile
from pathlib import Path

from miv.errors import MIVError
from miv.files.atomic import whole_file


def card_about(folder: Path) -> str | None:
    """What a verifier decides, in a sentence: the line ``about:`` in the front matter of its card, if there is one."""
    lines = _read(folder / "README.md").splitlines()
    if lines[:1] != ["---"]:
        return None
    front = takewhile(lambda line: line != "---", lines[1:])
    found = [line.removeprefix("about:").strip().strip("'\"") for line in front if line.startswith("about:")]
    return found[0] or None if found else None


def check_section(folder: Path, begin: str, end: str) -> None:
    """Raise an error if ``write_section`` could not write this section; call it before long work."""
    _around(folder / "README.md", begin, end)


def write_section(folder: Path, begin: str, end: str, text: str) -> None:
    """Write a section between two marks to the card of a verifier, replacing that of an earlier call.

    Args:
        folder: folder of the verifier; the rest of its README.md is unchanged.
        begin: comment that begins the section.
        end: comment that ends it.
        text: the section; "" removes it.
    """
    path = folder / "README.md"
    before, found, after = _around(path, begin, end)
    if not found and not text:
        return
    section = f"{begin}\n{text}\n{end}" if text else ""
    whole = f"{before.rstrip()}\n\n{section}{after or chr(10)}" if text else f"{before.rstrip()}\n{after}"
    with whole_file(path) as temporary:
        temporary.write_text(whole.lstrip(), encoding="utf-8")


def _around(path: Path, begin: str, end: str) -> tuple[str, bool, str]:
    """The text before the section, whether there is one, and the text after it."""
    before, found, rest = _read(path).partition(begin)
    _, closed, after = rest.partition(end)
    if found and not closed:
        raise MIVError(
            f"{path} has {begin}, but after it there is no {end}, so it is unknown which text may be replaced. Add "
            "that line after the section, or delete the first one."
        )
    return before, bool(found), after


def _read(path: Path) -> str:
    """The card; empty if there is none."""
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else ""
    except OSError as error:
        raise MIVError(f"Could not read {path}: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise MIVError(f"{path} is not UTF-8: {error}. Save it as UTF-8, or move it away.") from error


# Names in the folder of a run, for modules that must not wait for torch.

RUN_NAME = "run.json"
VERIFIER_NAME = "verifier"
