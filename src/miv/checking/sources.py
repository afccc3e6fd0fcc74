"""Read the answer and the sources of a check: texts, or files of plain text or Markdown."""

import re
import sys
import warnings
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from miv.checking.results import Source
from miv.checking.sentences import Sentence, split_sentences
from miv.errors import MIVError, MIVWarning
from miv.files.instances import is_folder, read_long_text, short

MARKDOWN = (".md", ".markdown")
PLAIN = (".txt", ".text", ".rst", ".log")
NOT_PLAIN = (
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


def read_answer(given: Text) -> list[Sentence]:
    """Split an answer, a text or a file, into sentences."""
    text = _text(given, "The answer")
    sentences = _split(text, "" if isinstance(given, str) else str(given), is_file=not isinstance(given, str))
    if not sentences:
        where = "" if isinstance(given, str) else f" {given}"
        raise MIVError(f"The answer{where} has no sentence. Expected a text to check.")
    return sentences


def read_sources(given: Sources) -> tuple[Source, ...]:
    """Split sources into sentences: one or several texts or files, or texts by name. Equal ones count once."""
    if isinstance(given, Mapping):
        named = [(str(name), text) for name, text in given.items()]
    else:
        several: list[Text] = [given] if isinstance(given, str | PathLike) else list(given)
        named = [
            (f"source {number}" if isinstance(one, str) else str(Path(one)), one)
            for number, one in enumerate(several, 1)
        ]
    if not named:
        raise MIVError("There are no sources. Expected at least one text or file to check against.")
    found = _without_repeats(_without_empty([_source(name, text) for name, text in named]))
    total = sum(len(source.sentences) for source in found)
    if total > MOST_SENTENCES:
        raise MIVError(
            f"The sources have {total:,} sentences. Expected at most {MOST_SENTENCES:,}: give only the documents that "
            "were retrieved for this answer."
        )
    return found


def read_file(path: Path, what: str = "The source") -> str:
    """Read a text file, with an error for anything else."""
    if is_folder(path):
        raise MIVError(
            f"{what} {path} is a folder. Expected a text or Markdown file: name its files, as in {path / '*.txt'}."
        )
    if path.suffix.lower() in NOT_PLAIN:
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


def _source(name: str, given: Text) -> Source:
    text = _text(given, "The source")
    return Source(name, tuple(_split(text, name, is_file=not isinstance(given, str))))


def _split(text: str, name: str, *, is_file: bool) -> list[Sentence]:
    """Split a text by the rules of its name: Markdown for a Markdown file, and for a text without another name."""
    in_file = name.lower().endswith(MARKDOWN)
    is_markdown = in_file or not (is_file or name.lower().endswith(PLAIN))
    return split_sentences(text, markdown=is_markdown, code=True, indented_code=in_file, front_matter=in_file)


def _called(name: str) -> str:
    return name.capitalize() if _NUMBERED.fullmatch(name) else f"The source {name}"


def _without_empty(sources: list[Source]) -> list[Source]:
    """The sources that have a sentence; at least one must."""
    empty = [source.name for source in sources if not source.sentences]
    if len(empty) == len(sources):
        which = f"{_called(empty[0])} has" if len(empty) == 1 else f"The {len(empty):,} sources all have"
        raise MIVError(f"{which} no sentence. Expected a text with at least one.")
    for name in empty:
        warnings.warn(f"{_called(name)} has no sentence; it was left out.", MIVWarning, stacklevel=4)
    return [source for source in sources if source.sentences]


def _without_repeats(sources: list[Source]) -> tuple[Source, ...]:
    """The sources without those that say the same as an earlier one: they are no second evidence."""
    first: dict[tuple[str, ...], Source] = {}
    for source in sources:
        earlier = first.setdefault(tuple(one.text for one in source.sentences), source)
        if earlier is not source:
            which = "was given twice" if earlier.name == source.name else f"has the same text as {earlier.name}"
            warnings.warn(f"{_called(source.name)} {which}; it is counted once.", MIVWarning, stacklevel=4)
    return tuple(first.values())


def _text(given: Text, what: str) -> str:
    if not isinstance(given, str):
        return read_file(Path(given), what)
    return given.removeprefix("\ufeff")


_FILE = "a text (str), or a pathlib.Path of a file"


def checked_answer_text(given: Any) -> Text:
    """The answer, if it is a text or a path, and not too large."""
    if isinstance(given, str | PathLike):
        _refuse_file_name(given, "The answer")
        if _size(given) > MOST_BYTES:
            raise MIVError(
                f"The answer has {_size(given):,} bytes. Expected at most {MOST_BYTES:,}: check it in parts."
            )
        return given
    raise MIVError(f"The answer is {short(given)}, of type {type(given).__name__}. Expected {_FILE}.{_advice(given)}")


def checked_sources(given: Any) -> Sources:
    """The sources, if they are texts or paths and not too large together."""
    if isinstance(given, str | PathLike):
        several: Sources = [given]
    elif isinstance(given, Mapping):
        several = given
    elif isinstance(given, Iterable) and not isinstance(given, bytes | bytearray | memoryview):
        several = list(given)
    else:
        raise MIVError(
            f"The sources are {short(given)}, of type {type(given).__name__}. Expected {_FILE}, a list of them, or a "
            f"dict of texts by name.{_advice(given)}"
        )
    size = 0
    for number, (name, one) in enumerate(_named(several), start=1):
        which = f"The source {name}" if isinstance(several, Mapping) else f"Source {number}"
        if not isinstance(one, str | PathLike):
            raise MIVError(f"{which} is {short(one)}, of type {type(one).__name__}. Expected {_FILE}.{_advice(one)}")
        _refuse_file_name(one, which)
        size += _size(one)
    if size > MOST_BYTES:
        raise MIVError(
            f"The sources have {size:,} bytes in total. Expected at most {MOST_BYTES:,}: give only the documents that "
            "were retrieved for this answer."
        )
    return several


def _named(given: Any) -> Iterable[tuple[Any, Any]]:
    return given.items() if isinstance(given, Mapping) else ((None, one) for one in given)


def _advice(given: Any) -> str:
    return " Decode bytes first, as in given.decode()." if isinstance(given, bytes | bytearray) else ""


def _refuse_file_name(given: Text, what: str) -> None:
    line = given.strip() if isinstance(given, str) else ""
    if line.lower().endswith((*MARKDOWN, ".txt", ".text")) and len(line.splitlines()) == 1:
        raise MIVError(
            f"{what} is the text {short(line)}, which looks like the name of a file. Expected pathlib.Path(...) around "
            "the name of a file; end a text with a full stop."
        )


def _size(given: Text) -> int:
    if isinstance(given, str):
        return len(given.encode("utf-8", "surrogatepass"))
    try:
        size = Path(given).stat().st_size
    except (OSError, ValueError):
        return 0  # reading it says what is wrong
    return size if size <= MOST_BYTES else 0  # reading it names the file
