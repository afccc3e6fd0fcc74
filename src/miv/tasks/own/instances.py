"""Instances as people have them (files, texts, vectors) as checked values, each distinct one kept once."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.errors import MivError
from miv.exemplars import InstancePool, Kind
from miv.images import Fit, read_image

MAX_TEXT_BYTES = 1_000_000
"""The largest text file that is read as one instance."""


@dataclass(frozen=True)
class ImageForm:
    """What every image becomes: ``(height, width)``, grey or colour, and how another shape is made to fit."""

    size: tuple[int, int] | None = None
    colour: bool = False
    fit: Fit = "stretch"

    def __post_init__(self) -> None:
        if self.size is not None and not all(1 <= side <= 10_000 for side in self.size):
            height, width = self.size
            raise MivError(f"Images cannot be {height} × {width} pixels; give sides from 1 to 10,000.")
        if self.fit not in {"stretch", "crop", "pad"}:
            raise MivError(f"There is no fit {self.fit!r}; use stretch, crop or pad.")


class PoolBuilder:
    """Collects instances and gives each distinct one a number.

    All instances must be of one shape; the error of the first that is not names both places.
    """

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self._values: list[Any] = []
        self._index: dict[bytes, int] = {}
        self._first: tuple[tuple[int, ...], str] | None = None

    def add(self, value: Any, place: str) -> int:
        """Return the number of an instance that was read at ``place`` (for errors); new ones are kept."""
        if self.kind != "text":
            self._check_shape(value.shape, place)
        content = value.encode() if self.kind == "text" else value.tobytes()
        # A digest, not the content: the keys of a million images would cost as much as the images.
        key = hashlib.blake2b(content, digest_size=16).digest()
        index = self._index.setdefault(key, len(self._values))
        if index == len(self._values):
            self._values.append(value)
        return index

    def pool(self, classes: Sequence[str] | None = None) -> InstancePool:
        """The distinct instances in the order in which they came, with their classes where known."""
        if self.kind == "text":
            values = np.empty(len(self._values), dtype=object)
            values[:] = self._values
        else:
            values = np.stack(self._values)
        return InstancePool(self.kind, values, None if classes is None else np.array(classes, dtype=object))

    def __len__(self) -> int:
        return len(self._values)

    def _check_shape(self, shape: tuple[int, ...], place: str) -> None:
        if self._first is None:
            self._first = (shape, place)
        expected, first_place = self._first
        if shape == expected:
            return
        if self.kind == "image":
            remedy = "Give one size for all, such as --size 64x64 (height x width)."
        else:
            remedy = "All vectors must have the same length."
        found, wanted = (_describe(self.kind, some) for some in (shape, expected))
        raise MivError(f"{place}: {found}, but {first_place} has {wanted}. {remedy}")


def _describe(kind: Kind, shape: tuple[int, ...]) -> str:
    if kind == "features":
        return f"a vector of {shape[0]:,} numbers"
    colour = "colour" if len(shape) == 3 else "grey"
    return f"{shape[0]} × {shape[1]} {colour} pixels"


def check_text(text: str, place: str) -> str:
    """Return a text that has something in it and can be written as UTF-8."""
    if not text.strip():
        raise MivError(f"{place}: an empty text. Every instance needs some text; remove this one.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise MivError(f"{place}: the text has half a character (a lone surrogate) at {error.start}.") from error
    return text


def check_vector(numbers: Any, place: str) -> NDArray[np.float32]:
    """Return a vector ``(C,)`` of finite numbers, from an array or a list."""
    if isinstance(numbers, np.ndarray):
        if numbers.dtype.kind not in "fiu":
            raise MivError(f"{place}: a vector must be numbers, not {numbers.dtype}.")
    elif isinstance(numbers, list | tuple):
        for number in numbers:
            if isinstance(number, bool) or not isinstance(number, Real):
                raise MivError(f"{place}: a vector must be a list of numbers; it holds {short(number)}.")
    else:
        raise MivError(f"{place}: expected a vector, a list of numbers, found {short(numbers)}.")
    try:
        with np.errstate(over="ignore"):
            # Adding zero turns -0.0 into 0.0, so that equal vectors are also the same bytes.
            vector = np.asarray(numbers, dtype=np.float32) + np.float32(0)
    except (ValueError, TypeError, OverflowError) as error:
        raise MivError(f"{place}: these are not numbers that fit a float: {error}.") from error
    if vector.ndim != 1 or not len(vector):
        raise MivError(f"{place}: a vector must be one row of numbers; its shape is {vector.shape}.")
    finite = np.isfinite(vector)
    if not finite.all():
        raise MivError(
            f"{place}: number {int(np.argmin(finite))} of the vector (from 0) is NaN or infinite as float32. "
            "Replace or remove it."
        )
    return vector


def read_text_file(path: Path) -> str:
    """Return a text file as one instance, without the white space around it."""
    content = _read_bytes(path, MAX_TEXT_BYTES)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise MivError(
            f"{path}, line {line}: not UTF-8 text (byte {content[error.start]:#04x}). Save it as UTF-8."
        ) from error
    return check_text(text.strip(), str(path))


def read_vectors_file(path: Path) -> list[NDArray[np.float32]]:
    """Return the vectors of a NumPy file: one from an array ``(C,)``, ``N`` from an array ``(N, C)``."""
    try:
        if path.exists() and not path.is_file():  # a folder, or a pipe that would never end
            raise MivError(f"{path}: not a file. Expected a NumPy file of features.")
        # Mapped, so that a header that promises more numbers than the file has allocates nothing.
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except MivError:
        raise
    except FileNotFoundError as error:
        raise MivError(f"{path}: this file of features does not exist.") from error
    except Exception as error:  # damaged headers raise many types
        raise MivError(
            f"{path}: not a NumPy file of numbers, or damaged ({error}). Save it with numpy.save."
        ) from error
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu" or array.ndim not in {1, 2} or not array.size:
        found = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else "an archive"
        raise MivError(f"{path}: expected numbers of shape (C,) or (N, C), found {found}.")
    if array.ndim == 1:
        return [check_vector(np.array(array), str(path))]
    return [check_vector(np.array(row), f"{path}, row {number}") for number, row in enumerate(array)]


def read_image_file(path: Path, form: ImageForm) -> NDArray[np.uint8]:
    """Return an image in the wanted form, ``(H, W)`` or ``(H, W, 3)``."""
    return read_image(path, size=form.size, colour=form.colour, fit=form.fit)


def _read_bytes(path: Path, limit: int) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise MivError(f"{path}: not a file. Expected a text file.")
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except MivError:
        raise
    except (OSError, ValueError) as error:
        raise MivError(f"{path}: cannot be read ({error}).") from error
    if len(content) > limit:
        raise MivError(f"{path}: longer than {limit:,} bytes; one instance is one short text. Cut it up first.")
    return content


def short(value: Any) -> str:
    """Show a value in a message, cut where it is long."""
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
