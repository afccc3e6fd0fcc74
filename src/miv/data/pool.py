"""The pool: every distinct instance of a set, stored once."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miv.data.columns import as_strings, describe
from miv.errors import MIVError, unknown_name
from miv.files.images import Fit, Steps, apply_steps, checked_steps, read_image, resize_step
from miv.files.instances import InstanceKind, refuse_masked

# Values are read in pieces of about this size, so that a mapped pool never has to fit in memory.
PIECE_BYTES = 64 << 20


@dataclass(frozen=True, eq=False)
class InstancePool:
    """The distinct instances of a set.

    Args:
        kind: kind of instance.
        values: images ``(P, H, W)`` or ``(P, H, W, 3)`` uint8, features ``(P, C)`` float32, or texts, an
            object array of ``P`` strings. Images and features may be mapped from a file (``np.memmap``).
        classes: ``(P,)`` the class of each instance (writer, page, ...) as strings, if known. Never
            shown to a model; used for audits and splits.
        names: ``(P,)`` where each instance comes from, such as its file, as strings; "" where unknown. ``None`` if
            nothing is known. A report shows them, so that a case can be traced to its file.
        image_steps: the steps from the pixels of a file to an image, if known; see ``miv.files.images``.

    Everything is checked here, except that mapped features are not checked for NaN: ``check_finite``
    does that, and runs when they are saved.

    >>> pool = InstancePool("text", np.array(["one", "two", "one"], dtype=object))
    >>> pool.first_identical().tolist()
    [0, 1, 0]
    """

    kind: InstanceKind
    values: NDArray[Any]
    classes: NDArray[Any] | None = None
    names: NDArray[Any] | None = None
    image_steps: Steps | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(InstanceKind):
            raise unknown_name("kind of instance", str(self.kind), get_args(InstanceKind))
        refuse_masked(self.values, "values")
        if self.kind == "text":
            object.__setattr__(self, "values", as_strings("values", self.values))
        else:
            _check_array(self.kind, self.values)
        if len(self.values) == 0:
            raise MIVError("The pool is empty. Expected at least one instance.")
        if self.classes is not None:
            object.__setattr__(self, "classes", as_strings("classes", self.classes, len(self.values)))
        if self.names is not None:
            object.__setattr__(self, "names", as_strings("names", self.names, len(self.values)))
        if self.image_steps is not None:
            if self.kind != "image":
                raise MIVError(
                    f"image_steps is {self.image_steps}, but the instances are of kind {self.kind!r}. Omit it."
                )
            steps = checked_steps(self.image_steps, colour=self.values.ndim == 4)
            object.__setattr__(self, "image_steps", steps)
        if not self.is_mapped:
            self.check_finite()

    def __len__(self) -> int:
        return len(self.values)

    @property
    def summary(self) -> str:
        """Number and form of the instances, in words."""
        plural = "s" * (len(self) != 1)
        if self.kind == "text":
            return f"{len(self)} text{plural}"
        if self.kind == "features":
            return f"{len(self)} vector{plural} of {self.values.shape[1]}"
        height, width = self.values.shape[1:3]
        colour = "colour" if self.values.ndim == 4 else "grey"
        return f"{len(self)} {colour} image{plural} of {height} x {width}"

    def __repr__(self) -> str:
        return f"InstancePool({self.summary})"

    @property
    def is_mapped(self) -> bool:
        """Whether the values are in a file and read on demand."""
        return isinstance(self.values, np.memmap)

    def take(self, indices: ArrayLike) -> "InstancePool":
        """Return a pool of the instances at ``indices``, in that order and in memory."""
        rows = np.asarray(indices, dtype=np.int64)
        classes = None if self.classes is None else self.classes[rows]
        names = None if self.names is None else self.names[rows]
        return InstancePool(self.kind, np.asarray(self.values[rows]), classes, names, self.image_steps)

    def check_finite(self) -> None:
        """Raise an error if a feature is NaN or infinite; reads all of them."""
        if self.kind != "features":
            return
        for start, piece in self._pieces():
            bad = ~np.isfinite(piece).all(axis=1)
            if bad.any():
                row = start + int(bad.argmax())
                raise MIVError(f"The features of instance {row} are NaN or infinite. Expected finite numbers.")

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over kind and values (not classes or names): equal for equal content, in memory or mapped."""
        digest = hashlib.sha256(self.kind.encode())
        if self.kind == "text":
            for text in self.values:
                encoded = text.encode("utf-8", "surrogatepass")
                digest.update(len(encoded).to_bytes(8, "little") + encoded)
        else:
            digest.update(str((self.values.dtype.str, self.values.shape)).encode())
            for _, piece in self._pieces():
                digest.update(np.ascontiguousarray(piece).data)
        return digest.hexdigest()

    def digests(self, indices: ArrayLike | None = None) -> list[bytes]:
        """Return 16 bytes for each instance (or those at ``indices``), equal if the content is equal."""
        rows = range(len(self)) if indices is None else np.asarray(indices, dtype=np.int64)
        if self.kind == "text":
            encoded = (self.values[row].encode("utf-8", "surrogatepass") for row in rows)
            return [hashlib.blake2b(text, digest_size=16).digest() for text in encoded]
        return [hashlib.blake2b(np.ascontiguousarray(self.values[row]).data, digest_size=16).digest() for row in rows]

    def first_identical(self) -> NDArray[np.int64]:
        """``(P,)`` the first instance with the same content as each instance, which may be itself."""
        first: dict[bytes, int] = {}
        found = (first.setdefault(digest, row) for row, digest in enumerate(self.digests()))
        return np.fromiter(found, np.int64, len(self))

    def _pieces(self) -> Iterator[tuple[int, NDArray[Any]]]:
        rows = max(1, PIECE_BYTES // max(1, self.values[:1].nbytes))
        for start in range(0, len(self), rows):
            yield start, self.values[start : start + rows]


def _check_array(kind: InstanceKind, values: object) -> None:
    if kind == "image":
        expected, dtype = "uint8 (P, H, W) in grey or (P, H, W, 3) in colour, each side at least 1", "uint8"
    else:
        expected, dtype = "float32 (P, C), with C at least 1", "float32"
    if not isinstance(values, np.ndarray) or values.dtype != dtype or not _has_shape_of(kind, values.shape):
        raise MIVError(f"values of kind {kind!r} is {describe(values)}. Expected {expected}.")


def _has_shape_of(kind: InstanceKind, shape: tuple[int, ...]) -> bool:
    if 0 in shape[1:]:
        return False
    if kind == "image":
        return len(shape) == 3 or (len(shape) == 4 and shape[3] == 3)
    return len(shape) == 2


# The form of a verifier's training images, so that other images can be converted the same way or rejected.

_LARGEST_SIDE = 10_000


@dataclass(frozen=True)
class InstanceForm:
    """Height, width and colour mode of all images, and how they came about.

    Args:
        height: in pixels.
        width: in pixels.
        mode: ``L`` for grey, ``RGB`` for colour, as Pillow calls them.
        kind: ``image``; vectors and texts need no form.
        steps: the steps from the pixels of a file to an image, such as Otsu's threshold; ``None`` if unknown, as for
            verifiers from before they were recorded.

    >>> InstanceForm(28, 28, "L").shape, InstanceForm(32, 48, "RGB").shape
    ((28, 28), (32, 48, 3))
    """

    height: int
    width: int
    mode: Literal["L", "RGB"]
    kind: Literal["image"] = "image"
    steps: Steps | None = None

    @classmethod
    def of(cls, pool: InstancePool) -> "InstanceForm | None":
        """Return the form of a pool's images, or ``None`` if its instances are not images."""
        if pool.kind != "image":
            return None
        height, width = pool.values.shape[1:3]
        return cls(int(height), int(width), "RGB" if pool.values.ndim == 4 else "L", steps=pool.image_steps)

    @classmethod
    def checked(cls, document: object) -> "InstanceForm":
        """Return the form described by a file's ``document``; anything else is an error."""
        form: InstanceForm | None
        try:
            form = cls(**document)  # type: ignore[arg-type]
        except TypeError:
            form = None
        sides = () if form is None else (form.height, form.width)
        fits = all(type(side) is int and 1 <= side <= _LARGEST_SIDE for side in sides)
        if form is None or not fits or form.mode not in ("L", "RGB") or form.kind != "image":
            raise MIVError(
                f"instances is {str(document)[:80]}. Expected kind image, height and width from 1 to "
                f"{_LARGEST_SIDE:,}, and mode L or RGB."
            )
        if form.steps is None:
            return form
        return replace(form, steps=checked_steps(form.steps, colour=form.mode == "RGB"))

    @property
    def size(self) -> tuple[int, int]:
        """``(height, width)``."""
        return self.height, self.width

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one image as an array."""
        return (*self.size, 3) if self.mode == "RGB" else self.size

    def document(self) -> dict[str, Any]:
        """Return plain values, for JSON; without steps, the same as before they were recorded."""
        document = asdict(self)
        steps = document.pop("steps")
        return document if steps is None else document | {"steps": list(steps)}


# Build a pool from instances in many forms, with each distinct one stored once.


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
