"""Read the answer and the sources of a check: texts, or files of plain text or Markdown."""

import sys
import warnings
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from miv.checking.results import Source
from miv.checking.sentences import Sentence, split_sentences
from miv.errors import MIVError, MIVWarning
from miv.files.instances import read_long_text, short

MARKDOWN = (".md", ".markdown")
PLAIN = (".txt", ".text", ".rst", ".log")
_NOT_PLAIN = (".csv", ".htm", ".html", ".ipynb", ".json", ".jsonl", ".rtf", ".svg", ".tsv", ".xhtml", ".xml")
"""Suffixes of text files that are not the text that a reader sees."""
MOST_BYTES = 20_000_000
MOST_SENTENCES = 100_000
"""Maximum number of source sentences."""
MOST_PAIRS = 100 * MOST_SENTENCES
"""Maximum number of checked sentences of an answer times source sentences."""

Text = str | PathLike[str]
Sources = Text | Iterable[Text] | Mapping[str, str]


class _Document(NamedTuple):
    name: str  # of its file, or as given with the text; "" for a text without a name
    is_text: bool
    content: str

    def sentences(self) -> list[Sentence]:
        """Split it by the rules of its name: Markdown for a Markdown file, and for a text without a name."""
        in_file = self.name.lower().endswith(MARKDOWN)
        is_markdown = in_file or (self.is_text and not self.name.lower().endswith(PLAIN))
        return split_sentences(self.content, markdown=is_markdown, in_file=in_file)


def read_answer(answer: Any, *, refuse_names: bool = False, may_be_empty: bool = False) -> list[Sentence]:
    """Split an answer, a text or a file, into sentences; ``refuse_names`` refuses a text that is the name of a file."""
    document = _read(answer, str(answer) if isinstance(answer, PathLike) else "", "The answer", refuse_names)
    if document.content.strip().rstrip(".").isdigit():  # else "1898." is the number of an empty item of a list
        document = document._replace(content=document.content.strip().rstrip("."))
    _check_size([document], "The answer has", "check it in parts")
    sentences = document.sentences()
    if not sentences and not may_be_empty:
        where = "" if document.is_text else f" {answer}"
        raise MIVError(f"The answer{where} has no sentence. Expected a text to check.")
    return sentences


def read_sources(sources: Any, *, refuse_names: bool = False) -> tuple[Source, ...]:
    """Split sources into sentences: one or several texts or files, or texts by name. Equal ones count once."""
    if isinstance(sources, tuple) and all(isinstance(source, Source) for source in sources):
        return sources  # split already
    if isinstance(sources, str | PathLike):
        sources = [sources]
    if not isinstance(sources, Iterable) or isinstance(sources, bytes | bytearray | memoryview):
        raise _refusal("The sources are", sources, f"{_EXPECTED}, a list of them, or a dict of texts by name")
    if isinstance(sources, Mapping):
        documents = [_read(text, str(name), f"The source {name}", refuse_names) for name, text in sources.items()]
    else:
        named = [
            (text, str(text) if isinstance(text, PathLike) else f"source {n}") for n, text in enumerate(sources, 1)
        ]
        documents = [_read(text, name, f"Source {n}", refuse_names) for n, (text, name) in enumerate(named, 1)]
    _check_size(documents, "The sources have", "give only the documents that were retrieved for this answer")
    return _distinct([Source(document.name, tuple(document.sentences())) for document in documents])


_EXPECTED = "a text (str), or a pathlib.Path of a file"


def _read(text: Any, name: str, what: str, refuse_name: bool) -> _Document:
    if isinstance(text, PathLike):
        return _Document(name, False, _read_file(Path(text), what))
    if not isinstance(text, str):
        raise _refusal(f"{what} is", text, _EXPECTED)
    line = text.strip()
    if refuse_name and line.lower().endswith((*MARKDOWN, ".txt", ".text")) and len(line.splitlines()) == 1:
        raise MIVError(
            f"{what} is the text {short(line)}, which looks like the name of a file. Expected pathlib.Path(...) around "
            "the name of a file; end a text with a full stop."
        )
    _refuse_markup(text, what)
    return _Document(name, True, text.removeprefix("\ufeff"))


def is_markup(text: str) -> bool:
    """Whether a text is the content of a file of HTML, PDF or RTF."""
    return text[:50].lstrip("\ufeff \t\r\n").lower().startswith(("%pdf-", "{\\rtf", "<!doctype html", "<html"))


def _refuse_markup(text: str, what: str) -> None:
    if is_markup(text):
        raise MIVError(
            f"{what} begins with {short(text[:50].split()[0].lower())}. Expected plain text or Markdown, as a "
            "reader sees it: convert HTML with pandoc -t plain, or with get_text() of Beautiful Soup."
        )


def _check_size(documents: list[_Document], what: str, remedy: str) -> None:
    size = sum(len(document.content.encode("utf-8", "surrogatepass")) for document in documents)
    if size > MOST_BYTES:
        raise MIVError(f"{what} {size:,} bytes. Expected at most {MOST_BYTES:,}: {remedy}.")


def _refusal(what: str, value: object, expected: str) -> MIVError:
    advice = " Decode bytes first, as in text.decode()." if isinstance(value, bytes | bytearray) else ""
    return MIVError(f"{what} {short(value)}, of type {type(value).__name__}. Expected {expected}.{advice}")


def _read_file(path: Path, what: str) -> str:
    """Read a text file, with an error for anything else."""
    if path.suffix.lower() in _NOT_PLAIN:
        raise MIVError(
            f"{what} {path} ends in {path.suffix!r}. Expected plain text, Markdown ({', '.join(MARKDOWN)}) or PDF; "
            "convert other documents first, as with pandoc -t plain."
        )
    if path.suffix.lower() == ".pdf":
        return _read_pdf(path, what)
    text = read_long_text(path, MOST_BYTES)
    _refuse_markup(text, f"{what} {path}")
    return text


def _read_pdf(path: Path, what: str) -> str:
    """The text of a PDF file, each page as a paragraph of its own."""
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError as error:
        raise MIVError(f"{what} {path} is a PDF file. Run `pip install pypdf`, or convert it to text.") from error
    try:
        if path.stat().st_size > MOST_BYTES:
            raise MIVError(f"{what} {path} is longer than {MOST_BYTES:,} bytes. Divide it.")
        return "\n\n".join(page.extract_text() for page in PdfReader(path).pages)
    except (PyPdfError, OSError, ValueError, KeyError, RecursionError) as error:
        raise MIVError(f"{what} {path} is not a readable PDF file: {error}. Convert it to text.") from error


def read_standard_input() -> str:
    """Read a text from standard input."""
    content = sys.stdin.buffer.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise MIVError(f"Standard input is longer than {MOST_BYTES:,} bytes. Expected one answer.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MIVError(f"Standard input is not UTF-8 text (byte {error.start}). Save the answer as UTF-8.") from error


def _distinct(sources: list[Source]) -> tuple[Source, ...]:
    """The sources with a sentence, each once: duplicates do not count as additional evidence."""
    first: dict[tuple[str, ...], Source] = {}
    for source in sources:
        same = first.setdefault(tuple(sentence.text for sentence in source.sentences), source)
        if same is not source or not source.sentences:
            why = f"has the same text as {same.name}" if source.sentences else "has no sentence"
            warnings.warn(f"{source.name} {why}; it was left out.", MIVWarning, stacklevel=4)
    return tuple(source for source in first.values() if source.sentences)
