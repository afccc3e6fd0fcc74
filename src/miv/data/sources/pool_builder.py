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
from miv.io.image_steps import Steps, apply_steps, resize_step


@dataclass(frozen=True)
class ImageForm:
    """Target form of all images.

    Args:
        size: ``(height, width)``; ``None`` keeps the size.
        colour: keep colours instead of converting to grey.
        fit: how to fit other shapes.
        binarise: make a scan black and white at its own size, by Otsu's threshold; grey images only.
        invert: swap black and white, such as ink on paper and chalk on a board.
    """

    size: tuple[int, int] | None = None
    colour: bool = False
    fit: Fit = "stretch"
    binarise: bool = False
    invert: bool = False

    def __post_init__(self) -> None:
        if self.size is not None and not all(1 <= side <= 10_000 for side in self.size):
            height, width = self.size
            raise MIVError(f"The image size is {height} × {width} pixels. Expected sides from 1 to 10,000.")
        if self.fit not in {"stretch", "crop", "pad"}:
            raise MIVError(f"resize is {self.fit!r}. Expected stretch, crop or pad.")
        if self.binarise and self.colour:
            raise MIVError("Images cannot be in colour and binarised. Omit --colour or --binarise.")

    @property
    def steps(self) -> Steps:
        """The steps from the pixels of a file to an instance."""
        fitting = () if self.size is None else (resize_step(self.size, self.fit),)
        return ("otsu",) * self.binarise + ("invert",) * self.invert + fitting


class PoolBuilder:
    """Collects instances and gives each distinct one a number.

    All instances must have the same shape; otherwise the error names both places. ``form`` is that of images from
    files, to record how they were converted.
    """

    def __init__(self, kind: InstanceKind, form: ImageForm | None = None) -> None:
        self.kind = kind
        self._steps = None if form is None or kind != "image" else form.steps
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
        known = None if classes is None else np.array(classes, dtype=object)
        return InstancePool(self.kind, values, known, names, self._steps)

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
    return apply_steps(read_image(path, colour=form.colour), form.steps)
