"""Read untrusted image files: the header is checked before anything is decoded."""

import base64
import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from miv.errors import MIVError

# Otsu's threshold: black and white from grey.


def otsu_threshold(image: NDArray[np.uint8]) -> int:
    r"""Return the grey level ``t`` that parts dark (``<= t``) from light best.

    .. math:: t = \arg\max_t\; w_0 w_1 (\mu_0 - \mu_1)^2

    with the shares :math:`w` and the means :math:`\mu` of both parts (Otsu, 1979); the lowest of equals. An
    image of one level has nothing to part: 0 if it is black, else the level below, so that it is all light.
    """
    count = np.bincount(image.ravel(), minlength=256).astype(np.float64)
    level = np.arange(256)
    dark, light = np.cumsum(count), count.sum() - np.cumsum(count)
    dark_sum = np.cumsum(count * level)
    split = (dark > 0) & (light > 0)
    if not split.any():
        return max(int(image.max()) - 1, 0)
    dark_mean = dark_sum / np.maximum(dark, 1)
    light_mean = (dark_sum[-1] - dark_sum) / np.maximum(light, 1)
    between = np.where(split, dark * light * (dark_mean - light_mean) ** 2, -1)
    return int(between.argmax())


def black_and_white(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return 0 where the image is dark and 255 where it is light."""
    return np.where(image <= otsu_threshold(image), 0, 255).astype(np.uint8)


# Untrusted files.


def check_pixels(png: Path | BinaryIO) -> None:
    """Raise an error if a part of a PNG does not match its checksum: Pillow shows what cannot be unpacked as black."""
    with Image.open(png, formats=["PNG"]) as image:
        image.verify()


MAX_PIXELS = 50_000_000
"""Maximum number of pixels of an image (7,000 × 7,000), checked in the header."""

_HEIC = frozenset({".heic", ".heif"})  # photographs of telephones
IMAGE_SUFFIXES = _HEIC | {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm"}
"""Suffixes of image files, in lower case; those of HEIC are read if pillow-heif is installed."""

Fit = Literal["stretch", "crop", "pad"]

# Pillow supports many more; some run other programs (EPS) or are rarely tested, and none is needed here.
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
_TWELVE_BITS = 4095  # a 16-bit image below this level uses fewer bits and would turn almost black


_GREY_MODES = ("1", "L", "LA", "La", "F")  # of Pillow, and those with more bits, which begin with I


def read_image(path: str | PathLike[str], *, colour: bool | None = False) -> NDArray[np.uint8]:
    """Return the pixels of an image file, ``(H, W)`` in grey or ``(H, W, 3)`` in colour.

    With ``colour=None`` they are as in the file: in grey if no pixel has a colour, whatever the format of the file.
    The camera's orientation (EXIF) is applied, transparent parts become white, 16-bit grey becomes 8-bit, and
    only the first frame of an animation is read. An unknown white level (12 or 32 bits, floating point) is an error,
    and so is a file that is missing, truncated, not an image, or above ``MAX_PIXELS``.
    """
    with _opened(Path(path)) as image:
        if image.format == "PNG":
            check_pixels(Path(path))
        return image_pixels(image, colour=colour)


def _may_have_colour(image: Image.Image) -> bool:
    return image.mode not in _GREY_MODES and not image.mode.startswith("I")


def image_pixels(image: Image.Image, *, colour: bool | None = False) -> NDArray[np.uint8]:
    """Return the pixels of a Pillow image, as ``read_image`` does for a file; its errors are ``ValueError``."""
    if image.width * image.height > MAX_PIXELS:
        raise ValueError(f"it has {image.width:,} × {image.height:,} pixels; the maximum is {MAX_PIXELS:,}")
    # Pillow also uses mode "I" for 16-bit images in these formats; their white is 65,535 by definition.
    deep = image.mode.startswith("I;16") or (image.mode == "I" and image.format in {"PNG", "PPM"})
    upright = ImageOps.exif_transpose(image)
    opaque = _eight_bit(upright, deep=deep)
    if opaque.has_transparency_data:
        transparent = opaque.convert("RGBA")
        opaque = Image.alpha_composite(Image.new("RGBA", transparent.size, "white"), transparent)
    in_colour = _may_have_colour(image) if colour is None else colour
    pixels = np.asarray(opaque.convert("RGB" if in_colour else "L"), dtype=np.uint8)
    if colour is None and in_colour and bool((pixels == pixels[:, :, :1]).all()):
        return np.ascontiguousarray(pixels[:, :, 0])
    return pixels


@contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    """Open an image with a valid header; any later failure becomes one error that names the file."""
    try:
        if not path.is_file():  # a folder, or an endless pipe
            what = "is not a file" if path.exists() else "does not exist"
            raise MIVError(f"{path}: this image {what}. Give the path of an image file.")
        # Pass an open file: from a path, Pillow maps plain TIFFs and loses their orientation.
        with path.open("rb") as file, warnings.catch_warnings():
            # Our limit is below Pillow's warning level; odd metadata does not matter, and odd pixels raise.
            warnings.simplefilter("ignore")
            with Image.open(file, formats=_formats(path)) as image:
                width, height = image.size
                if width * height > MAX_PIXELS:
                    raise _too_large(path, f"{width:,} × {height:,} pixels")
                yield image
    except MIVError:
        raise
    except Image.DecompressionBombError as error:
        raise _too_large(path, "far too many pixels") from error
    except UnidentifiedImageError as error:
        if path.stat().st_size == 0:
            raise MIVError(f"{path}: the file is empty (0 bytes). Replace or remove it.") from error
        raise MIVError(f"{path}: not a readable image. Expected one of {', '.join(_FORMATS)}.") from error
    except MemoryError as error:
        raise MIVError(f"{path}: not enough memory to read this image. Make it smaller.") from error
    except Exception as error:  # Pillow's decoders raise many types on damaged files
        raise MIVError(f"{path}: the image is truncated or damaged ({error}). Replace or remove it.") from error


def _formats(path: Path) -> tuple[str, ...]:
    """The formats that a file may have."""
    if path.suffix.lower() not in _HEIC:
        return _FORMATS
    try:
        import_module("pillow_heif").register_heif_opener()
    except ImportError as error:
        remedy = "pip install pillow-heif, or save the image as JPEG or PNG"
        raise MIVError(f"{path}: HEIC images need pillow-heif. Run {remedy}.") from error
    return (*_FORMATS, "HEIF")


def _too_large(path: Path, what: str) -> MIVError:
    return MIVError(f"{path}: the image has {what}; the maximum is {MAX_PIXELS:,}. Make it smaller.")


def _eight_bit(image: Image.Image, *, deep: bool) -> Image.Image:
    """Convert grey with more than 8 bits, which Pillow would clip at 255, to 8-bit; an unknown range is an error."""
    if image.mode == "F":
        raise ValueError("its grey levels are floating point numbers of unknown range; save it as 8-bit")
    if not image.mode.startswith("I"):
        return image
    levels = np.asarray(image)
    lowest, highest = int(levels.min()), int(levels.max())
    if deep and (highest > _TWELVE_BITS or highest == 0):
        return Image.fromarray((levels // 256).astype(np.uint8))
    if not deep and lowest >= 0 and highest <= 255:
        return Image.fromarray(levels.astype(np.uint8))
    bits = "16-bit" if deep else "32-bit"
    raise ValueError(
        f"its {bits} grey levels go from {lowest:,} to {highest:,}, so its white level is unknown; save it as 8-bit"
    )


SHOWN_SIDE = 192  # pixels of a picture on a page


def picture_of(pixels: NDArray[np.uint8]) -> str:
    """An image ``(H, W)`` or ``(H, W, 3)``, made small, as a data URI."""
    image, file = Image.fromarray(np.ascontiguousarray(pixels)), io.BytesIO()
    image.thumbnail((SHOWN_SIDE, SHOWN_SIDE))
    image.save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")


# The steps between the pixels of an image file and an instance, in words that a file can hold.

Steps = tuple[str, ...]
"""Each is ``otsu`` (black and white by Otsu's threshold), ``invert`` (white becomes black) or ``resize ...``."""

_MOST_STEPS = 16
LARGEST_SIDE = 10_000
_RESIZE = re.compile(r"resize ([0-9]{1,5})x([0-9]{1,5}) (stretch|crop|pad) (bilinear|lanczos)")
_FITS = {"stretch": Image.Image.resize, "crop": ImageOps.fit, "pad": ImageOps.pad}
_FILTERS = {"bilinear": Image.Resampling.BILINEAR, "lanczos": Image.Resampling.LANCZOS}


def resize_step(size: tuple[int, int], fit: Fit = "stretch", resampling: str = "bilinear") -> str:
    """Return the step that fits an image to ``(height, width)``."""
    return f"resize {size[0]}x{size[1]} {fit} {resampling}"


def checked_steps(steps: Any, *, colour: bool) -> Steps:
    """Return the steps that a file lists; anything else is an error."""
    is_list = isinstance(steps, list | tuple) and len(steps) <= _MOST_STEPS and all(map(_is_step, steps))
    if not is_list or (colour and "otsu" in steps):
        raise MIVError(
            f"steps is {str(steps)[:80]}. Expected a list of at most {_MOST_STEPS} of otsu (for grey images), invert, "
            f"and resize with a size of at most {LARGEST_SIDE:,}, such as {resize_step((64, 48))}."
        )
    return tuple(steps)


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
        elif match := _RESIZE.fullmatch(step):
            height, width = int(match[1]), int(match[2])
            fit: Any = _FITS[match[3]]
            if pixels.shape[:2] != (height, width):
                pixels = np.asarray(fit(Image.fromarray(pixels), (width, height), _FILTERS[match[4]]), dtype=np.uint8)
        else:
            raise MIVError(f"There is no step {step!r}. Expected otsu, invert or resize.")
    return pixels


def sets_size(steps: Steps) -> bool:
    """Whether images of every size end in one size."""
    return any(step.startswith("resize") for step in steps)


def with_fit(steps: Steps, fit: Fit) -> Steps:
    """Return the same steps with another way to fit images."""
    return tuple(_RESIZE.sub(rf"resize \1x\2 {fit} \4", step) for step in steps)


def _is_step(step: object) -> bool:
    match = _RESIZE.fullmatch(step) if isinstance(step, str) else None
    return step in ("otsu", "invert") if match is None else all(1 <= int(match[n]) <= LARGEST_SIDE for n in (1, 2))


@dataclass(frozen=True)
class ImageForm:
    """Target form of all images.

    Args:
        size: resize all images to height x width, such as 64x64, or one number for both. Without it, all must have
            the same size.
        colour: make all images colour or grey images. By default they stay as the files are: grey only if no file has a
            colour.
        fit: how to fit images of another shape: stretch, crop to the centre, or pad with black.
        binarise: make scans black and white, by Otsu's threshold, before resizing.
        invert: swap black and white, before resizing.
    """

    size: tuple[int, int] | int | str | None = None
    colour: bool | None = field(default=None, metadata={"flags": ("--colour/--grey",), "shown": "as the files are"})
    fit: Fit = field(default="stretch", metadata={"name": "resize"})
    binarise: bool = field(default=False, metadata={"flags": ("--binarise",)})
    invert: bool = field(default=False, metadata={"flags": ("--invert",)})

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", parse_size(self.size))
        if self.fit not in {"stretch", "crop", "pad"}:
            raise MIVError(f"resize is {self.fit!r}. Expected stretch, crop or pad.")
        if self.binarise and self.colour:
            raise MIVError("Images cannot be in colour and binarised. Omit --colour or --binarise.")

    def read(self, path: Path) -> NDArray[np.uint8]:
        """Return the instance in a file; with ``colour=None``, ``(H, W)`` or ``(H, W, 3)`` as the file is."""
        return apply_steps(read_image(path, colour=False if self.binarise else self.colour), self.steps)

    @property
    def steps(self) -> Steps:
        """The steps from the pixels of a file to an instance."""
        size = parse_size(self.size)
        fitting = () if size is None else (resize_step(size, self.fit),)
        return ("otsu",) * self.binarise + ("invert",) * self.invert + fitting


def parse_size(size: object) -> tuple[int, int] | None:
    """Height and width of an image: both, one number for both, or a text such as ``64x48``.

    >>> parse_size("112x96"), parse_size(32), parse_size([112, 96])
    ((112, 96), (32, 32), (112, 96))
    """
    if size is None:
        return None
    sides: Any = size
    if isinstance(size, str):
        texts = size.lower().replace("×", "x").split("x")
        sides = [int(side) if side.strip().isdecimal() and len(side) < 6 else 0 for side in texts]
    sides = [sides] if isinstance(sides, int) else sides
    fits = isinstance(sides, list | tuple) and len(sides) in (1, 2)
    if not fits or not all(type(side) is int and 1 <= side <= LARGEST_SIDE for side in sides):
        wanted = f"height x width, such as 64x48, or one number, such as 64; at most {LARGEST_SIDE:,} pixels"
        raise MIVError(f"The image size is {str(size)[:60]!r}. Expected {wanted}.")
    return sides[0], sides[-1]
