"""One instance, or a folder of them, from files, texts and vectors as people have them; checked before believed."""

from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from miv.errors import MIVError
from miv.io.image_files import IMAGE_SUFFIXES

MAX_TEXT_BYTES = 1_000_000
"""The largest text file that is read as one instance."""

MAX_BAG_BYTES = 100_000_000
"""The largest text file that is read as a bag, one instance per line."""

InstanceKind = Literal["image", "text", "features"]

SUFFIXES: dict[InstanceKind, frozenset[str]] = {
    "image": IMAGE_SUFFIXES,
    "text": frozenset({".txt"}),
    "features": frozenset({".npy"}),
}
"""How the names of files that hold instances end, in lower case."""


def is_folder(path: str | PathLike[str]) -> bool:
    """Whether there is a folder of that name; a long text is none."""
    try:
        return Path(path).is_dir()
    except (OSError, ValueError):  # too long for a name, or with a character that none may have
        return False


def is_file(path: str | PathLike[str]) -> bool:
    """Whether there is a file of that name; a long text is none."""
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


def files_in(folder: Path, kind: InstanceKind) -> list[Path]:
    """Return the instances in a folder, by name; what is hidden or of another kind is not looked at."""
    suffixes = SUFFIXES[kind]
    files = [
        entry
        for entry in sorted(folder.iterdir())
        if entry.suffix.lower() in suffixes and not entry.name.startswith(".") and entry.is_file()
    ]
    if not files:
        hint = " If these words are meant themselves, put them in a table of instances with the column text." * (
            kind == "text"
        )
        raise MIVError(
            f"The folder {folder} holds no instance for this verifier ({', '.join(sorted(suffixes))}).{hint}"
        )
    return files


def check_text(text: str, place: str) -> str:
    """Return a text that has something in it and can be written as UTF-8."""
    if not text.strip():
        raise MIVError(f"{place}: an empty text. Every instance needs some text; remove this one.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise MIVError(f"{place}: the text has half a character (a lone surrogate) at {error.start}.") from error
    return text


def check_vector(numbers: Any, place: str) -> NDArray[np.float32]:
    """Return a vector ``(C,)`` of finite numbers, from an array or a list."""
    if isinstance(numbers, np.ndarray):
        if numbers.dtype.kind not in "fiu":
            raise MIVError(f"{place}: a vector must be numbers, not {numbers.dtype}.")
    elif isinstance(numbers, list | tuple):
        for number in numbers:
            if isinstance(number, bool) or not isinstance(number, Real):
                raise MIVError(f"{place}: a vector must be a list of numbers; it holds {short(number)}.")
    else:
        raise MIVError(f"{place}: expected a vector, a list of numbers, found {short(numbers)}.")
    try:
        with np.errstate(over="ignore"):
            # Adding zero turns -0.0 into 0.0, so that equal vectors are also the same bytes.
            vector = np.asarray(numbers, dtype=np.float32) + np.float32(0)
    except (ValueError, TypeError, OverflowError) as error:
        raise MIVError(f"{place}: these are not numbers that fit a float: {error}.") from error
    if vector.ndim != 1 or not len(vector):
        raise MIVError(f"{place}: a vector must be one row of numbers; its shape is {vector.shape}.")
    finite = np.isfinite(vector)
    if not finite.all():
        raise MIVError(
            f"{place}: number {int(np.argmin(finite))} of the vector (from 0) is NaN or infinite as float32. "
            "Replace or remove it."
        )
    return vector


def read_text_file(path: Path) -> str:
    """Return a text file as one instance, without the white space around it."""
    too_long = "one instance is one short text. Cut it up first."
    return check_text(_decoded(path, _read_bytes(path, MAX_TEXT_BYTES, too_long)).strip(), str(path))


def is_text_file(path: str | PathLike[str]) -> bool:
    """Whether there is a ``.txt`` file of that name."""
    return Path(path).suffix.lower() in SUFFIXES["text"] and is_file(path)


def read_text_lines(path: Path) -> list[str]:
    """Return a text file as a bag, one instance per line; lines of nothing but white space are left out."""
    content = _read_bytes(path, MAX_BAG_BYTES, "which is much for one bag. Cut it up first.")
    lines = [line.strip() for line in _decoded(path, content).split("\n")]
    if not any(lines):
        raise MIVError(f"{path}: an empty file. Expected a bag, one text per line.")
    return [line for line in lines if line]


def _decoded(path: Path, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise MIVError(
            f"{path}, line {line}: not UTF-8 text (byte {content[error.start]:#04x}). Save it as UTF-8."
        ) from error


def read_vectors_file(path: Path) -> list[NDArray[np.float32]]:
    """Return the vectors of a NumPy file: one from an array ``(C,)``, ``N`` from an array ``(N, C)``."""
    try:
        if path.exists() and not path.is_file():  # a folder, or a pipe that would never end
            raise MIVError(f"{path}: not a file. Expected a NumPy file of features.")
        # Mapped, so that a header that promises more numbers than the file has allocates nothing.
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except MIVError:
        raise
    except FileNotFoundError as error:
        raise MIVError(f"{path}: this file of features does not exist.") from error
    except Exception as error:  # damaged headers raise many types
        raise MIVError(
            f"{path}: not a NumPy file of numbers, or damaged ({error}). Save it with numpy.save."
        ) from error
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu" or array.ndim not in {1, 2} or not array.size:
        found = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else "an archive"
        raise MIVError(f"{path}: expected numbers of shape (C,) or (N, C), found {found}.")
    if array.ndim == 1:
        return [check_vector(np.array(array), str(path))]
    return [check_vector(np.array(row), f"{path}, row {number}") for number, row in enumerate(array)]


def _read_bytes(path: Path, limit: int, too_long: str) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise MIVError(f"{path}: not a file. Expected a text file.")
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except MIVError:
        raise
    except (OSError, ValueError) as error:
        raise MIVError(f"{path}: cannot be read ({error}).") from error
    if len(content) > limit:
        raise MIVError(f"{path}: longer than {limit:,} bytes; {too_long}")
    return content


def short(value: Any) -> str:
    """Show a value in a message, cut where it is long."""
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
