"""FEVER: do sentences of Wikipedia support the claim? Paper, sections 2.1 and A.3."""

import logging
import re
import unicodedata
import zipfile
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from miv.data import ExemplarSet
from miv.errors import MIVError, unknown_name
from miv.files.tables import bad_line, checked_text, read_json_lines, text_field
from miv.runtime import Progress
from miv.tasks.base import check_whole, register_task
from miv.tasks.claims import ClaimBag, Claims, ClaimSentence, claim_exemplars

_LABELS = {"SUPPORTS": True, "REFUTES": False, "NOT ENOUGH INFO": None}


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
        if label not in _LABELS:
            raise bad_line(path, line, str(unknown_name("label", label, _LABELS)))
        if (supported := _LABELS[label]) is not None:
            claim = text_field(row, "claim", path, line)
            claims.append(FeverClaim(claim, supported, _evidence(row.get("evidence"), path, line)))
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


# The wiki dump: one streaming pass that keeps only the requested pages. A line of it is a page,
# {"id": "Title", "text": "...", "lines": "0\tFirst sentence.\tlink\n1\t..."}.

Page = dict[int, str]
"""The non-empty sentences of a page by their number in it."""

_SENTENCE = re.compile(r"([0-9]{1,9})\t([^\t]*)")
_BRACKETS = {
    f"-{code}-": mark for code, mark in zip(["LRB", "RRB", "LSB", "RSB", "LCB", "RCB", "COLON"], "()[]{}:", strict=True)
}
_BRACKET = re.compile("|".join(_BRACKETS))

logger = logging.getLogger(__name__)


def parse_sentences(lines: str) -> Page:
    r"""Read the field ``lines`` of a page: number, tab, sentence, then links, which are ignored.

    >>> parse_sentences("0\tSnow -LRB- white -RRB- falls .\tSnow\n1\t\n2\tIt melts .")
    {0: 'Snow ( white ) falls .', 2: 'It melts .'}

    A row without a number is the rest of a sentence with a line break; it is skipped, as in the paper.
    """
    rows = filter(None, map(_SENTENCE.match, lines.split("\n")))
    sentences = ((int(row[1]), _BRACKET.sub(lambda code: _BRACKETS[code[0]], row[2]).strip()) for row in rows)
    return {number: sentence for number, sentence in sentences if sentence}


def read_pages(dump: Path, titles: Collection[str], progress: Progress) -> dict[str, Page]:
    """Read the pages with these titles in one pass over the dump, a folder of ``wiki-*.jsonl`` or a zip archive."""
    wanted: dict[str, list[str]] = {}
    for title in titles:
        wanted.setdefault(_normal_title(title), []).append(title)
    pages: dict[str, Page] = {}
    parts = _parts(dump)
    with progress.step("Reading wiki pages (files)", total=len(parts)) as advance:
        for part in parts:
            try:
                for line, page in read_json_lines(part):
                    name, lines = page.get("id"), page.get("lines")
                    if not isinstance(name, str) or not isinstance(lines, str):
                        raise bad_line(part, line, "not a page: expected texts in the fields 'id' and 'lines'.")
                    names = wanted.get(_normal_title(name), []) if lines.strip() else []
                    sentences = parse_sentences(checked_text(lines, "'lines'", part, line)) if names else {}
                    if sentences and names[0] in pages:
                        logger.warning("%s, line %d: a second page %s; the first is kept.", part, line, name)
                    elif sentences:
                        pages |= dict.fromkeys(names, sentences)
            except (RuntimeError, EOFError, zipfile.BadZipFile, zlib.error) as error:  # encrypted, or damaged
                raise MIVError(f"{part} cannot be unpacked: {error}. Download it again.") from error
            advance(1)
    return pages


def _normal_title(title: str) -> str:
    """One spelling for titles that look the same: claims and dump write accents in different Unicode forms."""
    return unicodedata.normalize("NFC", title)


def _parts(dump: Path) -> list[Any]:
    """The files of the dump in their order: paths, in a folder or in an archive."""
    if dump.is_dir():
        parts: list[Any] = sorted(path for path in dump.glob("wiki-*.jsonl") if path.is_file())
    elif dump.is_file():
        try:
            archive = zipfile.ZipFile(dump)
        except (zipfile.BadZipFile, OSError) as error:
            raise MIVError(f"{dump} is not a readable zip archive ({error}). Download it again.") from error
        names = sorted(name for name in archive.namelist() if re.search(r"(^|/)wiki-[^/]*\.jsonl$", name))
        parts = [zipfile.Path(archive, name) for name in names]
    else:
        raise MIVError(f"There is no wiki dump at {dump}: expected wiki-pages.zip or a folder of wiki-*.jsonl.")
    if not parts:
        raise MIVError(f"{dump} holds no wiki-*.jsonl. Expected the pages of FEVER's wiki-pages.zip.")
    return parts


# The task.

_FILES = {"train": "train.jsonl", "validation": "paper_dev.jsonl", "test": "paper_test.jsonl"}
_SITE = "https://fever.ai/download/fever/"


@register_task("fever")
@dataclass(frozen=True)
class Fever:
    """Claims and wiki sentences: does a sentence support the claim?

    Args:
        raw: folder with train.jsonl, paper_dev.jsonl, paper_test.jsonl and the dump: wiki-pages.zip, or its
            unpacked folder wiki-pages.
        train_per_label: number of train claims per label and round; 0 for all.
        max_bag: maximum number of sentences per bag; a longer bag keeps the evidence, so that a label stays true,
            and other sentences in page order.
        round: index of the random draw of train claims; validation and test are always complete.
        seed: random seed.
    """

    raw: Path = Path("data/fever")
    train_per_label: int = 16_500
    max_bag: int = 47
    round: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        check_whole(0, train_per_label=self.train_per_label, round=self.round, seed=self.seed)
        check_whole(1, max_bag=self.max_bag)

    def build(self, progress: Progress) -> dict[str, ExemplarSet]:
        """Read claims and pages and build the sets ``train``, ``validation`` and ``test``."""
        raw = self.raw
        dump = _find_dump(raw)
        claims = {split: read_claims(raw / name) for split, name in _FILES.items()}
        titles = {page for rows in claims.values() for claim in rows for page in claim.evidence}
        pages = read_pages(dump, titles, progress)
        claims = {split: _with_evidence(split, rows, pages) for split, rows in claims.items()}
        claims["train"] = self._draw_train(claims["train"])
        for split, rows in claims.items():
            if not rows:
                raise MIVError(f"{raw / _FILES[split]}: no claim has its pages in {dump}. Check that they match.")
        return {split: claim_exemplars(self._bags(rows, pages)) for split, rows in claims.items()}

    def _draw_train(self, claims: list[FeverClaim]) -> list[FeverClaim]:
        """Draw ``train_per_label`` claims of each label, in random order."""
        rng = np.random.default_rng([self.seed, self.round, 0])
        chosen: list[int] = []
        for supported in (True, False):
            rows = [row for row, claim in enumerate(claims) if claim.supported == supported]
            count = self.train_per_label or len(rows)
            if count > len(rows):
                raise MIVError(f"train_per_label is {count}, but there are {len(rows)} claims. Use 0 for all.")
            chosen += rng.permutation(rows)[:count].tolist()
        return [claims[row] for row in rng.permutation(chosen)]

    def _bags(self, claims: list[FeverClaim], pages: dict[str, Page]) -> Iterator[ClaimBag]:
        for claim in claims:
            sentences = [
                ClaimSentence((page, number), text, page, number in numbers)
                for page, numbers in claim.evidence.items()
                for number, text in pages.get(page, {}).items()
            ]
            evidence_first = sorted(range(len(sentences)), key=lambda place: not sentences[place].is_evidence)
            bag = [sentences[place] for place in sorted(evidence_first[: self.max_bag])]
            yield ClaimBag(claim.text, next(iter(claim.evidence)), claim.supported, bag)


def _with_evidence(split: str, claims: list[FeverClaim], pages: dict[str, Page]) -> list[FeverClaim]:
    """The claims with some evidence in the dump; logs how many have none."""
    complete = [
        claim
        for claim in claims
        if any(not numbers.isdisjoint(pages.get(page, ())) for page, numbers in claim.evidence.items())
    ]
    missing = sum(any(page not in pages for page in claim.evidence) for claim in claims)
    _report(split, claims, missing, "name a page that is missing from the dump")
    without = len(claims) - len(complete)
    _report(split, claims, without, "are left out because none of their evidence is in the dump")
    return complete


def _report(split: str, claims: list[FeverClaim], count: int, what: str) -> None:
    if count:
        logger.warning("%s: of %d claims %d %s.", split, len(claims), count, what)


def _find_dump(raw: Path) -> Path:
    """The dump in the raw folder; the error says what is missing and where to get it."""
    names = [name for name in _FILES.values() if not (raw / name).is_file()]
    dump = next((path for path in (raw / "wiki-pages", raw / "wiki-pages.zip") if path.exists()), None)
    if names or dump is None:
        missing = names if dump else [*names, "wiki-pages.zip"]
        lines = [f"  {name} from {_SITE}{name}" for name in missing]
        raise MIVError("\n".join([f"Missing in {raw.absolute()} (put them there):", *lines]))
    return dump


@register_task("fever-dev")
@dataclass(frozen=True)
class FeverDev:
    """Claims of FEVER's development set with given splits and distractors.

    Args:
        raw: folder with train.jsonl, validation.jsonl and test.jsonl, in the form of Fool Me Twice without pages.
        round: index of the round; the splits are given, so every round has the same sets.
        seed: random seed; not used either.
    """

    raw: Path = Path("data/fever-dev")
    round: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        check_whole(0, round=self.round, seed=self.seed)

    def build(self, progress: Progress) -> dict[str, ExemplarSet]:
        """Read the files and build the sets ``train``, ``validation`` and ``test``."""
        return Claims(self.raw, validation_file="validation.jsonl", page_field="").build(progress)
