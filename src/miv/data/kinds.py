"""The kinds of instance: image, text and features. A new kind is one class, registered in ``KINDS``."""

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from miv.data.columns import as_strings, describe
from miv.errors import MIVError, number_of, unknown_name
from miv.files.images import IMAGE_SUFFIXES, ImageForm
from miv.files.instances import check_text, check_vector, is_file, read_text_file, read_vectors_file, short
from miv.files.tables import is_list, parse_json, separator_hint

FLAT = 8  # of 255: the contrast of an image without content
TINY = 1e-9  # keeps logarithms of zero finite
MANY = 16  # numbers of a vector that are equal only if it has no content


class Kind(ABC):
    """What the package must know about a kind of instance: to parse, check, describe and store it."""

    name: ClassVar[str]
    suffixes: ClassVar[frozenset[str]]  # of instance files, in lower case
    columns: ClassVar[tuple[str, ...]]  # of a table of instances, in which it may be
    cell: ClassVar[str]  # what a cell of a table must hold
    words: ClassVar[str]  # for one instance
    is_vector: ClassVar[bool] = False  # is numbers already, without a file or a form
    is_array: ClassVar[bool] = True  # many are one NumPy array; otherwise an object array of strings
    has_form: ClassVar[bool] = False  # has a size and a mode, and steps that lead there from a file

    def parse(self, cell: Any, folder: Path, form: ImageForm, place: str) -> Any:
        """Return the instance in a cell of a table: here, of a file below ``folder``."""
        if not isinstance(cell, str) or not cell.strip():
            given = short(cell) if not isinstance(cell, str) else "an empty cell"
            raise MIVError(f"{place}: expected {self.cell}, got {given}.")
        path = folder / cell.strip()
        try:
            instances = self.read(path, form)
        except MIVError as error:
            raise MIVError(f"{place}: {error}{'' if is_file(path) else separator_hint(cell)}") from error
        if len(instances) != 1:
            raise MIVError(f"{place}: {path} contains {len(instances)} instances. Expected one per cell.")
        return instances[0]

    @abstractmethod
    def check(self, value: Any, place: str) -> Any:
        """Return one instance in memory in the form that a pool stores; anything else is an error."""

    @abstractmethod
    def read(self, path: Path, form: ImageForm) -> Sequence[Any]:
        """Return the instances in a file."""

    @abstractmethod
    def check_pool(self, values: Any) -> NDArray[Any]:
        """Return the values ``(P, ...)`` of a pool; anything else is an error."""

    @abstractmethod
    def describe(self, values: NDArray[Any]) -> str:
        """Number and form of the values ``(P, ...)`` of a pool, in words."""

    def describe_shape(self, shape: tuple[int, ...]) -> tuple[str, str]:
        """The shape of one instance in words, and what to do if another has a different one."""
        raise NotImplementedError

    def refers_to_file(self, cell: str) -> bool:
        """Whether the text in a cell of a table names a file."""
        return False

    def check_finite(self, values: NDArray[Any], first: int) -> None:
        """Raise an error for a NaN or infinite number in values whose first row is instance ``first``."""
        del values, first  # whole numbers and texts are finite

    @abstractmethod
    def is_empty(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of the values ``(P, ...)`` have nothing to judge: ``(P,)`` bool."""

    @abstractmethod
    def statistics(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """How the values ``(P, ...)`` look to no network: ``(P, S)``, in comparable units."""

    def digest(self, value: Any) -> bytes:
        """16 bytes, equal if the instances are equal."""
        content = str(value).encode("utf-8", "surrogatepass") if not self.is_array else np.ascontiguousarray(value).data
        return hashlib.blake2b(content, digest_size=16).digest()

    def stack(self, values: Sequence[Any]) -> NDArray[Any]:
        """Join instances to the values of a pool."""
        return np.stack(values)

    def files_in(self, folder: Path) -> list[Path]:
        """The instance files in a folder, sorted by name; hidden files and other kinds are ignored."""
        names = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
        files = [entry for entry in names if entry.suffix.lower() in self.suffixes and entry.is_file()]
        if not files:
            known = ", ".join(sorted(self.suffixes))
            raise MIVError(f"The folder {folder} contains no instances ({known}).{self.empty_folder_hint}")
        return files

    empty_folder_hint: ClassVar[str] = ""


class ImageKind(Kind):
    """Images ``(H, W)`` in grey or ``(H, W, 3)`` in colour, uint8."""

    name = words = "image"
    suffixes = IMAGE_SUFFIXES
    columns = ("path",)
    cell = "the path of an image"
    has_form = True

    def check(self, value: Any, place: str) -> NDArray[np.uint8]:
        image = np.asarray(value)
        is_image = image.ndim == 2 or (image.ndim == 3 and image.shape[2] == 3)
        if image.dtype != np.uint8 or not is_image or not image.size:
            given = f"{image.dtype} {image.shape}"
            raise MIVError(f"{place}: images must be uint8 (0 to 255) of shape (H, W) or (H, W, 3), not {given}.")
        return image

    def read(self, path: Path, form: ImageForm) -> list[NDArray[np.uint8]]:
        return [form.read(path)]

    def check_pool(self, values: Any) -> NDArray[Any]:
        is_image = isinstance(values, np.ndarray) and values.dtype == np.uint8 and 0 not in values.shape[1:]
        if not is_image or not (values.ndim == 3 or (values.ndim == 4 and values.shape[3] == 3)):
            expected = "uint8 (P, H, W) in grey or (P, H, W, 3) in colour, each side at least 1"
            raise MIVError(f"values of kind 'image' is {describe(values)}. Expected {expected}.")
        return values

    def is_empty(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Images of one colour, or nearly."""
        contrast = values.max(axis=(1, 2)).astype(np.int16) - values.min(axis=(1, 2))  # (P,) or (P, 3)
        return np.asarray((contrast.reshape(len(values), -1) <= FLAT).all(axis=1))

    def statistics(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """Mean, deviation and quantiles of the grey levels, mean steps to neighbours, mean of the border, colour."""
        colour = values.reshape(*values.shape[:3], -1).astype(np.float32)  # (P, H, W, 1 or 3)
        grey = colour.mean(axis=3)
        flat = grey.reshape(len(grey), -1)
        steps = [np.abs(np.diff(grey, axis=axis)).mean(axis=(1, 2)) if grey.shape[axis] > 1 else 0 * flat[:, 0]
                 for axis in (1, 2)]  # fmt: skip
        border = np.concatenate([grey[:, 0], grey[:, -1], grey[:, :, 0], grey[:, :, -1]], axis=1).mean(axis=1)
        levels = (flat.mean(axis=1), flat.std(axis=1), *np.quantile(flat, (0, 0.05, 0.95, 1), axis=1))
        colourfulness = (colour.max(3) - colour.min(3)).mean((1, 2))
        return np.stack([*levels, *steps, border, colourfulness], axis=1).astype(np.float32)

    def stack(self, values: Sequence[Any]) -> NDArray[Any]:
        """Join images; among colour images, grey ones get three equal channels."""
        if len({value.ndim for value in values}) > 1:
            values = [np.repeat(value[..., None], 3, axis=2) if value.ndim == 2 else value for value in values]
        return np.stack(values)

    def describe(self, values: NDArray[Any]) -> str:
        height, width = values.shape[1:3]
        colour = "colour" if values.ndim == 4 else "grey"
        return f"{number_of(len(values), f'{colour} image')} of {height} x {width}"

    def describe_shape(self, shape: tuple[int, ...]) -> tuple[str, str]:
        words = f"{shape[0]} × {shape[1]} {'colour' if len(shape) == 3 else 'grey'} pixels"
        return words, "Resize all images, such as --size 64x64 (height x width)."

    def refers_to_file(self, cell: str) -> bool:
        return True


class TextKind(Kind):
    """Texts that are not empty."""

    name = words = "text"
    suffixes = frozenset({".txt"})
    columns = ("text", "path")
    cell = "a text"
    is_array = False
    empty_folder_hint = " If this is a text rather than a folder, put it in a table of instances with the column text."

    def parse(self, cell: Any, folder: Path, form: ImageForm, place: str) -> str:
        if not isinstance(cell, str):
            raise MIVError(f"{place}: expected {self.cell}, got {short(cell)}.")
        return check_text(cell, place)

    def check(self, value: Any, place: str) -> str:
        if not isinstance(value, str):
            raise MIVError(f"{place}: expected a text like the first query, got {type(value).__name__}.")
        return check_text(value, place)

    def read(self, path: Path, form: ImageForm) -> list[str]:
        """Return a file as one text."""
        return [read_text_file(path)]

    def check_pool(self, values: Any) -> NDArray[Any]:
        return as_strings("values", values)

    def describe(self, values: NDArray[Any]) -> str:
        return number_of(len(values), "text")

    def is_empty(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Texts without a letter or digit."""
        return np.array([not any(map(str.isalnum, str(text))) for text in values], bool)

    def statistics(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """Shares of letters, capitals, digits, spaces and ASCII; lengths of the words and the text."""
        rows = []
        for text in map(str, values):
            words, count = text.split() or [""], max(len(text), 1)
            tests = (str.isalpha, str.isupper, str.isdigit, str.isspace, str.isascii)
            shares = [sum(map(test, text)) / count for test in tests]
            lengths = [math.log1p(length) / 5 for length in (sum(map(len, words)) / len(words), max(map(len, words)))]
            rows.append([*shares, *lengths, math.log1p(len(text)) / 10])
        return np.array(rows, np.float32).reshape(len(values), -1)

    def stack(self, values: Sequence[Any]) -> NDArray[Any]:
        """Join texts to an object array, because one long text would make a fixed-width array huge."""
        array = np.empty(len(values), dtype=object)
        array[:] = values
        return array


class FeaturesKind(Kind):
    """Feature vectors ``(C,)``, float32."""

    name = "features"
    words = "feature vector"
    is_vector = True
    suffixes = frozenset({".npy"})
    columns = ("vector", "path")
    cell = "a vector (a list of numbers, or the path of a .npy file)"

    def parse(self, cell: Any, folder: Path, form: ImageForm, place: str) -> NDArray[np.float32]:
        if not isinstance(cell, str):
            return check_vector(cell, place)
        if is_list(cell):
            return check_vector(parse_json(cell, place), place)
        if cell.strip() and not cell.strip().lower().endswith(tuple(self.suffixes)):
            raise MIVError(f"{place}: expected {self.cell}, got {short(cell)}.{separator_hint(cell)}")
        vector: NDArray[np.float32] = super().parse(cell, folder, form, place)
        return vector

    def check(self, value: Any, place: str) -> NDArray[np.float32]:
        return check_vector(value, place)

    def read(self, path: Path, form: ImageForm) -> list[NDArray[np.float32]]:
        """Return the vectors in a NumPy file: ``(C,)`` is one, ``(N, C)`` are ``N``."""
        return read_vectors_file(path)

    def check_pool(self, values: Any) -> NDArray[Any]:
        is_vectors = isinstance(values, np.ndarray) and values.dtype == np.float32 and values.ndim == 2
        if not is_vectors or not values.shape[1]:
            expected = "float32 (P, C), with C at least 1"
            raise MIVError(f"values of kind 'features' is {describe(values)}. Expected {expected}.")
        return values

    def describe(self, values: NDArray[Any]) -> str:
        return f"{number_of(len(values), 'vector')} of {values.shape[1]}"

    def describe_shape(self, shape: tuple[int, ...]) -> tuple[str, str]:
        return f"a vector of {shape[0]:,} numbers", "All vectors must have the same length."

    def refers_to_file(self, cell: str) -> bool:
        return not is_list(cell)

    def check_finite(self, values: NDArray[Any], first: int) -> None:
        bad = ~np.isfinite(values).all(axis=1)
        if bad.any():
            row = first + int(bad.argmax())
            raise MIVError(f"The features of instance {row} are NaN or infinite. Expected finite numbers.")

    def is_empty(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Vectors of zeros, or of many equal numbers."""
        if values.shape[1] < 2:
            return np.zeros(len(values), bool)
        flat = values.max(axis=1) == values.min(axis=1)
        return np.asarray(flat & ((values[:, 0] == 0) | (values.shape[1] >= MANY)))

    def statistics(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """Logarithms of the length and of the greatest number, and their ratio."""
        values = np.asarray(values, np.float64)
        length, greatest = np.linalg.norm(values, axis=1), np.abs(values).max(axis=1)
        parts = [np.log(length + TINY), np.log(greatest + TINY), greatest / (length + TINY)]
        return np.stack(parts, axis=1).astype(np.float32)


KINDS: dict[str, Kind] = {kind.name: kind for kind in (ImageKind(), TextKind(), FeaturesKind())}
"""All kinds of instance by name."""


def kind_named(name: object) -> Kind:
    """The kind of a name; an unknown name is an error."""
    if not isinstance(name, str) or name not in KINDS:
        raise unknown_name("kind of instance", str(name), KINDS)
    return KINDS[name]


def kind_of_file(name: str) -> str:
    """The kind of instance in a file of that name, from its suffix; "" if there is none."""
    return next((kind.name for kind in KINDS.values() if name.lower().endswith(tuple(kind.suffixes))), "")


def guess_kind(cell: Any) -> str:
    """Infer the kind of instance from the first cell of a table: numbers, a file name, or else a text.

    >>> [guess_kind(cell) for cell in ([0.5, 1.0], "[0.5, 1.0]", "faces/anna.jpg", "v.npy", "Anna sings.")]
    ['features', 'features', 'image', 'features', 'text']
    """
    if not isinstance(cell, str) or is_list(cell):
        return "features"
    return kind_of_file(cell.strip()) or "text"
