"""The pool: every distinct instance of a set, stored once."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miv.data.columns import add_strings, as_strings
from miv.data.kinds import KINDS, kind_named
from miv.errors import MIVError
from miv.files.images import LARGEST_SIDE, ImageForm, Steps, checked_steps
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
    >>> pool.first_identical.tolist()
    [0, 1, 0]
    """

    kind: InstanceKind
    values: NDArray[Any]
    classes: NDArray[Any] | None = None
    names: NDArray[Any] | None = None
    image_steps: Steps | None = None

    def __post_init__(self) -> None:
        kind = kind_named(self.kind)
        refuse_masked(self.values, "values")
        object.__setattr__(self, "values", kind.check_pool(self.values))
        if len(self.values) == 0:
            raise MIVError("The pool is empty. Expected at least one instance.")
        for name in ("classes", "names"):
            if (strings := getattr(self, name)) is not None:
                object.__setattr__(self, name, as_strings(name, strings, len(self.values)))
        if self.image_steps is not None:
            if not kind.has_form:
                raise MIVError(f"image_steps is {self.image_steps}. Expected none for {self.kind!r}.")
            steps = checked_steps(self.image_steps, colour=self.values.ndim == 4)
            object.__setattr__(self, "image_steps", steps)
        if not self.is_mapped:
            self.check_finite()

    def __len__(self) -> int:
        return len(self.values)

    @property
    def summary(self) -> str:
        """Number and form of the instances, in words."""
        return KINDS[self.kind].describe(self.values)

    def __repr__(self) -> str:
        return f"InstancePool({self.summary})"

    @property
    def is_mapped(self) -> bool:
        """Whether the values are in a file and read on demand."""
        return isinstance(self.values, np.memmap)

    def take(self, indices: ArrayLike) -> "InstancePool":
        """Return a pool of the instances at ``indices``, in that order and in memory."""
        rows = np.asarray(indices, dtype=np.int64)
        classes, names = (None if column is None else column[rows] for column in (self.classes, self.names))
        return InstancePool(self.kind, np.asarray(self.values[rows]), classes, names, self.image_steps)

    def check_finite(self) -> None:
        """Raise an error if a feature is NaN or infinite; reads all of them, a piece at a time."""
        rows = max(1, PIECE_BYTES // max(1, self.values[:1].nbytes))
        for start in range(0, len(self), rows):
            KINDS[self.kind].check_finite(self.values[start : start + rows], start)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over kind and values (not classes or names): equal for equal content, in memory or mapped."""
        digest = hashlib.sha256(self.kind.encode())
        if KINDS[self.kind].is_array:
            digest.update(str((self.values.dtype.str, self.values.shape)).encode())
            digest.update(np.ascontiguousarray(self.values).data)
        else:
            add_strings(digest, self.values)
        return digest.hexdigest()

    def digests(self, indices: ArrayLike | None = None) -> list[bytes]:
        """Return 16 bytes for each instance (or those at ``indices``), equal if the content is equal."""
        rows = range(len(self)) if indices is None else np.asarray(indices, dtype=np.int64)
        return [KINDS[self.kind].digest(self.values[row]) for row in rows]

    @cached_property
    def first_identical(self) -> NDArray[np.int64]:
        """``(P,)`` the first instance with the same content as each instance, which may be itself."""
        first: dict[bytes, int] = {}
        rows = (first.setdefault(digest, row) for row, digest in enumerate(self.digests()))
        return np.fromiter(rows, np.int64, len(self))


# The form of a verifier's training images, so that other images can be converted the same way or rejected.


@dataclass(frozen=True)
class InstanceForm:
    """Height, width and colour mode of all images, and how they came about.

    Args:
        height: in pixels.
        width: in pixels.
        mode: ``L`` for grey, ``RGB`` for colour, as Pillow calls them.
        kind: ``image``; vectors and texts need no form.
        steps: the steps from the pixels of a file to an image, such as Otsu's threshold; ``None`` if unknown.
    """

    height: int
    width: int
    mode: Literal["L", "RGB"]
    kind: Literal["image"] = "image"
    steps: Steps | None = None

    @classmethod
    def of(cls, pool: InstancePool) -> "InstanceForm | None":
        """Return the form of a pool's images, or ``None`` if its instances are not images."""
        if not KINDS[pool.kind].has_form:
            return None
        height, width = pool.values.shape[1:3]
        return cls(int(height), int(width), "RGB" if pool.values.ndim == 4 else "L", steps=pool.image_steps)

    @classmethod
    def checked(cls, document: object) -> "InstanceForm":
        """Return the form described by a file's ``document``; anything else is an error."""
        try:
            form = cls(**document)  # type: ignore[arg-type]
            fits = all(type(side) is int and 1 <= side <= LARGEST_SIDE for side in form.size)
        except TypeError:
            fits = False
        if not fits or form.mode not in ("L", "RGB") or form.kind != "image":
            raise MIVError(f"instances is {str(document)[:80]}. Expected an image of mode L or RGB and its size.")
        steps = None if form.steps is None else checked_steps(form.steps, colour=form.mode == "RGB")
        return replace(form, steps=steps)

    @property
    def size(self) -> tuple[int, int]:
        """``(height, width)``."""
        return self.height, self.width

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one image as an array."""
        return (*self.size, 3) if self.mode == "RGB" else self.size

    def document(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        document = asdict(self)
        steps = document.pop("steps")
        return document if steps is None else document | {"steps": list(steps)}


# Build a pool from instances in many forms, with each distinct one stored once.


class PoolBuilder:
    """Collects instances and gives each distinct one a number; the first decides the kind if none is given."""

    def __init__(self, kind: InstanceKind | None = None, form: ImageForm | None = None) -> None:
        self.kind = kind
        self.form = form or ImageForm()
        self._steps = None if form is None else form.steps
        self._values: list[Any] = []
        self._names: list[str] = []
        self._index: dict[bytes, int] = {}
        self._first: tuple[tuple[int, ...], str] | None = None

    def add(self, value: Any, place: str, name: str = "") -> int:
        """Return the number of an instance as pools store it, read at ``place``; new ones are added with their name."""
        kind = kind_named(self.kind)
        if kind.is_array:
            # Grey and colour images may be mixed if they are as in their files.
            sides = 2 if kind.has_form and self._steps is not None and self.form.colour is None else None
            self._first = self._first or (value.shape, place)
            expected, first_place = self._first
            if value.shape[:sides] != expected[:sides]:
                (words, remedy), (wanted, _) = map(kind.describe_shape, (value.shape, expected))
                raise MIVError(f"{place}: {words}, but {first_place} has {wanted}. {remedy}")
        # A digest, because full contents as keys would double the memory.
        index = self._index.setdefault(kind.digest(value), len(self._values))
        if index == len(self._values):
            self._values.append(value)
            self._names.append(name)
        return index

    def index(self, value: Any, place: str) -> int:
        """Return the number of an instance in memory, once it is checked."""
        if self.kind is None:
            self.kind = "text" if isinstance(value, str) else _KIND_OF_AXES.get(np.ndim(value))
        if self.kind is None:
            raise MIVError(f"A query has the shape {np.shape(value)}. Expected a vector (C,), an image or a text.")
        return self.add(KINDS[self.kind].check(value, place), place)

    def pool(self, classes: Sequence[str] | None = None) -> InstancePool:
        """The distinct instances in order of arrival, with their classes and names if known."""
        if self.kind is None:
            raise MIVError("There are no instances. Expected at least one.")
        kind = KINDS[self.kind]
        names = np.array(self._names, dtype=object) if any(self._names) else None
        known = None if classes is None else np.array(classes, dtype=object)
        return InstancePool(self.kind, kind.stack(self._values), known, names, self._steps if kind.has_form else None)


_KIND_OF_AXES: dict[int, InstanceKind] = {1: "features", 2: "image", 3: "image"}


def pool_of(
    queries: Any, bags: Sequence[Any], references: Sequence[Any] | None
) -> tuple[InstancePool, list[list[int]], list[list[int]]]:
    """Put all instances into one pool; also return the indices of the references of each exemplar, and of its bag."""
    if queries is None and references is None:
        raise MIVError("There are neither queries nor references. Expected one of them.")
    for column in (queries, references):
        if column is not None and len(column) != len(bags):
            raise MIVError(f"Got {len(column)} queries and {len(bags)} bags. Expected one bag per query.")
    builder = PoolBuilder()
    reference_rows, bag_rows = [], []
    for number, bag in enumerate(bags):
        several = [] if references is None else references[number]
        for words, values in ((f"The references of exemplar {number} are", several), (f"Bag {number} is", bag)):
            if isinstance(values, str):
                raise MIVError(f"{words} one text. Expected a list of texts.")
        asked = [*([] if queries is None else [queries[number]]), *several]
        places = [f"query {number}", *(f"query {number}, reference {place}" for place in range(1, len(asked)))]
        reference_rows.append([builder.index(value, place) for value, place in zip(asked, places, strict=False)])
        bag_rows.append([builder.index(value, f"bag {number}, instance {place}") for place, value in enumerate(bag)])
    return builder.pool(), reference_rows, bag_rows
