"""The claims files of FEVER: claims, labels, and the wiki sentences that decide them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from miv.errors import unknown_name
from miv.io.json_lines import bad_line, checked_text, read_json_lines, text_field

SUPPORTS, REFUTES, UNDECIDED = "SUPPORTS", "REFUTES", "NOT ENOUGH INFO"


@dataclass(frozen=True)
class FeverClaim:
    """A claim that is supported or refuted; ``evidence`` has the sentence numbers of each page, in order."""

    text: str
    supported: bool
    evidence: dict[str, set[int]]


def read_claims(path: Path) -> list[FeverClaim]:
    """Read a claims file; claims labelled NOT ENOUGH INFO have no evidence and are left out."""
    claims = []
    for line, row in read_json_lines(path):
        label = text_field(row, "label", path, line)
        if label == UNDECIDED:
            continue
        if label not in (SUPPORTS, REFUTES):
            raise bad_line(path, line, str(unknown_name("label", label, [SUPPORTS, REFUTES, UNDECIDED])))
        claim = text_field(row, "claim", path, line)
        claims.append(FeverClaim(claim, label == SUPPORTS, _evidence(row.get("evidence"), path, line)))
    return claims


def _evidence(groups: Any, path: Path, line: int) -> dict[str, set[int]]:
    """Convert groups of ``[annotation, evidence, page, sentence]`` to the sentence numbers of each page."""
    evidence: dict[str, set[int]] = {}
    try:
        named = [(entry[2], entry[3]) for group in groups for entry in group]
    except (TypeError, LookupError) as error:
        problem = "'evidence' must be lists of [annotation, evidence, page, sentence]."
        raise bad_line(path, line, problem) from error
    for page, sentence in named:
        title = checked_text(page, "a page in 'evidence'", path, line)
        if isinstance(sentence, bool) or not isinstance(sentence, int):
            raise bad_line(path, line, f"a sentence in 'evidence' must be a number, got {str(sentence)[:60]!r}.")
        evidence.setdefault(title, set()).add(sentence)
    return evidence
