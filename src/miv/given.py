"""Instances as people give them to a verifier (files, arrays, pictures, texts, vectors) as checked values."""

import hashlib
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from miv.errors import MivError
from miv.exemplars.pool import InstancePool, Kind
from miv.images import Fit, image_pixels, read_image
from miv.instance_files import files_in, is_folder, read_text_file, read_vectors_file, short
from miv.instance_form import InstanceForm

_WORDS: dict[Kind, str] = {"image": "image", "text": "text", "features": "feature vector"}


class Places:
    """What errors call the queries and bags of exemplars.

    Args:
        rows: where each exemplar came from, such as "pairs.csv, line 3"; ``None`` counts them from 0.

    >>> Places().query(2), Places(["pairs.csv, line 3"]).bag(0), ALONE.member(0, 4)
    ('Query 2', 'pairs.csv, line 3: the bag', 'The bag, instance 4')
    """

    def __init__(self, rows: Sequence[str] | None = None) -> None:
        self._rows = rows

    @property
    def are_named(self) -> bool:
        """Whether exemplars have names of their own."""
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


ALONE = Places([""])
"""The one query and the one bag, which need no number."""


def with_folders(bags: Any, kind: Kind) -> Any:
    """Return the bags with the instances of a folder in place of its name."""
    if isinstance(bags, str) or not isinstance(bags, Sequence):  # no list of names
        return bags
    return [_in_folder(Path(bag), kind) if _is_folder_name(bag) else bag for bag in bags]


def _is_folder_name(bag: Any) -> bool:
    return isinstance(bag, str | PathLike) and str(bag) != "" and is_folder(bag)


def _in_folder(folder: Path, kind: Kind) -> list[Any]:
    files = files_in(folder, kind)
    if kind == "image":
        return list(files)
    if kind == "text":
        return [read_text_file(file) for file in files]
    return [vector for file in files for vector in read_vectors_file(file)]


def check_bags(queries: Any, bags: Any, kind: Kind, places: Places | None = None) -> None:
    """Refuse what is not one bag for each query, and a bag that is one instance or none."""
    places = places or Places()
    if isinstance(queries, str | PathLike | Image.Image) or isinstance(bags, str | PathLike | Image.Image):
        raise MivError("One instance was given. Expected a list of queries and a list of bags.")
    if _length(queries, "The queries") != _length(bags, "The bags"):
        raise MivError(f"There are {len(queries)} queries and {len(bags)} bags. Expected one query a bag.")
    if not len(bags):
        raise MivError("There is no exemplar. Expected at least one query and its bag.")
    for number, bag in enumerate(bags):
        if isinstance(bag, str | PathLike | Image.Image):
            given = "" if isinstance(bag, Image.Image) else f" ({bag})" if kind == "image" else f" ({short(str(bag))})"
            raise MivError(
                f"{places.bag(number)} is one {_WORDS[kind]}{given}. Expected a list of them, or the path of "
                "a folder that is there."
            )
        if not _length(bag, places.bag(number)):
            raise MivError(f"{places.bag(number)} is empty. Expected at least one instance.")


def _length(given: Any, what: str) -> int:
    try:
        return len(given)
    except TypeError as error:  # a number, a generator that can be read but once, an array without a dimension
        raise MivError(f"{what}: a {type(given).__name__} was given. Expected a list, an array or a tensor.") from error


def as_vectors(given: Any, channels: int, place: str) -> NDArray[np.float32]:
    """Return vectors ``(N, C)`` from an array, a tensor or a list of such."""
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


def _other_shape(vectors: NDArray[np.float32], expected: str, channels: int, place: str) -> MivError:
    return MivError(
        f"{place} has the shape {vectors.shape}. Expected {expected}: the verifier was made for vectors of "
        f"{channels} numbers."
    )


def _as_numbers(given: Any, place: str) -> NDArray[np.float32]:
    if isinstance(given, Tensor):
        given = _from_tensor(given)
    elif isinstance(given, Sequence) and len(given) and isinstance(given[0], Tensor):
        given = [_from_tensor(vector) for vector in given]
    try:
        numbers = np.asarray(given)
        if numbers.dtype.kind in "cmM":
            raise MivError(f"{place}: these are {numbers.dtype}, complex numbers or times. Expected real numbers.")
        return numbers.astype(np.float32, copy=False)
    except MivError:
        raise
    except (ValueError, TypeError, OverflowError) as error:
        lengths = sorted({len(vector) for vector in given if hasattr(vector, "__len__")})
        if len(lengths) > 1:
            some = " and ".join(map(str, lengths[:2]))
            raise MivError(f"{place}: these are not vectors of one length, but of {some} numbers.") from error
        raise MivError(f"{place}: these are not numbers. Expected vectors, each a row of numbers.") from error


def _from_tensor(given: Tensor) -> NDArray[Any]:
    given = given.detach().cpu()
    return (given if given.is_complex() else given.float()).numpy()


def check_finite(vectors: NDArray[np.float32], what: str) -> None:
    """Refuse vectors ``(N, C)`` in which a number is NaN or infinite."""
    if is_finite(vectors):
        return
    row = int((~np.isfinite(vectors)).any(axis=1).argmax())
    which = f"vector {row} of these {len(vectors)}" if len(vectors) > 1 else "the vector"
    raise MivError(f"{what}: {which} has a number that is NaN or infinite.")


def is_finite(vectors: NDArray[np.float32]) -> bool:
    """Whether no number is NaN or infinite."""
    # A sum is finite only where all numbers are, and quick; one that is not may have overflowed, so look at each.
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(vectors.sum()) or np.isfinite(vectors).all())


class Gathering:
    """Collects images or texts, each distinct one once and each file read once.

    Args:
        kind: ``image`` or ``text``.
        form: what the verifier's images are, where it is known.
        resize: how an image of another size is brought to it; ``None`` refuses it.
    """

    def __init__(self, kind: Kind, form: InstanceForm | None, resize: Fit | None) -> None:
        if resize not in (None, "stretch", "crop", "pad"):
            raise MivError(f"resize is {resize!r}. Expected stretch, crop or pad.")
        if resize is not None and kind != "image":
            raise MivError(f"resize is {resize!r}, but this verifier reads {_WORDS[kind]}s, no images. Leave it out.")
        self.kind, self._form, self._resize = kind, form, resize
        self._values: list[Any] = []  # those that were not taken yet
        self._count = 0
        self._shape: tuple[int, ...] | None = None
        self._row_of: dict[bytes | str, int] = {}

    def add(self, given: Any, place: str) -> int:
        """Return the row of an instance among all that are distinct."""
        name = str(given) if self.kind == "image" and isinstance(given, str | PathLike) else None
        if name is not None and name in self._row_of:
            return self._row_of[name]
        value: Any = self._text(given, place) if self.kind == "text" else self._image(given, place)
        if isinstance(value, str):
            content = value.encode("utf-8", "surrogatepass")
        else:  # the same bytes may be a wide image and a high one
            content = repr(value.shape).encode() + value.tobytes()
        row = self._row_of.setdefault(hashlib.blake2b(content, digest_size=16).digest(), self._count)
        if row == self._count:
            if not isinstance(value, str):
                self._shape = self._shape or value.shape
                if value.shape != self._shape:
                    raise MivError(f"{place}: {_size(value.shape)}, but the first image has {_size(self._shape)}.")
            self._values.append(value)
            self._count += 1
        if name is not None:
            self._row_of[name] = row
        return row

    def take_new(self) -> InstancePool | None:
        """Return the distinct instances since this was last called, which are then forgotten but for their rows."""
        taken, self._values = self._values, []
        if not taken:
            return None
        if self.kind == "image":
            return InstancePool("image", np.stack(taken))
        values = np.empty(len(taken), object)
        values[:] = taken
        return InstancePool("text", values)

    def _text(self, given: Any, place: str) -> str:
        if not isinstance(given, str):
            raise MivError(f"{place} is a {type(given).__name__}. Expected a text: this verifier reads texts.")
        if not given.strip():
            raise MivError(f"{place} is an empty text. Leave it out.")
        return str(given)  # NumPy has strings of its own

    def _image(self, given: Any, place: str) -> NDArray[np.uint8]:
        if isinstance(given, str | PathLike | Image.Image):
            return self._picture(given, place)
        pixels = np.asarray(given)
        colour = pixels.ndim == 3 and pixels.shape[2] == 3
        if pixels.dtype != np.uint8 or not (colour or pixels.ndim == 2) or not pixels.size:
            raise MivError(
                f"{place} is {pixels.dtype} {pixels.shape}. Expected an image: a file, a Pillow image, or an array "
                "(H, W) or (H, W, 3) of uint8."
            )
        if self._form is None or pixels.shape == self._form.shape:
            return pixels
        return self._picture(Image.fromarray(pixels), place)

    def _picture(self, given: "str | PathLike[str] | Image.Image", place: str) -> NDArray[np.uint8]:
        if self._form is None:
            raise MivError(
                f"{place}: this verifier does not say what its images are, so no file can be brought to their form. "
                'Give arrays, or add a line to its config.json, such as "instances": '
                '{"kind": "image", "height": 28, "width": 28, "mode": "L"}, with the size it was trained on.'
            )
        size = None if self._resize is None else self._form.size
        colour, fit = self._form.mode == "RGB", self._resize or "stretch"
        if isinstance(given, Image.Image):
            try:
                pixels = image_pixels(given, size=size, colour=colour, fit=fit)
            except (ValueError, OSError) as error:  # a file that was only now decoded
                raise MivError(f"{place}: this image cannot be read: {error}.") from error
        else:
            try:
                pixels = read_image(Path(given), size=size, colour=colour, fit=fit)
            except MivError as error:  # it names the file
                raise MivError(f"{place}: {error}") from error
            place = f"{place} ({given})"
        if pixels.shape != self._form.shape:
            raise self._other_form(pixels, place)
        return pixels

    def _other_form(self, pixels: NDArray[np.uint8], place: str) -> MivError:
        form = self._form
        wanted = "" if form is None else f"{form.height} × {form.width} {'colour' if form.mode == 'RGB' else 'grey'}"
        return MivError(
            f"{place}: {_size(pixels.shape)}. The verifier was trained on {wanted} pixels. Bring it to that form, or "
            "let it be resized: resize='stretch', 'crop' or 'pad' (--resize)."
        )


def _size(shape: tuple[int, ...]) -> str:
    return f"{shape[0]} × {shape[1]} {'colour' if len(shape) == 3 else 'grey'} pixels"
