"""Read and check instances from files, folders, texts and vectors."""

from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.errors import MIVError

MAX_TEXT_BYTES = 1_000_000
"""Maximum size of a text file read as one instance."""

MAX_BAG_BYTES = 100_000_000
"""Maximum size of a text file read as a bag, one instance per line."""

InstanceKind = str
"""The name of a kind of instance, see ``miv.data.kinds``: image, text or features."""


def is_folder(path: str | PathLike[str]) -> bool:
    """Whether there is a folder of that name; false for a long text, and for an empty one."""
    try:
        return path != "" and Path(path).is_dir()
    except (OSError, ValueError):  # too long for a name, or with an invalid character
        return False


def is_file(path: str | PathLike[str]) -> bool:
    """Whether there is a file of that name; false for a long text."""
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


def check_text(text: str, place: str) -> str:
    """Return a text that is not empty and is valid UTF-8."""
    if not text.strip():
        raise MIVError(f"{place}: the text is empty. Every instance needs some text; remove this one.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise MIVError(f"{place}: the text has a lone surrogate at position {error.start}.") from error
    return text


def refuse_masked(values: Any, place: str) -> None:
    """Raise an error for an array with masked entries, whose mask NumPy would silently drop."""
    if np.ma.is_masked(values):
        raise MIVError(f"{place}: the array has {int(np.ma.count_masked(values)):,} masked entries. Fill them.")


def check_vector(numbers: Any, place: str) -> NDArray[np.float32]:
    """Return a vector ``(C,)`` of finite numbers, from an array or a list."""
    if isinstance(numbers, np.ndarray):
        refuse_masked(numbers, place)
        if numbers.dtype.kind not in "fiu":
            raise MIVError(f"{place}: a vector must be numbers, not {numbers.dtype}.")
    elif isinstance(numbers, list | tuple):
        for number in numbers:
            if isinstance(number, bool) or not isinstance(number, Real):
                raise MIVError(f"{place}: a vector must be a list of numbers; it contains {short(number)}.")
    else:
        raise MIVError(f"{place}: expected a vector (a list of numbers), got {short(numbers)}.")
    try:
        with np.errstate(over="ignore"):
            # Adding zero turns -0.0 into 0.0, so that equal vectors have equal bytes.
            vector = np.asarray(numbers, dtype=np.float32) + np.float32(0)
    except (ValueError, TypeError, OverflowError) as error:
        raise MIVError(f"{place}: these values cannot be converted to numbers: {error}.") from error
    if vector.ndim != 1 or not len(vector):
        raise MIVError(f"{place}: a vector must be one row of numbers; its shape is {vector.shape}.")
    finite = np.isfinite(vector)
    if not finite.all():
        raise MIVError(f"{place}: number {int(np.argmin(finite))} of the vector is NaN or infinite as float32.")
    return vector


def check_name(path: Path) -> None:
    """Raise an error for an output name that is not UTF-8, which pyarrow and safetensors cannot write to."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise MIVError(f"The name {str(path)!r} is not UTF-8. Choose another name.") from error


def has_surrogate(text: str) -> bool:
    """Whether a text has half of a surrogate pair, which UTF-8 cannot hold."""
    return not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text)


def name_below(root: Path, path: Path, row: int | None = None) -> str:
    """The name of a file below a folder, with the row of an instance in it; "" if it is not Unicode."""
    name = path.relative_to(root).as_posix() + ("" if row is None else f"[{row}]")
    return "" if has_surrogate(name) else name


def read_text_file(path: Path) -> str:
    """Return a text file as one instance, with surrounding white space removed."""
    too_long = "an instance must be a short text. Split it first."
    return check_text(_decoded(path, _read_bytes(path, MAX_TEXT_BYTES, too_long)).strip(), str(path))


def read_long_text(path: Path, limit: int) -> str:
    """Return a whole text file or pipe of at most ``limit`` bytes; it may be empty, but not binary."""
    content = _read_bytes(path, limit, "too long to read. Split it first.", may_be_pipe=True)
    if b"\0" in content:
        raise MIVError(f"{path}: not a text file; it contains zero bytes. Save it as UTF-8 text.")
    return _decoded(path, content)


def is_text_file(path: str | PathLike[str]) -> bool:
    """Whether there is a ``.txt`` file of that name."""
    return Path(path).suffix.lower() == ".txt" and is_file(path)


def read_text_lines(path: Path) -> list[str]:
    """Return a text file as a bag, one instance per line; blank lines are skipped."""
    content = _read_bytes(path, MAX_BAG_BYTES, "too long for one bag. Split it first.")
    lines = [line.strip() for line in _decoded(path, content).split("\n")]
    if not any(lines):
        raise MIVError(f"{path}: the file is empty. Expected a bag with one text per line.")
    return [line for line in lines if line]


def _decoded(path: Path, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise MIVError(f"{path}, line {line}: not UTF-8 text (byte {content[error.start]:#04x}).") from error


def read_vectors_file(path: Path) -> list[NDArray[np.float32]]:
    """Return the vectors of a NumPy file: one from an array ``(C,)``, ``N`` from an array ``(N, C)``."""
    try:
        if path.exists() and not path.is_file():  # a folder, or a pipe that would never end
            raise MIVError(f"{path}: not a file. Expected a NumPy file of features.")
        # Mapped, so that a false header cannot allocate memory.
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except MIVError:
        raise
    except FileNotFoundError as error:
        raise MIVError(f"{path}: the features file does not exist.") from error
    except Exception as error:  # damaged headers raise many types
        raise MIVError(f"{path}: not a NumPy file of numbers, or damaged ({error}).") from error
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu" or array.ndim not in {1, 2} or not array.size:
        content = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else "an archive"
        raise MIVError(f"{path}: expected numbers of shape (C,) or (N, C), at least one vector, got {content}.")
    if array.ndim == 1:
        return [check_vector(np.array(array), str(path))]
    return [check_vector(np.array(row), f"{path}, row {number}") for number, row in enumerate(array)]


def _read_bytes(path: Path, limit: int, too_long: str, *, may_be_pipe: bool = False) -> bytes:
    try:
        if path.exists() and not (path.is_file() or (may_be_pipe and path.is_fifo())):
            raise MIVError(f"{path}: not a file. Expected a text file.")
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except MIVError:
        raise
    except (OSError, ValueError) as error:  # or a name with a zero byte
        missing = "there is no such file" if isinstance(error, FileNotFoundError) else None
        raise MIVError(f"Could not read {path}: {missing or getattr(error, 'strerror', None) or error}.") from error
    if len(content) > limit:
        raise MIVError(f"{path}: longer than {limit:,} bytes; {too_long}")
    return content


def short(value: Any) -> str:
    """Format a value for a message, truncated if long."""
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
