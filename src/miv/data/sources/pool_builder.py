"""Build a pool from instances in many forms, with each distinct one stored once."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.data import InstanceKind, InstancePool
from miv.errors import MIVError
from miv.io.image_files import Fit, read_image


@dataclass(frozen=True)
class ImageForm:
    """Target form of all images: ``(height, width)``, grey or colour, and how to fit other shapes."""

    size: tuple[int, int] | None = None
    colour: bool = False
    fit: Fit = "stretch"

    def __post_init__(self) -> None:
        if self.size is not None and not all(1 <= side <= 10_000 for side in self.size):
            height, width = self.size
            raise MIVError(f"The image size is {height} × {width} pixels. Expected sides from 1 to 10,000.")
        if self.fit not in {"stretch", "crop", "pad"}:
            raise MIVError(f"resize is {self.fit!r}. Expected stretch, crop or pad.")


class PoolBuilder:
    """Collects instances and gives each distinct one a number.

    All instances must have the same shape; otherwise the error names both places.
    """

    def __init__(self, kind: InstanceKind) -> None:
        self.kind = kind
        self._values: list[Any] = []
        self._names: list[str] = []
        self._index: dict[bytes, int] = {}
        self._first: tuple[tuple[int, ...], str] | None = None

    def add(self, value: Any, place: str, name: str = "") -> int:
        """Return the number of an instance read at ``place`` (for errors); new ones are added with their ``name``."""
        if self.kind != "text":
            self._check_shape(value.shape, place)
        content = value.encode() if self.kind == "text" else value.tobytes()
        # A digest, because full contents as keys would double the memory.
        key = hashlib.blake2b(content, digest_size=16).digest()
        index = self._index.setdefault(key, len(self._values))
        if index == len(self._values):
            self._values.append(value)
            self._names.append(name)
        return index

    def pool(self, classes: Sequence[str] | None = None) -> InstancePool:
        """The distinct instances in order of arrival, with their classes and names if known."""
        if self.kind == "text":
            values = np.empty(len(self._values), dtype=object)
            values[:] = self._values
        else:
            values = np.stack(self._values)
        names = np.array(self._names, dtype=object) if any(self._names) else None
        return InstancePool(self.kind, values, None if classes is None else np.array(classes, dtype=object), names)

    def __len__(self) -> int:
        return len(self._values)

    def _check_shape(self, shape: tuple[int, ...], place: str) -> None:
        if self._first is None:
            self._first = (shape, place)
        expected, first_place = self._first
        if shape == expected:
            return
        if self.kind == "image":
            remedy = "Resize all images, such as --size 64x64 (height x width)."
        else:
            remedy = "All vectors must have the same length."
        found, wanted = (_describe(self.kind, some) for some in (shape, expected))
        raise MIVError(f"{place}: {found}, but {first_place} has {wanted}. {remedy}")


def _describe(kind: InstanceKind, shape: tuple[int, ...]) -> str:
    if kind == "features":
        return f"a vector of {shape[0]:,} numbers"
    colour = "colour" if len(shape) == 3 else "grey"
    return f"{shape[0]} × {shape[1]} {colour} pixels"


def read_image_file(path: Path, form: ImageForm) -> NDArray[np.uint8]:
    """Return an image in the wanted form, ``(H, W)`` or ``(H, W, 3)``."""
    return read_image(path, size=form.size, colour=form.colour, fit=form.fit)
