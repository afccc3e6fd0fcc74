"""Open an uploaded image: one of a few raster formats by its content, checked before anything is decoded."""

import base64
import io
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from PIL import Image, ImageOps

from miv.errors import MIVError
from miv.files.images import check_pixels

FORMATS = {
    "PNG": (b"\x89PNG\r\n\x1a\n",),
    "JPEG": (b"\xff\xd8\xff",),
    "GIF": (b"GIF87a", b"GIF89a"),
    "WEBP": (b"RIFF",),
    "BMP": (b"BM",),
    "TIFF": (b"II*\x00", b"MM\x00*"),
    "PPM": (b"P5", b"P6"),
}
"""Formats by the bytes that a file begins with. Each is opened by its own decoder only."""

_HEAD, _TAIL = 1024, 66_000  # where other programs look for a PDF or a page, and for the index of a ZIP archive
_OTHERS = (b"%pdf-", b"<svg ", b"<html", b"<script", b"<?php", b"<!doctype")


@contextmanager
def image_of_bytes(content: bytes, place: str, pixels: int) -> Iterator[Image.Image]:
    """Open an image of at most so many pixels; any failure, also later while it is decoded, names the ``place``."""
    kind = next((name for name, begins in FORMATS.items() if content.startswith(begins)), None)
    if kind is None:
        raise MIVError(f"{place} is not an image that can be read. Expected one of {', '.join(FORMATS)}.")
    if _holds_more(content):
        raise MIVError(f"{place} holds more than a {kind} image. Save the picture again as a plain image.")
    try:
        with Image.open(io.BytesIO(content), formats=[kind]) as image:
            if image.width * image.height > pixels:
                size = f"{image.width:,} × {image.height:,} pixels"
                raise MIVError(f"{place} has {size}. Expected at most {pixels:,}; make it smaller.")
            if kind == "PNG":
                check_pixels(io.BytesIO(content))
            yield image
    except MIVError:
        raise
    except Image.DecompressionBombError as error:
        raise MIVError(f"{place} has far too many pixels. Expected at most {pixels:,}; make it smaller.") from error
    except Exception as error:  # Pillow's decoders raise many types on damaged files
        raise MIVError(f"{place}: the image is unreadable, truncated or damaged. Replace it.") from error


_SIDE = 192  # pixels of a thumbnail


def thumbnail(name: str, folder: Path, pixels: int) -> str | None:
    """An image file in a folder, made small, as a data URI; ``None`` for any other name."""
    with suppress(MIVError, OSError, ValueError):
        path = Path(name).resolve()
        if path.is_relative_to(folder) and path.is_file():
            with image_of_bytes(path.read_bytes(), name, pixels) as image:
                image.draft(None, (_SIDE, _SIDE))  # a large JPEG is decoded at a fraction of its size
                kind, file = "JPEG" if image.format == "JPEG" else "PNG", io.BytesIO()
                small = ImageOps.exif_transpose(image)
                small.thumbnail((_SIDE, _SIDE))
                small.save(file, kind)
            return f"data:image/{kind.lower()};base64,{base64.b64encode(file.getvalue()).decode()}"
    return None


def _holds_more(content: bytes) -> bool:
    """Whether a file is a polyglot: an image that other programs would read as an archive, a document or a page."""
    end = content[-_TAIL:]
    return b"PK\x05\x06" in end or any(word in part.lower() for word in _OTHERS for part in (content[:_HEAD], end))
