"""Open an uploaded image: one of a few raster formats by its content, checked before anything is decoded."""

import io
from collections.abc import Iterator
from contextlib import contextmanager

from PIL import Image, UnidentifiedImageError

from miv.errors import MIVError
from miv.files.images import check_pixels

FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")
_HEAD, _TAIL = 1024, 66_000  # where other programs look for a PDF or a page, and for the index of a ZIP archive
_OTHERS = (b"%pdf-", b"<svg", b"<html", b"<script", b"<?php", b"<!doctype")


@contextmanager
def image_of_bytes(content: bytes, place: str, pixels: int) -> Iterator[Image.Image]:
    """Open an image of at most so many pixels; any failure, also later while it is decoded, names the ``place``."""
    if holds_more(content):
        raise MIVError(f"{place} holds more than an image. Save the picture again as a plain image.")
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            if image.width * image.height > pixels:
                size = f"{image.width:,} × {image.height:,} pixels"
                raise MIVError(f"{place} has {size}. Expected at most {pixels:,}; make it smaller.")
            if image.format == "PNG":
                check_pixels(io.BytesIO(content))
            yield image
    except MIVError:
        raise
    except UnidentifiedImageError:
        raise MIVError(f"{place} is not an image that can be read. Expected one of {', '.join(FORMATS)}.") from None
    except Image.DecompressionBombError as error:
        raise MIVError(f"{place} has far too many pixels. Expected at most {pixels:,}; make it smaller.") from error
    except Exception as error:  # Pillow's decoders raise many types on damaged files
        raise MIVError(f"{place}: the image is unreadable, truncated or damaged. Replace it.") from error


def holds_more(content: bytes) -> bool:
    """Whether a file is a polyglot: an image that other programs would read as an archive, a document or a page."""
    if b"PK\x05\x06" in content[-_TAIL:]:
        return True
    return any(word in part.lower() for word in _OTHERS for part in (content[:_HEAD], content[-_TAIL:]))
