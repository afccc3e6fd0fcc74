"""Image files from outside, read with suspicion: nothing is decoded before its header has been believed."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from miv.errors import MIVError

MAX_PIXELS = 50_000_000
"""The largest image that is decoded, in pixels (7,000 × 7,000). A bigger one is refused from its header."""

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm"})
"""File names that are taken for images, in lower case."""

Fit = Literal["stretch", "crop", "pad"]

# Pillow knows many more, some of which start other programs (EPS) or are rarely tested; none is needed here.
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
_EXIF_ORIENTATION = 0x0112
_TWELVE_BITS = 4095  # a 16-bit image that never goes above holds fewer bits, and would turn almost black


def read_image(
    path: str | PathLike[str],
    *,
    size: tuple[int, int] | None = None,
    colour: bool = False,
    fit: Fit = "stretch",
) -> NDArray[np.uint8]:
    """Return the pixels of an image file, ``(H, W)`` in grey or ``(H, W, 3)`` in colour.

    The camera's orientation (EXIF) is applied, transparent parts become white, 16-bit grey becomes 8-bit, and
    of an animation the first picture counts. Grey levels whose white is not known (12 or 32 bits, floating point)
    are refused.

    Args:
        path: the file.
        size: the wanted ``(height, width)``; ``None`` keeps the file's own.
        colour: three channels instead of one.
        fit: how another shape becomes ``size``: ``stretch`` it, ``crop`` the middle, or ``pad`` with black.

    Raises:
        MIVError: naming the file, where it is missing, truncated, not an image, or above ``MAX_PIXELS``.
    """
    with _opened(Path(path)) as image:
        return image_pixels(image, size=size, colour=colour, fit=fit)


def image_pixels(
    image: Image.Image, *, size: tuple[int, int] | None = None, colour: bool = False, fit: Fit = "stretch"
) -> NDArray[np.uint8]:
    """Return the pixels of a Pillow image as ``read_image`` does those of a file.

    Raises:
        ValueError: where it is above ``MAX_PIXELS``, or what is white is not known.
    """
    if image.width * image.height > MAX_PIXELS:
        raise ValueError(f"it has {image.width:,} × {image.height:,} pixels; at most {MAX_PIXELS:,} are read")
    # Pillow calls the 16 bits of these formats "I" too; there white is 65,535 by definition.
    deep = image.mode.startswith("I;16") or (image.mode == "I" and image.format in {"PNG", "PPM"})
    upright = ImageOps.exif_transpose(image)
    picture = _to_mode(_eight_bit(upright, deep=deep), "RGB" if colour else "L")
    if size is not None and picture.size != size[::-1]:
        picture = _resized(picture, size, fit)
    return np.asarray(picture, dtype=np.uint8)


def image_size(path: str | PathLike[str]) -> tuple[int, int]:
    """Return the ``(height, width)`` that ``read_image`` gives, from the header alone."""
    with _opened(Path(path)) as image:
        width, height = image.size
        # Pillow has turned the size of a TIFF already.
        turned = (
            image.format != "TIFF"
            and "exif" in image.info
            and image.getexif().get(_EXIF_ORIENTATION, 1) in {5, 6, 7, 8}
        )
        return (width, height) if turned else (height, width)


@contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    """Open an image whose header is sound; whatever then goes wrong becomes one error naming the file."""
    try:
        if not path.is_file():  # a folder, or a pipe that would never end
            what = "is not a file" if path.exists() else "does not exist"
            raise MIVError(f"{path}: this image {what}. Give the path of an image file.")
        # An open file, not a path: from a path Pillow maps plain TIFFs and then loses their orientation.
        with path.open("rb") as file, warnings.catch_warnings():
            # Our limit is lower than the one Pillow warns at; odd metadata does not matter, odd pixels raise.
            warnings.simplefilter("ignore")
            with Image.open(file, formats=_FORMATS) as image:
                width, height = image.size
                if width * height > MAX_PIXELS:
                    raise _too_large(path, f"{width:,} × {height:,} pixels")
                yield image
    except MIVError:
        raise
    except Image.DecompressionBombError as error:
        raise _too_large(path, "far too many pixels") from error
    except UnidentifiedImageError as error:
        raise MIVError(
            f"{path}: not an image that can be read, or damaged at its beginning. "
            f"Expected one of {', '.join(_FORMATS)}; convert or remove the file."
        ) from error
    except MemoryError as error:
        raise MIVError(f"{path}: not enough memory to read this image. Make it smaller.") from error
    except Exception as error:  # Pillow's decoders raise many types on damaged files
        raise MIVError(
            f"{path}: this image cannot be read, is truncated or damaged ({error}). Replace or remove it."
        ) from error


def _too_large(path: Path, what: str) -> MIVError:
    return MIVError(f"{path}: the image has {what}; at most {MAX_PIXELS:,} are read. Make it smaller first.")


def _eight_bit(image: Image.Image, *, deep: bool) -> Image.Image:
    """Make grey of more than 8 bits 8-bit, which Pillow would clip at 255; refuse a range that is a guess."""
    if image.mode == "F":
        raise ValueError("its grey levels are floating point numbers without a known range; save it as 8-bit")
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
        f"its {bits} grey levels go from {lowest:,} to {highest:,}, which leaves open what is white; save it as 8-bit"
    )


def _to_mode(image: Image.Image, mode: Literal["L", "RGB"]) -> Image.Image:
    if image.has_transparency_data:
        image = image.convert("RGBA")
        paper = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(paper, image)
    return image if image.mode == mode else image.convert(mode)


def _resized(image: Image.Image, size: tuple[int, int], fit: Fit) -> Image.Image:
    width_height = size[::-1]
    if fit == "crop":
        return ImageOps.fit(image, width_height, Image.Resampling.BILINEAR)
    if fit == "pad":
        return ImageOps.pad(image, width_height, Image.Resampling.BILINEAR)
    return image.resize(width_height, Image.Resampling.BILINEAR)
