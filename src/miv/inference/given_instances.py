"""Convert the instances that users pass (files, arrays, images, texts, vectors) to checked values."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from miv.bags import Bags
from miv.errors import MIVError
from miv.files.instances import (
    InstanceKind,
    files_in,
    is_folder,
    is_text_file,
    read_text_file,
    read_text_lines,
    read_vectors_file,
    refuse_masked,
    short,
)

KIND_WORDS: dict[InstanceKind, str] = {"image": "image", "text": "text", "features": "feature vector"}


class GivenPlaces:
    """Names of queries and bags in error messages.

    Args:
        rows: the source of each exemplar, such as "pairs.csv, line 3"; ``None`` counts exemplars from 0.

    >>> GivenPlaces().query(2), GivenPlaces(["pairs.csv, line 3"]).bag(0), ALONE.member(0, 4)
    ('Query 2', 'pairs.csv, line 3: the bag', 'The bag, instance 4')
    """

    def __init__(self, rows: Sequence[str] | None = None) -> None:
        self._rows = rows

    @property
    def are_named(self) -> bool:
        """Whether exemplars have names."""
        return self._rows is not None

    def query(self, exemplar: int) -> str:
        """Return the name of a query."""
        return self._named("query", exemplar)

    def bag(self, exemplar: int) -> str:
        """Return the name of a bag."""
        return self._named("bag", exemplar)

    def member(self, exemplar: int, place: int) -> str:
        """Return the name of an instance in a bag."""
        return f"{self.bag(exemplar)}, instance {place}"

    def exemplar(self, exemplar: int) -> str:
        """Return the name of an exemplar."""
        if self._rows is None:
            return f"exemplar {exemplar} (from 0)"
        return self._rows[exemplar] or "this query and bag"

    def _named(self, what: str, exemplar: int) -> str:
        if self._rows is None:
            return f"{what.capitalize()} {exemplar}"
        row = self._rows[exemplar]
        return f"{row}: the {what}" if row else f"The {what}"


ALONE = GivenPlaces([""])
"""A single query and bag, which need no number."""


def with_folders(bags: Any, kind: InstanceKind) -> Any:
    """Replace bag names with instances: the files of a folder or, for texts, the lines of a .txt file."""
    if isinstance(bags, str) or not isinstance(bags, Sequence):  # not a list of names
        return bags
    return [_of_name(bag, kind) if isinstance(bag, str | PathLike) and str(bag) else bag for bag in bags]


def _of_name(bag: "str | PathLike[str]", kind: InstanceKind) -> Any:
    if is_folder(bag):
        return _in_folder(Path(bag), kind)
    return read_text_lines(Path(bag)) if kind == "text" and is_text_file(bag) else bag


def _in_folder(folder: Path, kind: InstanceKind) -> list[Any]:
    files = files_in(folder, kind)
    if kind == "image":
        return list(files)
    if kind == "text":
        return [read_text_file(file) for file in files]
    return [vector for file in files for vector in read_vectors_file(file)]


def check_bags(queries: Any, bags: Any, kind: InstanceKind, places: GivenPlaces | None = None) -> None:
    """Raise an error unless there is one bag per query and every bag is a non-empty list."""
    places = places or GivenPlaces()
    if isinstance(queries, str | PathLike | Image.Image) or isinstance(bags, str | PathLike | Image.Image):
        raise MIVError("Got a single instance. Expected a list of queries and a list of bags.")
    if _length(queries, "The queries") != _length(bags, "The bags"):
        raise MIVError(f"There are {len(queries)} queries and {len(bags)} bags. Expected one query per bag.")
    if not len(bags):
        raise MIVError("There are no exemplars. Expected at least one query and its bag.")
    for number, bag in enumerate(bags):
        if isinstance(bag, str | PathLike | Image.Image):
            given = "" if isinstance(bag, Image.Image) else f" ({bag})" if kind == "image" else f" ({short(str(bag))})"
            lines = " or .txt file" * (kind == "text")
            raise MIVError(
                f"{places.bag(number)} is one {KIND_WORDS[kind]}{given}. Expected a list, or the path of "
                f"an existing folder{lines}."
            )
        if isinstance(bag, Bags):
            raise MIVError(
                f"{places.bag(number)} is {bag!r}. Expected one bag: choose one, such as bags[0], or pass all to "
                "verify_many, with one query per bag."
            )
        if not _length(bag, places.bag(number)):
            raise MIVError(f"{places.bag(number)} is empty. Expected at least one instance.")


def _length(given: Any, what: str) -> int:
    try:
        return len(given)
    except TypeError as error:  # a number, a generator that can be read only once, a zero-dimensional array
        raise MIVError(f"{what}: got a {type(given).__name__}. Expected a list, an array or a tensor.") from error


def as_vectors(given: Any, channels: int, place: str) -> NDArray[np.float32]:
    """Return vectors ``(N, C)`` from an array, a tensor, or a list of either."""
    vectors = _as_numbers(given, place)
    if vectors.ndim != 2 or vectors.shape[1] != channels:
        raise _other_shape(vectors, f"(number of vectors, {channels})", channels, place)
    return vectors


def as_vector(given: Any, channels: int, place: str) -> NDArray[np.float32]:
    """Return one vector ``(C,)`` from an array, a tensor or a list."""
    vector = _as_numbers(given, place)
    if vector.shape != (channels,):
        raise _other_shape(vector, f"({channels},)", channels, place)
    return vector


def _other_shape(vectors: NDArray[np.float32], expected: str, channels: int, place: str) -> MIVError:
    return MIVError(
        f"{place} has the shape {vectors.shape}. Expected {expected}: the verifier takes vectors of {channels} numbers."
    )


def _as_numbers(given: Any, place: str) -> NDArray[np.float32]:
    if isinstance(given, Tensor):
        given = _from_tensor(given)
    elif isinstance(given, Sequence) and len(given) and isinstance(given[0], Tensor):
        given = [_from_tensor(vector) for vector in given]
    try:
        refuse_masked(given, place)
        numbers = np.asarray(given)
        if numbers.dtype.kind in "cmM":
            raise MIVError(f"{place}: got {numbers.dtype} (complex numbers or times). Expected real numbers.")
        return numbers.astype(np.float32, copy=False)
    except MIVError:
        raise
    except (ValueError, TypeError, OverflowError) as error:
        vectors = given if hasattr(given, "__iter__") else ()
        lengths = sorted({len(vector) for vector in vectors if hasattr(vector, "__len__")})
        if len(lengths) > 1:
            some = " and ".join(map(str, lengths[:2]))
            raise MIVError(f"{place}: the vectors have different lengths ({some}). Expected one length.") from error
        raise MIVError(f"{place}: got values that are not numbers. Expected vectors, each a row of numbers.") from error


def _from_tensor(given: Tensor) -> NDArray[Any]:
    given = given.detach().cpu()
    return (given if given.is_complex() else given.float()).numpy()


def check_finite(vectors: NDArray[np.float32], what: str) -> None:
    """Raise an error if vectors ``(N, C)`` contain NaN or infinity."""
    if is_finite(vectors):
        return
    row = int((~np.isfinite(vectors)).any(axis=1).argmax())
    which = f"vector {row} of {len(vectors)}" if len(vectors) > 1 else "the vector"
    raise MIVError(f"{what}: {which} contains NaN or infinity. Expected finite numbers.")


def is_finite(vectors: NDArray[np.float32]) -> bool:
    """Whether all numbers are finite."""
    # The sum is fast, and finite only if all numbers are. If it is not, it may have overflowed, so check each number.
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(vectors.sum()) or np.isfinite(vectors).all())
