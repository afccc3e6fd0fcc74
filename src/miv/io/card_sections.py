"""Sections of a model card, README.md, that are written anew without touching the rest."""

from pathlib import Path

from miv.io.whole_files import whole_file


def write_section(folder: Path, begin: str, end: str, text: str) -> None:
    """Write a section between two marks to the card of a verifier, replacing that of an earlier call.

    Args:
        folder: folder of the verifier; the rest of its README.md is unchanged.
        begin: comment that begins the section.
        end: comment that ends it.
        text: the section; "" removes it.
    """
    path = folder / "README.md"
    card = path.read_text(encoding="utf-8") if path.is_file() else ""
    before, found, rest = card.partition(begin)
    if not found and not text:
        return
    after = rest.partition(end)[2] if found else ""
    section = f"{begin}\n{text}\n{end}" if text else ""
    whole = f"{before.rstrip()}\n\n{section}{after or chr(10)}" if text else f"{before.rstrip()}\n{after}"
    with whole_file(path) as temporary:
        temporary.write_text(whole.lstrip(), encoding="utf-8")
