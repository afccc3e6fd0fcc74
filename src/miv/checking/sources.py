"""Read the answer and the sources of a check: texts, or files of plain text or Markdown."""

import re
import sys
import warnings
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, cast

from miv.checking.results import Source
from miv.checking.sentences import Sentence, split_sentences
from miv.errors import MIVError, MIVWarning
from miv.files.instances import is_folder, read_long_text, short

MARKDOWN = (".md", ".markdown")
PLAIN = (".txt", ".text", ".rst", ".log")
_NOT_PLAIN = (
    *(".doc", ".docx", ".epub", ".ipynb", ".odp", ".ods", ".odt", ".pdf", ".ppt", ".pptx", ".rtf", ".xls", ".xlsx"),
    *(".csv", ".htm", ".html", ".json", ".jsonl", ".parquet", ".svg", ".tsv", ".xhtml", ".xml"),
)
"""Suffixes of documents whose files are not the text that a reader sees."""
MOST_BYTES = 20_000_000
MOST_SENTENCES = 100_000
"""Maximum number of source sentences."""
MOST_PAIRS = 100 * MOST_SENTENCES
"""Maximum number of checked sentences of an answer times source sentences."""

_NUMBERED = re.compile(r"source \d+")  # a text without a name

Text = str | PathLike[str]
Sources = Text | Iterable[Text] | Mapping[str, str]


def read_answer(answer: Text) -> list[Sentence]:
    """Split an answer, a text or a file, into sentences."""
    sentences = _split("" if isinstance(answer, str) else str(answer), answer, "The answer")
    if not sentences:
        where = "" if isinstance(answer, str) else f" {answer}"
        raise MIVError(f"The answer{where} has no sentence. Expected a text to check.")
    return sentences


def read_sources(sources: Sources) -> tuple[Source, ...]:
    """Split sources into sentences: one or several texts or files, or texts by name. Equal ones count once."""
    if isinstance(sources, Mapping):
        named: list[tuple[str, Text]] = [(str(name), text) for name, text in sources.items()]
    else:
        several: list[Text] = [sources] if isinstance(sources, str | PathLike) else list(sources)
        named = [
            (f"source {number}" if isinstance(text, str) else str(Path(text)), text)
            for number, text in enumerate(several, 1)
        ]
    if not named:
        raise MIVError("There are no sources. Expected at least one text or file to check against.")
    split = [Source(name, tuple(_split(name, text, "The source"))) for name, text in named]
    distinct = _distinct(split)
    total = sum(len(source.sentences) for source in distinct)
    if total > MOST_SENTENCES:
        raise MIVError(
            f"The sources have {total:,} sentences. Expected at most {MOST_SENTENCES:,}: give only the documents that "
            "were retrieved for this answer."
        )
    return distinct


def _split(name: str, text: Text, what: str) -> list[Sentence]:
    """Split a text or file by the rules of its name: Markdown for a Markdown file, and for a text without a name."""
    in_file = name.lower().endswith(MARKDOWN)
    is_markdown = in_file or (isinstance(text, str) and not name.lower().endswith(PLAIN))
    content = text.removeprefix("\ufeff") if isinstance(text, str) else _read_file(Path(text), what)
    return split_sentences(content, markdown=is_markdown, code=True, indented_code=in_file, front_matter=in_file)


def _read_file(path: Path, what: str) -> str:
    """Read a text file, with an error for anything else."""
    if is_folder(path):
        raise MIVError(
            f"{what} {path} is a folder. Expected a text or Markdown file: name its files, as in {path / '*.txt'}."
        )
    if path.suffix.lower() in _NOT_PLAIN:
        raise MIVError(
            f"{what} {path} ends in {path.suffix!r}. Expected plain text or Markdown ({', '.join(MARKDOWN)}); convert "
            "other documents first."
        )
    text = read_long_text(path, MOST_BYTES)
    begins = text[:20].lstrip().lower()
    if begins.startswith(("%pdf-", "{\\rtf", "<!doctype html", "<html")):
        raise MIVError(
            f"{what} {path} begins with {short(begins.split()[0])}. Expected plain text or Markdown; convert other "
            "documents first."
        )
    return text


def read_standard_input() -> str:
    """Read a text from standard input."""
    content = sys.stdin.buffer.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise MIVError(f"Standard input is longer than {MOST_BYTES:,} bytes. Expected one answer.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MIVError(f"Standard input is not UTF-8 text (byte {error.start}). Save the answer as UTF-8.") from error


def _called(name: str) -> str:
    return name.capitalize() if _NUMBERED.fullmatch(name) else f"The source {name}"


def _distinct(sources: list[Source]) -> tuple[Source, ...]:
    """The sources with a sentence, each once: duplicates do not count as additional evidence."""
    empty = [source.name for source in sources if not source.sentences]
    if len(empty) == len(sources):
        which = f"{_called(empty[0])} has" if len(empty) == 1 else f"The {len(empty):,} sources all have"
        raise MIVError(f"{which} no sentence. Expected a text with at least one.")
    notes = [f"{_called(name)} has no sentence; it was left out." for name in empty]
    first: dict[tuple[str, ...], Source] = {}
    for source in filter(lambda source: source.sentences, sources):
        earlier = first.setdefault(tuple(sentence.text for sentence in source.sentences), source)
        if earlier is not source:
            which = "was given twice" if earlier.name == source.name else f"has the same text as {earlier.name}"
            notes.append(f"{_called(source.name)} {which}; it is counted once.")
    for note in notes:
        warnings.warn(note, MIVWarning, stacklevel=4)
    return tuple(first.values())


_EXPECTED = "a text (str), or a pathlib.Path of a file"


def checked_answer_text(answer: Any) -> Text:
    """Return the answer if it is a text or a path, and not too large."""
    size = _checked_size(answer, "The answer")
    if size > MOST_BYTES:
        raise MIVError(f"The answer has {size:,} bytes. Expected at most {MOST_BYTES:,}: check it in parts.")
    return cast("Text", answer)


def checked_sources(sources: Any) -> Sources:
    """Return the sources if they are texts or paths and not too large together."""
    if isinstance(sources, str | PathLike):
        sources = [sources]
    elif not isinstance(sources, Iterable) or isinstance(sources, bytes | bytearray | memoryview):
        raise _refusal("The sources are", sources, f"{_EXPECTED}, a list of them, or a dict of texts by name")
    if isinstance(sources, Mapping):
        size = sum(_checked_size(text, f"The source {name}") for name, text in sources.items())
    else:
        sources = list(sources)
        size = sum(_checked_size(text, f"Source {number}") for number, text in enumerate(sources, start=1))
    if size > MOST_BYTES:
        raise MIVError(
            f"The sources have {size:,} bytes in total. Expected at most {MOST_BYTES:,}: give only the documents that "
            "were retrieved for this answer."
        )
    return cast("Sources", sources)


def _checked_size(text: Any, what: str) -> int:
    """Size in bytes of a text or file; an error for anything else, and for a text that is the name of a file."""
    if isinstance(text, PathLike):
        try:
            size = Path(text).stat().st_size
        except (OSError, ValueError):
            return 0  # reading it says what is wrong
        return size if size <= MOST_BYTES else 0  # reading it names the file
    if not isinstance(text, str):
        raise _refusal(f"{what} is", text, _EXPECTED)
    line = text.strip()
    if line.lower().endswith((*MARKDOWN, ".txt", ".text")) and len(line.splitlines()) == 1:
        raise MIVError(
            f"{what} is the text {short(line)}, which looks like the name of a file. Expected pathlib.Path(...) around "
            "the name of a file; end a text with a full stop."
        )
    return len(text.encode("utf-8", "surrogatepass"))


def _refusal(what: str, value: object, expected: str) -> MIVError:
    advice = " Decode bytes first, as in text.decode()." if isinstance(value, bytes | bytearray) else ""
    return MIVError(f"{what} {short(value)}, of type {type(value).__name__}. Expected {expected}.{advice}")
