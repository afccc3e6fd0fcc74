"""FEVER: do sentences of Wikipedia support the claim? Paper, sections 2.1 and A.3."""

import io
import logging
import re
import unicodedata
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from miv.data import ExemplarSet
from miv.errors import MIVError, unknown_name
from miv.files.tables import bad_line, checked_text, parse_object, read_json_lines, text_field
from miv.runtime import Progress
from miv.tasks.base import check_whole, register_task
from miv.tasks.claims import ClaimBag, Claims, ClaimSentence, claim_exemplars

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


# The wiki dump: one streaming pass that keeps only the requested pages.
#
# A line of the dump is a page, {"id": "Title", "text": "...", "lines": "0\tFirst sentence.\tlink\n1\t..."}. There are
# 5.4 million of them and a build needs a few thousand, so the title is cut out of the raw bytes, and only requested
# pages are parsed.

Page = dict[int, str]
"""The non-empty sentences of a page by their number in it."""

_BLOCK = 1 << 22
_LONGEST_LINE = 1 << 26  # more than 100 times the longest page of the dump
_START = b'{"id": "'
_SENTENCE = re.compile(r"([0-9]{1,9})\t([^\t]*)")
_BRACKETS = {
    f"-{code}-": mark for code, mark in zip(["LRB", "RRB", "LSB", "RSB", "LCB", "RCB", "COLON"], "()[]{}:", strict=True)
}
_BRACKET = re.compile("|".join(_BRACKETS))

logger = logging.getLogger(__name__)


def normal_title(title: str) -> str:
    """One spelling for titles that look the same: claims and dump write accents in different Unicode forms."""
    return unicodedata.normalize("NFC", title)


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
    wanted: dict[bytes, list[str]] = {}
    for title in titles:
        wanted.setdefault(normal_title(title).encode("utf-8", "surrogatepass"), []).append(title)
    pages: dict[str, Page] = {}
    parts = _parts(dump)
    with progress.step("Reading wiki pages (files)", total=len(parts)) as advance:
        for name, open_part in parts:
            try:
                with open_part() as raw, io.BufferedReader(raw, _BLOCK) as stream:
                    for line, page, sentences in _wanted_pages(name, stream, wanted):
                        if sentences and wanted[page][0] in pages:
                            logger.warning(
                                "%s, line %d: a second page %s; the first is kept.", name, line, page.decode()
                            )
                        elif sentences:
                            pages |= dict.fromkeys(wanted[page], sentences)
            except RuntimeError as error:  # encrypted, or an unsupported compression
                raise MIVError(f"{name} cannot be unpacked: {error}. Unpack it with another tool.") from error
            except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
                raise MIVError(f"{name} cannot be read: {error}. Download it again.") from error
            advance(1)
    return pages


def _parts(dump: Path) -> list[tuple[str, Callable[[], Any]]]:
    """The files of the dump in their order: a name, and what opens it."""
    parts: list[tuple[str, Callable[[], Any]]]
    if dump.is_dir():
        parts = [(str(path), partial(path.open, "rb")) for path in sorted(dump.glob("wiki-*.jsonl")) if path.is_file()]
    elif dump.is_file():
        try:
            archive = zipfile.ZipFile(dump)
        except (zipfile.BadZipFile, OSError) as error:
            raise MIVError(f"{dump} is not a readable zip archive ({error}). Download it again.") from error
        members = [name for name in sorted(archive.namelist()) if re.search(r"(^|/)wiki-[^/]*\.jsonl$", name)]
        parts = [(f"{dump}/{name}", partial(archive.open, name)) for name in members]
    else:
        raise MIVError(f"There is no wiki dump at {dump}: expected wiki-pages.zip or a folder of wiki-*.jsonl.")
    if not parts:
        raise MIVError(f"{dump} holds no wiki-*.jsonl. Expected the pages of FEVER's wiki-pages.zip.")
    return parts


def _wanted_pages(name: str, stream: IO[bytes], wanted: Collection[bytes]) -> Iterator[tuple[int, bytes, Page]]:
    """Yield the requested pages of one file: line number, title, sentences."""
    for line, content in enumerate(iter(lambda: stream.readline(_LONGEST_LINE), b""), start=1):
        if len(content) == _LONGEST_LINE:
            raise bad_line(name, line, f"the line has {_LONGEST_LINE:,} bytes or more; not a dump.")
        text = content.rstrip(b"\n")
        if not text.strip():
            continue
        # A title without escapes is cut out of a line in the dump's layout. Any other line is parsed, which also
        # detects truncated and wrong files.
        title = text[len(_START) : text.find(b'"', len(_START))]
        if not (text.startswith(_START) and text.endswith(b"}")) or b"\\" in title:
            title_text = parse_object(text, name, line).get("id")
            if not isinstance(title_text, str):
                raise bad_line(name, line, "the page has no title: expected a text in the field 'id'.")
            title = title_text.encode("utf-8", "surrogatepass")
        if not title.isascii():
            title = normal_title(title.decode("utf-8", "replace")).encode()
        if title in wanted:
            sentences = parse_object(text, name, line).get("lines")
            if not isinstance(sentences, str):
                raise bad_line(name, line, "the page has no field 'lines' with its sentences.")
            if sentences.strip():
                checked_text(sentences, "the field 'lines'", name, line)
            yield line, title, parse_sentences(sentences)


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
        raw = Path(self.raw)
        dump = _find_dump(raw)
        claims = {split: read_claims(raw / name) for split, name in _FILES.items()}
        titles = {page for rows in claims.values() for claim in rows for page in claim.evidence}
        pages = read_pages(dump, titles, progress)
        claims = {split: _with_evidence(split, rows, pages) for split, rows in claims.items()}
        claims["train"] = self._draw_train(claims["train"])
        for split, rows in claims.items():
            if not rows:
                raise MIVError(f"{raw / _FILES[split]}: no claim has its pages in {dump}. Check that they match.")
        return {split: claim_exemplars(self._bags(split, rows, pages)) for split, rows in claims.items()}

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

    def _bags(self, split: str, claims: list[FeverClaim], pages: dict[str, Page]) -> Iterator[ClaimBag]:
        """Yield the bags, then log how many were truncated."""
        counts: Counter[str] = Counter()
        for claim in claims:
            sentences = [
                ClaimSentence((page, number), text, page, number in numbers)
                for page, numbers in claim.evidence.items()
                for number, text in pages.get(page, {}).items()
            ]
            bag = self._truncated(sentences)
            counts["are truncated"] += len(bag) < len(sentences)
            yield ClaimBag(claim.text, next(iter(claim.evidence)), claim.supported, bag)
        _report(split, len(claims), counts)

    def _truncated(self, sentences: list[ClaimSentence]) -> list[ClaimSentence]:
        """At most ``max_bag`` sentences, in their order."""
        if len(sentences) <= self.max_bag:
            return sentences
        evidence_first = sorted(range(len(sentences)), key=lambda place: not sentences[place].is_evidence)
        return [sentences[place] for place in sorted(evidence_first[: self.max_bag])]


def _with_evidence(split: str, claims: list[FeverClaim], pages: dict[str, Page]) -> list[FeverClaim]:
    """The claims with some evidence in the dump; logs how many have none."""
    complete = []
    counts: Counter[str] = Counter()
    for claim in claims:
        counts["name a page that is missing from the dump"] += any(page not in pages for page in claim.evidence)
        if any(not numbers.isdisjoint(pages.get(page, ())) for page, numbers in claim.evidence.items()):
            complete.append(claim)
    counts["are left out because none of their evidence is in the dump"] = len(claims) - len(complete)
    _report(split, len(claims), counts)
    return complete


def _report(split: str, claims: int, counts: Counter[str]) -> None:
    for what, count in counts.items():
        if count:
            logger.warning("%s: of %d claims %d %s.", split, claims, count, what)


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
