"""Collect the images or texts that users pass, each distinct one once."""

import hashlib
import logging
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from miv.data.pool import InstanceForm, InstancePool
from miv.errors import MIVError
from miv.files.images import Fit, Steps, apply_steps, image_pixels, read_image, resize_step, sets_size, with_fit
from miv.files.instances import InstanceKind, refuse_masked
from miv.inference.given_instances import KIND_WORDS

logger = logging.getLogger(__name__)

USE_RESIZE = "use resize='stretch', 'crop' or 'pad' (--resize)"
"""What to do with images of another size; a service says it in the words of its requests."""


class DistinctInstances:
    """Collects images or texts: keeps each distinct one once and reads each file once.

    Args:
        kind: ``image`` or ``text``.
        form: size and mode of the verifier's images, and the steps from a file to them, if known. Files and Pillow
            images go through the steps; an array of the right size is taken as an instance.
        resize: how to resize an image of a different size. With ``None`` it is resized as the training images were; if
            they were not, it is an error.
    """

    def __init__(self, kind: InstanceKind, form: InstanceForm | None, resize: Fit | None) -> None:
        if resize not in (None, "stretch", "crop", "pad"):
            raise MIVError(f"resize is {resize!r}. Expected stretch, crop or pad.")
        if resize is not None and kind != "image":
            raise MIVError(f"resize is {resize!r}, but this verifier reads {KIND_WORDS[kind]}s, not images. Omit it.")
        self.kind, self._form, self._resize = kind, form, resize
        self._steps = () if form is None else _steps(form, resize)
        self._values: list[Any] = []  # not yet taken
        self._count = 0
        self._shape: tuple[int, ...] | None = None
        self._row_of: dict[bytes | str, int] = {}

    def add(self, given: Any, place: str) -> int:
        """Return the row of an instance among the distinct instances."""
        name = str(given) if self.kind == "image" and isinstance(given, str | PathLike) else None
        if name is not None and name in self._row_of:
            return self._row_of[name]
        value: Any = self._text(given, place) if self.kind == "text" else self._image(given, place)
        if isinstance(value, str):
            content = value.encode("utf-8", "surrogatepass")
        else:  # the same bytes may be a wide image or a tall one
            content = repr(value.shape).encode() + value.tobytes()
        row = self._row_of.setdefault(hashlib.blake2b(content, digest_size=16).digest(), self._count)
        if row == self._count:
            if not isinstance(value, str):
                self._shape = self._shape or value.shape
                if value.shape != self._shape:
                    raise MIVError(f"{place}: {_size(value.shape)}, but the first image has {_size(self._shape)}.")
            self._values.append(value)
            self._count += 1
        if name is not None:
            self._row_of[name] = row
        return row

    def take_new(self) -> InstancePool | None:
        """Return the distinct instances added since the last call, then drop them and keep only their rows."""
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
            raise MIVError(f"{place} is a {type(given).__name__}. Expected a text: this verifier reads texts.")
        if not given.strip():
            raise MIVError(f"{place} is an empty text. Remove it.")
        return str(given)  # NumPy has its own string type

    def _image(self, given: Any, place: str) -> NDArray[np.uint8]:
        if isinstance(given, str | PathLike | Image.Image):
            return self._picture(given, place)
        refuse_masked(given, place)
        pixels = np.asarray(given)
        colour = pixels.ndim == 3 and pixels.shape[2] == 3
        if pixels.dtype != np.uint8 or not (colour or pixels.ndim == 2) or not pixels.size:
            raise MIVError(
                f"{place} is {pixels.dtype} {pixels.shape}. Expected an image: a file, a Pillow image, or an array "
                "(H, W) or (H, W, 3) of uint8."
            )
        if self._form is None or pixels.shape == self._form.shape:
            return pixels
        return self._picture(Image.fromarray(pixels), place)

    def _picture(self, given: "str | PathLike[str] | Image.Image", place: str) -> NDArray[np.uint8]:
        if self._form is None:
            raise MIVError(
                f"{place}: this verifier does not record the size of its images, so files cannot be converted. "
                'Pass arrays, or add a line to its config.json, such as "instances": '
                '{"kind": "image", "height": 28, "width": 28, "mode": "L"}, with the size it was trained on.'
            )
        colour = self._form.mode == "RGB"
        if isinstance(given, Image.Image):
            try:
                pixels = image_pixels(given, colour=colour)
            except (ValueError, OSError) as error:  # Pillow decodes a file only here
                raise MIVError(f"{place}: cannot read this image: {error}.") from error
        else:
            try:
                pixels = read_image(Path(given), colour=colour)
            except MIVError as error:  # it already names the file
                raise MIVError(f"{place}: {error}") from error
            place = f"{place} ({given})"
        pixels = apply_steps(pixels, self._steps)
        if pixels.shape != self._form.shape:
            raise self._other_form(pixels, place)
        return pixels

    def _other_form(self, pixels: NDArray[np.uint8], place: str) -> MIVError:
        form = self._form
        wanted = "" if form is None else f"{form.height} × {form.width} {'colour' if form.mode == 'RGB' else 'grey'}"
        return MIVError(
            f"{place}: {_size(pixels.shape)}. The verifier was trained on {wanted} pixels. Convert it, or {USE_RESIZE}."
        )


def _steps(form: InstanceForm, resize: Fit | None) -> Steps:
    """The steps from the pixels of a file to an image of the verifier."""
    steps = form.steps or ()
    if resize is None:
        return steps
    if not sets_size(steps):
        return (*steps, resize_step(form.size, resize))
    fitted = with_fit(steps, resize)
    if fitted != steps:
        logger.warning(
            "resize is %r, but the images that the verifier was trained on were made by: %s. Its answers are for "
            "images made the same way; omit resize for that.",
            resize,
            ", ".join(steps),
        )
    return fitted


def _size(shape: tuple[int, ...]) -> str:
    return f"{shape[0]} × {shape[1]} {'colour' if len(shape) == 3 else 'grey'} pixels"
