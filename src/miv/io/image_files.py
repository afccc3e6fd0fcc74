"""Read untrusted image files: the header is checked before anything is decoded."""

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
from miv.io.png_files import check_pixels

MAX_PIXELS = 50_000_000
"""Maximum number of pixels of an image (7,000 × 7,000), checked in the header."""

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm"})
"""Suffixes of image files, in lower case."""

Fit = Literal["stretch", "crop", "pad"]

# Pillow supports many more; some run other programs (EPS) or are rarely tested, and none is needed here.
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
_EXIF_ORIENTATION = 0x0112
_TWELVE_BITS = 4095  # a 16-bit image below this level uses fewer bits and would turn almost black


def read_image(
    path: str | PathLike[str],
    *,
    size: tuple[int, int] | None = None,
    colour: bool = False,
    fit: Fit = "stretch",
) -> NDArray[np.uint8]:
    """Return the pixels of an image file, ``(H, W)`` in grey or ``(H, W, 3)`` in colour.

    The camera's orientation (EXIF) is applied, transparent parts become white, 16-bit grey becomes 8-bit, and
    only the first frame of an animation is read. An unknown white level (12 or 32 bits, floating point)
    is an error.

    Args:
        path: the file.
        size: target ``(height, width)``; ``None`` keeps the original size.
        colour: three channels instead of one.
        fit: how to fit another shape to ``size``: ``stretch``, ``crop`` to the centre, or ``pad`` with black.

    Raises:
        MIVError: if the file is missing, truncated, not an image, or above ``MAX_PIXELS``.
    """
    with _opened(Path(path)) as image:
        if image.format == "PNG":
            check_pixels(Path(path))
        return image_pixels(image, size=size, colour=colour, fit=fit)


def image_pixels(
    image: Image.Image, *, size: tuple[int, int] | None = None, colour: bool = False, fit: Fit = "stretch"
) -> NDArray[np.uint8]:
    """Return the pixels of a Pillow image, as ``read_image`` does for a file.

    Raises:
        ValueError: if it is above ``MAX_PIXELS``, or its white level is unknown.
    """
    if image.width * image.height > MAX_PIXELS:
        raise ValueError(f"it has {image.width:,} × {image.height:,} pixels; the maximum is {MAX_PIXELS:,}")
    # Pillow also uses mode "I" for 16-bit images in these formats; their white is 65,535 by definition.
    deep = image.mode.startswith("I;16") or (image.mode == "I" and image.format in {"PNG", "PPM"})
    upright = ImageOps.exif_transpose(image)
    picture = _to_mode(_eight_bit(upright, deep=deep), "RGB" if colour else "L")
    if size is not None and picture.size != size[::-1]:
        picture = resized(picture, size, fit)
    return np.asarray(picture, dtype=np.uint8)


def image_size(path: str | PathLike[str]) -> tuple[int, int]:
    """Return the ``(height, width)`` of ``read_image``, reading only the header."""
    with _opened(Path(path)) as image:
        width, height = image.size
        # Pillow already applies the orientation to the size of a TIFF.
        turned = (
            image.format != "TIFF"
            and "exif" in image.info
            and image.getexif().get(_EXIF_ORIENTATION, 1) in {5, 6, 7, 8}
        )
        return (width, height) if turned else (height, width)


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
        if path.stat().st_size == 0:
            raise MIVError(f"{path}: the file is empty (0 bytes). Replace or remove it.") from error
        raise MIVError(
            f"{path}: not a readable image, or its header is damaged. "
            f"Expected one of {', '.join(_FORMATS)}; convert or remove the file."
        ) from error
    except MemoryError as error:
        raise MIVError(f"{path}: not enough memory to read this image. Make it smaller.") from error
    except Exception as error:  # Pillow's decoders raise many types on damaged files
        raise MIVError(
            f"{path}: the image is unreadable, truncated or damaged ({error}). Replace or remove it."
        ) from error


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


def _to_mode(image: Image.Image, mode: Literal["L", "RGB"]) -> Image.Image:
    if image.has_transparency_data:
        image = image.convert("RGBA")
        paper = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(paper, image)
    return image if image.mode == mode else image.convert(mode)


def resized(
    image: Image.Image, size: tuple[int, int], fit: Fit, resampling: Image.Resampling = Image.Resampling.BILINEAR
) -> Image.Image:
    """Fit an image to ``(height, width)``."""
    width_height = size[::-1]
    if fit == "crop":
        return ImageOps.fit(image, width_height, resampling)
    if fit == "pad":
        return ImageOps.pad(image, width_height, resampling)
    return image.resize(width_height, resampling)
