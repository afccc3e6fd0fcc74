r"""The wiki dump of FEVER: one streaming pass that keeps only the requested pages.

A line of the dump is a page, ``{"id": "Title", "text": "...", "lines": "0\tFirst sentence.\tlink\n1\t..."}``.
There are 5.4 million of them and a build needs a few thousand, so the title is cut out of the raw bytes, and
only requested pages are parsed.
"""

import io
import logging
import re
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any

from miv.errors import MIVError
from miv.files.tables import bad_line, checked_text, parse_object
from miv.runtime import Progress

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


def read_pages(dump: Path, titles: Collection[str], progress: Progress, *, normalise: bool = True) -> dict[str, Page]:
    """Read the pages with these titles in one pass over the dump, a folder of ``wiki-*.jsonl`` or a zip archive."""
    spell = normal_title if normalise else str
    wanted: dict[bytes, list[str]] = {}
    for title in titles:
        wanted.setdefault(spell(title).encode("utf-8", "surrogatepass"), []).append(title)
    pages: dict[str, Page] = {}
    parts = _parts(dump)
    with progress.step("Reading wiki pages (files)", total=len(parts)) as advance:
        for name, open_part in parts:
            try:
                with open_part() as raw, io.BufferedReader(raw, _BLOCK) as stream:
                    for line, page, sentences in _wanted_pages(name, stream, wanted, normalise):
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


def _wanted_pages(
    name: str, stream: IO[bytes], wanted: Collection[bytes], normalise: bool
) -> Iterator[tuple[int, bytes, Page]]:
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
        if normalise and not title.isascii():
            title = normal_title(title.decode("utf-8", "replace")).encode()
        if title in wanted:
            sentences = parse_object(text, name, line).get("lines")
            if not isinstance(sentences, str):
                raise bad_line(name, line, "the page has no field 'lines' with its sentences.")
            if sentences.strip():
                checked_text(sentences, "the field 'lines'", name, line)
            yield line, title, parse_sentences(sentences)
