"""The steps between the pixels of an image file and an instance, in words that a file can hold."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from miv.errors import MIVError
from miv.io.image_files import Fit, resized
from miv.io.otsu import black_and_white

Steps = tuple[str, ...]
"""Each is ``otsu`` (black and white by Otsu's threshold), ``invert`` (white becomes black) or ``resize ...``."""

_MOST_STEPS = 16
_LARGEST_SIDE = 10_000
_RESIZE = re.compile(r"resize ([0-9]{1,5})x([0-9]{1,5}) (stretch|crop|pad) (bilinear|lanczos)")
_FILTERS = {"bilinear": Image.Resampling.BILINEAR, "lanczos": Image.Resampling.LANCZOS}


def resize_step(size: tuple[int, int], fit: Fit = "stretch", resampling: str = "bilinear") -> str:
    """Return the step that fits an image to ``(height, width)``.

    >>> resize_step((64, 48), "pad")
    'resize 64x48 pad bilinear'
    """
    return f"resize {size[0]}x{size[1]} {fit} {resampling}"


def checked_steps(given: Any, *, colour: bool) -> Steps:
    """Return the steps that a file lists; anything else is an error."""
    steps = tuple(given) if isinstance(given, list | tuple) and len(given) <= _MOST_STEPS else None
    known = steps is not None and all(isinstance(step, str) and _is_step(step) for step in steps)
    if steps is None or not known or (colour and "otsu" in steps):
        raise MIVError(
            f"steps is {str(given)[:80]}. Expected a list of at most {_MOST_STEPS} of otsu (for grey images), invert, "
            f"and resize with a size of at most {_LARGEST_SIDE:,}, such as {resize_step((64, 48))}."
        )
    return steps


def apply_steps(pixels: NDArray[np.uint8], steps: Steps) -> NDArray[np.uint8]:
    """Return the pixels ``(H, W)`` or ``(H, W, 3)`` after all steps.

    >>> scan = np.array([[10, 200], [250, 20]], np.uint8)
    >>> apply_steps(scan, ("otsu", "invert")).tolist()
    [[255, 0], [0, 255]]
    """
    for step in steps:
        if step == "otsu":
            pixels = black_and_white(pixels)
        elif step == "invert":
            pixels = 255 - pixels
        else:
            pixels = _resize(pixels, step)
    return pixels


def sets_size(steps: Steps) -> bool:
    """Whether images of every size end in one size."""
    return any(step.startswith("resize") for step in steps)


def with_fit(steps: Steps, fit: Fit) -> Steps:
    """Return the same steps with another way to fit images.

    >>> with_fit(("otsu", "resize 8x8 stretch bilinear"), "crop")
    ('otsu', 'resize 8x8 crop bilinear')
    """
    return tuple(_RESIZE.sub(rf"resize \1x\2 {fit} \4", step) for step in steps)


def _is_step(step: str) -> bool:
    match = _RESIZE.fullmatch(step)
    return step in ("otsu", "invert") if match is None else all(1 <= int(match[n]) <= _LARGEST_SIDE for n in (1, 2))


def _resize(pixels: NDArray[np.uint8], step: str) -> NDArray[np.uint8]:
    match = _RESIZE.fullmatch(step)
    if match is None:
        raise MIVError(f"There is no step {step!r}. Expected otsu, invert or resize.")
    size = int(match[1]), int(match[2])
    if pixels.shape[:2] == size:
        return pixels
    fit: Any = match[3]
    return np.asarray(resized(Image.fromarray(pixels), size, fit, _FILTERS[match[4]]), dtype=np.uint8)
