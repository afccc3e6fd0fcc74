"""The pool: every distinct instance of a set, stored once."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miv.data.array_checks import as_strings, describe
from miv.errors import MIVError, unknown_name
from miv.io.image_steps import Steps, checked_steps
from miv.io.instance_files import InstanceKind, refuse_masked

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
        image_steps: the steps from the pixels of a file to an image, if known; see ``miv.io.image_steps``.

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
