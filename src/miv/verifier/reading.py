"""Turn what people give (files, folders, arrays, images, texts, vectors) into the rows of a pool of instances."""

import logging
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from miv.bags import Bags
from miv.bags.borders import refuse_nested
from miv.data import csr
from miv.data.kinds import KINDS, Kind
from miv.data.pool import InstanceForm, InstancePool
from miv.errors import MIVError
from miv.files.images import (
    Fit,
    ImageForm,
    Steps,
    apply_steps,
    image_pixels,
    read_image,
    resize_step,
    sets_size,
    with_fit,
)
from miv.files.instances import InstanceKind, is_folder, is_text_file, read_text_lines, refuse_masked, short


class ErrorLocations:
    """Names of queries and bags in error messages.

    Args:
        rows: the source of each exemplar, such as "pairs.csv, line 3"; ``None`` counts exemplars from 0.
        references: names of all references, which ``query`` then counts instead of exemplars.

    >>> ErrorLocations().query(2), ErrorLocations(["pairs.csv, line 3"]).bag(0), ALONE.member(0, 4)
    ('Query 2', 'pairs.csv, line 3: the bag', 'The bag, instance 4')
    """

    def __init__(self, rows: Sequence[str] | None = None, references: list[str] | None = None) -> None:
        self._rows, self._references = rows, references

    @property
    def are_named(self) -> bool:
        """Whether queries have names."""
        return self._rows is not None or self._references is not None

    def query(self, exemplar: int) -> str:
        """Return the name of a query, or of a reference."""
        return self._named("query", exemplar) if self._references is None else self._references[exemplar]

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


ALONE = ErrorLocations([""])
"""A single query and bag, which need no number."""


def with_folders(bags: Any, kind: InstanceKind) -> Any:
    """Replace bag names with instances: the files of a folder or, for texts, the lines of a .txt file."""
    if isinstance(bags, str) or not isinstance(bags, Sequence):  # not a list of names
        return bags
    return [_of_name(bag, KINDS[kind]) if isinstance(bag, str | PathLike) and str(bag) else bag for bag in bags]


def _of_name(bag: "str | PathLike[str]", kind: Kind) -> Any:
    if not is_folder(bag):
        return bag if kind.is_array or not is_text_file(bag) else read_text_lines(Path(bag))
    files = kind.files_in(Path(bag))
    if kind.has_form:  # read later, in the form of the verifier
        return files
    return [instance for file in files for instance in kind.read(file, ImageForm())]


def check_bags(queries: Any, bags: Any, kind: InstanceKind, places: ErrorLocations | None = None) -> None:
    """Raise an error unless there is one bag per query and every bag is a non-empty list."""
    places = places or ErrorLocations()
    for given in (queries, bags):
        refuse_nested(given, "What was given")
    if isinstance(queries, str | PathLike | Image.Image) or isinstance(bags, str | PathLike | Image.Image):
        raise MIVError("Got a single instance. Expected a list of queries and a list of bags.")
    if _length(queries, "The queries") != _length(bags, "The bags"):
        raise MIVError(f"There are {len(queries)} queries and {len(bags)} bags. Expected one query per bag.")
    if not len(bags):
        raise MIVError("There are no exemplars. Expected at least one query and its bag.")
    for number, bag in enumerate(bags):
        refuse_nested(bag, places.bag(number))
        if isinstance(bag, str | PathLike | Image.Image):
            name = "" if isinstance(bag, Image.Image) else f" ({bag if KINDS[kind].has_form else short(str(bag))})"
            lines = "" if KINDS[kind].is_array else " or .txt file"
            raise MIVError(
                f"{places.bag(number)} is one {KINDS[kind].words}{name}. Expected a list, or the path of an existing "
                f"folder{lines}."
            )
        if isinstance(bag, Bags):
            raise MIVError(
                f"{places.bag(number)} is {bag!r}. Expected one bag: choose one, such as bags[0], or pass all to "
                "verify_many, with one query per bag."
            )
        if not _length(bag, places.bag(number)):
            raise MIVError(f"{places.bag(number)} is empty. Expected at least one instance.")


def _length(values: Any, what: str) -> int:
    try:
        return len(values)
    except TypeError as error:  # a number, a generator that can be read only once, a zero-dimensional array
        raise MIVError(f"{what}: got a {type(values).__name__}. Expected a list, an array or a tensor.") from error


def as_vectors(values: Any, channels: int, place: str) -> NDArray[np.float32]:
    """Return vectors ``(N, C)`` from an array, a tensor, or a list of either."""
    vectors = _as_numbers(values, place)
    if vectors.ndim != 2 or vectors.shape[1] != channels:
        raise _other_shape(vectors, f"(number of vectors, {channels})", channels, place)
    return vectors


def as_vector(values: Any, channels: int, place: str) -> NDArray[np.float32]:
    """Return one vector ``(C,)`` from an array, a tensor or a list."""
    vector = _as_numbers(values, place)
    if vector.shape != (channels,):
        raise _other_shape(vector, f"({channels},)", channels, place)
    return vector


def vector_length(vectors: Any) -> int:
    """The number of values in the first of several vectors."""
    return int(np.prod(np.shape(vectors[0]))) if len(vectors) else 0


def _other_shape(vectors: NDArray[np.float32], expected: str, channels: int, place: str) -> MIVError:
    return MIVError(
        f"{place} has the shape {vectors.shape}. Expected {expected}: the verifier takes vectors of {channels} numbers."
    )


def _as_numbers(values: Any, place: str) -> NDArray[np.float32]:
    if isinstance(values, Tensor):
        values = _from_tensor(values)
    elif isinstance(values, Sequence) and len(values) and isinstance(values[0], Tensor):
        values = [_from_tensor(vector) for vector in values]
    refuse_masked(values, place)
    try:
        numbers = np.asarray(values)
        reals = None if numbers.dtype.kind in "cmM" else numbers.astype(np.float32, copy=False)
    except (ValueError, TypeError, OverflowError) as error:
        vectors = values if hasattr(values, "__iter__") else ()
        lengths = sorted({len(vector) for vector in vectors if hasattr(vector, "__len__")})
        if len(lengths) > 1:
            some = " and ".join(map(str, lengths[:2]))
            raise MIVError(f"{place}: the vectors have different lengths ({some}). Expected one length.") from error
        raise MIVError(f"{place}: got values that are not numbers. Expected vectors, each a row of numbers.") from error
    if reals is None:
        raise MIVError(f"{place}: got {numbers.dtype} (complex numbers or times). Expected real numbers.")
    return reals


def _from_tensor(values: Tensor) -> NDArray[Any]:
    refuse_nested(values, "What was given")
    values = values.detach().cpu()
    return (values if values.is_complex() else values.float()).numpy()


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


def single_instances(
    queries: Any, kind: InstanceKind, places: ErrorLocations
) -> tuple[Any, NDArray[np.int64] | None, ErrorLocations]:
    """Return the instances of all queries, the borders ``(E + 1,)`` between their references, and their places.

    A list is several references: of image files, images or texts, or of vectors. If every query is one instance,
    everything is returned as it was given, with ``None`` for the borders.

    >>> instances, ptr, places = single_instances([["a", "b"], "c"], "text", ErrorLocations())
    >>> instances, ptr.tolist(), places.query(1), places.query(2)
    (['a', 'b', 'c'], [0, 2, 3], 'Query 0, reference 1', 'Query 1')
    """
    takes_vectors = KINDS[kind].is_vector
    if takes_vectors and getattr(queries, "ndim", 0) == 2:  # the usual array (E, C), not to be looked at in parts
        return queries, None, places
    several = [_is_several(query, takes_vectors) for query in queries]
    if not any(several):
        return queries, None, places
    asked = [list(query) if many else [query] for query, many in zip(queries, several, strict=True)]
    for number, references in enumerate(asked):
        if not references:
            raise MIVError(f"{places.query(number)} has no references. Expected at least one.")
    ptr = csr.borders([len(references) for references in asked])
    names = [
        places.query(number) + (f", reference {place}" if len(references) > 1 else "")
        for number, references in enumerate(asked)
        for place in range(len(references))
    ]
    instances = [reference for references in asked for reference in references]
    return instances, ptr, ErrorLocations(places._rows, names)


def _is_several(query: Any, takes_vectors: bool) -> bool:
    if not takes_vectors:
        return isinstance(query, list | tuple)
    if isinstance(query, np.ndarray | Tensor):
        return query.ndim == 2
    first = query[0] if isinstance(query, list | tuple) and query else None
    return isinstance(first, list | tuple) or (isinstance(first, np.ndarray | Tensor) and first.ndim > 0)


logger = logging.getLogger(__name__)

USE_RESIZE = "use resize='stretch', 'crop' or 'pad' (--resize)"
"""What to do with images of another size."""


class Reader:
    """Turns instances that people give into rows of a pool: reads each file once, and keeps each image or text once.

    Args:
        kind: of the instances.
        form: size and mode of the verifier's images, and the steps from a file to them, if known.
        resize: how to resize an image of a different size; ``None`` does it as in training, if that is known.
        length: of vectors; ``None`` takes that of the first.

    >>> reader = Reader("text")
    >>> [reader.add(text, "The bag") for text in ("one", "two", "one")], len(reader.take_new())
    ([0, 1, 0], 2)
    """

    def __init__(
        self, kind: InstanceKind, form: InstanceForm | None = None, resize: Fit | None = None, length: int | None = None
    ) -> None:
        if resize not in (None, "stretch", "crop", "pad"):
            raise MIVError(f"resize is {resize!r}. Expected stretch, crop or pad.")
        if resize is not None and not KINDS[kind].has_form:
            raise MIVError(f"resize is {resize!r}, but this verifier reads {KINDS[kind].words}s, not images. Omit it.")
        self.kind, self._form, self._length = KINDS[kind], form, length
        self._steps = () if form is None else _steps(form, resize)
        self._values: list[Any] = []  # not yet taken
        self._count = 0
        self._shape: tuple[int, ...] | None = None
        self._row_of: dict[bytes | str, int] = {}

    def add(self, value: Any, where: str) -> int:
        """Return the row of an instance among all that were added; ``where`` names it in errors."""
        name = str(value) if self.kind.has_form and isinstance(value, str | PathLike) else None
        if name is not None and name in self._row_of:
            return self._row_of[name]
        instance = self._checked(value, where)
        if self.kind.is_array:
            self._shape = self._shape or instance.shape
            if instance.shape != self._shape:
                sizes = [self.kind.describe_shape(shape)[0] for shape in (instance.shape, self._shape)]
                raise MIVError(f"{where}: {sizes[0]}, but the first image has {sizes[1]}.")
        row = self._row_of.setdefault(self.kind.digest(instance), self._count)
        if row == self._count:
            self._values.append(instance)
            self._count += 1
        if name is not None:
            self._row_of[name] = row
        return row

    def add_all(self, values: Any, where: str, first: int = 0) -> NDArray[np.int64]:
        """Return the rows ``(N,)`` of the instances of a bag; ``first`` is the place of the first one in it."""
        if not self.kind.is_vector:
            return np.array([self.add(value, f"{where}, instance {first + n}") for n, value in enumerate(values)])
        vectors = as_vectors(values, self._length or vector_length(values), where)  # all at once, without digests
        check_finite(vectors, where)
        self._length = vectors.shape[1]
        self._values.extend(vectors)
        self._count += len(vectors)
        return np.arange(self._count - len(vectors), self._count)

    def take_new(self) -> InstancePool | None:
        """Return the distinct instances added since the last call, then drop them and keep only their rows."""
        values, self._values = self._values, []
        return InstancePool(self.kind.name, self.kind.stack(values)) if values else None

    def _checked(self, value: Any, where: str) -> Any:
        if self.kind.has_form:
            return self._image(value, where)
        if self.kind.is_vector:
            self._length = self._length or vector_length([value])
            vector = as_vector(value, self._length, where)
            check_finite(vector[None], where)
            return vector
        if not isinstance(value, str):
            raise MIVError(f"{where} is a {type(value).__name__}. Expected a text: this verifier reads texts.")
        return str(value)  # NumPy has its own string type

    def _image(self, value: Any, where: str) -> NDArray[np.uint8]:
        if isinstance(value, str | PathLike | Image.Image):
            return self._picture(value, where)
        refuse_masked(value, where)
        pixels: NDArray[np.uint8] = self.kind.check(value, where)
        if self._form is None or pixels.shape == self._form.shape:
            return pixels
        return self._picture(Image.fromarray(pixels), where)

    def _picture(self, value: "str | PathLike[str] | Image.Image", where: str) -> NDArray[np.uint8]:
        if self._form is None:
            raise MIVError(
                f"{where}: this verifier does not record the size of its images, so files cannot be converted. Pass "
                'arrays, or add the size to its config.json, such as "instances": {"kind": "image", "height": 28, '
                '"width": 28, "mode": "L"}.'
            )
        colour = self._form.mode == "RGB"
        try:
            if isinstance(value, Image.Image):
                pixels = image_pixels(value, colour=colour)  # Pillow decodes a file only here
            else:
                pixels = read_image(Path(value), colour=colour)
        except (ValueError, OSError, MIVError) as error:
            raise MIVError(f"{where}: {error}") from error
        where = where if isinstance(value, Image.Image) else f"{where} ({value})"
        pixels = apply_steps(pixels, self._steps)
        if pixels.shape != self._form.shape:
            size, wanted = (self.kind.describe_shape(shape)[0] for shape in (pixels.shape, self._form.shape))
            raise MIVError(f"{where}: {size}. The verifier was trained on {wanted}. Convert it, or {USE_RESIZE}.")
        return pixels


def _steps(form: InstanceForm, resize: Fit | None) -> Steps:
    """The steps from the pixels of a file to an image of the verifier."""
    steps = form.steps or ()
    if resize is None:
        return steps
    if not sets_size(steps):
        return (*steps, resize_step(form.size, resize))
    fitted = with_fit(steps, resize)
    if fitted != steps:
        made_by = ", ".join(steps)
        logger.warning("resize is %r, but the verifier was trained on images made by: %s.", resize, made_by)
    return fitted
