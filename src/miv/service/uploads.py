"""Open an uploaded image: one of a few raster formats by its content, checked before anything is decoded."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from zipfile import is_zipfile

from PIL import Image

from miv.errors import MIVError
from miv.files.images import check_pixels

FORMATS = {
    "PNG": (b"\x89PNG\r\n\x1a\n",),
    "JPEG": (b"\xff\xd8\xff",),
    "GIF": (b"GIF87a", b"GIF89a"),
    "WEBP": (b"RIFF",),
    "BMP": (b"BM",),
    "TIFF": (b"II*\x00", b"MM\x00*"),
}
"""Formats by the bytes that a file begins with. Each is opened by its own decoder only."""

_EDGE = 1024  # bytes at both ends, where other programs look for a document or a page
_OTHERS = (b"%pdf-", b"<svg", b"<html", b"<script", b"<?php", b"<!doctype")


@contextmanager
def image_of_bytes(content: bytes, place: str, pixels: int) -> Iterator[Image.Image]:
    """Open an image of at most so many pixels; any failure, also later while it is decoded, names the ``place``."""
    kind = next((name for name, begins in FORMATS.items() if content.startswith(begins)), None)
    if kind is None:
        raise MIVError(f"{place} is not an image that can be read. Expected one of {', '.join(FORMATS)}.")
    if _is_other_file(content):
        raise MIVError(f"{place} holds more than a {kind} image. Save the picture again as a plain image.")
    try:
        with Image.open(io.BytesIO(content), formats=[kind]) as image:
            if image.width * image.height > pixels:
                raise MIVError(
                    f"{place} has {image.width:,} × {image.height:,} pixels. Expected at most {pixels:,}; make it "
                    "smaller."
                )
            if kind == "PNG":
                check_pixels(io.BytesIO(content))
            yield image
    except MIVError:
        raise
    except Image.DecompressionBombError as error:
        raise MIVError(f"{place} has far too many pixels. Expected at most {pixels:,}; make it smaller.") from error
    except Exception as error:  # Pillow's decoders raise many types on damaged files
        raise MIVError(f"{place}: the image is unreadable, truncated or damaged. Replace it.") from error


def _is_other_file(content: bytes) -> bool:
    """Whether a file is a polyglot: an image that other programs would read as an archive, a document or a page."""
    edges = (content[:_EDGE] + content[-_EDGE:]).lower()
    return is_zipfile(io.BytesIO(content)) or any(word in edges for word in _OTHERS)
