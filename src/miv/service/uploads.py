"""Open an uploaded image: one of a few raster formats by its content, checked before anything is decoded."""

import base64
import io
import re
import struct
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
_MARK = re.compile(rb"\xff[^\x00\x01\xd0-\xd8\xff]")  # of a JPEG segment; those left out have no length
_END_OF_JPEG, _END_OF_GIF, _IMAGE_OF_GIF, _EXTENSION_OF_GIF = 0xD9, 0x3B, 0x2C, 0x21
_OTHERS = (b"%pdf-", b"<svg", b"<html", b"<script", b"<?php", b"<!doctype")


@contextmanager
def image_of_bytes(content: bytes, place: str, pixels: int) -> Iterator[Image.Image]:
    """Open an image of at most so many pixels; any failure, also later while it is decoded, names the ``place``."""
    kind = next((name for name, begins in FORMATS.items() if content.startswith(begins)), None)
    if kind is None:
        raise MIVError(f"{place} is not an image that can be read. Expected one of {', '.join(FORMATS)}.")
    if holds_more(content, kind):
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


def holds_more(content: bytes, kind: str) -> bool:
    """Whether a file is a polyglot: an image that other programs would read as an archive, a document or a page.

    Cameras append their own data to JPEG files, so a tail is not wrong by itself there.
    """
    tail = content[_end(content, kind) :]
    if kind in {"PNG", "WEBP", "BMP", "GIF"} and tail.strip(b"\x00"):
        return True
    is_archive = b"PK\x05\x06" in content[-_TAIL:]
    return is_archive or any(word in part.lower() for word in _OTHERS for part in (content[:_HEAD], tail))


def _end(content: bytes, kind: str) -> int:
    """Where the image ends by the rules of its format; the end of the file if they do not say."""
    walks = {"PNG": _end_of_png, "JPEG": _end_of_jpeg, "GIF": _end_of_gif}
    if kind in walks:
        return walks[kind](content)
    if kind in {"WEBP", "BMP"} and len(content) >= 8:
        offset, extra = (4, 8) if kind == "WEBP" else (2, 0)
        size = struct.unpack_from("<I", content, offset)[0] + extra
        return size + size % 2 if size else len(content)
    return len(content)


def _end_of_png(content: bytes) -> int:
    place = 8
    while place + 8 <= len(content):
        length, name = struct.unpack_from(">I4s", content, place)
        place += 12 + length
        if name == b"IEND":
            break
    return place


def _end_of_jpeg(content: bytes) -> int:
    """Walk the segments: a mark and a length, except for the pixels, which reach up to the next mark."""
    place = 2
    while (found := _MARK.search(content, place)) is not None:
        mark, place = content[found.end() - 1], found.end()
        if mark == _END_OF_JPEG:
            return place
        if place + 2 <= len(content):
            place += struct.unpack_from(">H", content, place)[0]
    return len(content)


def _end_of_gif(content: bytes) -> int:
    """Walk the blocks: images and extensions are followed by parts with a length byte, up to an empty part."""
    try:
        place = 13 + _palette(content[10])
        while (block := content[place]) != _END_OF_GIF:
            if block == 0:  # some programs fill up with zeros
                place += 1
                continue
            if block not in (_IMAGE_OF_GIF, _EXTENSION_OF_GIF):
                return place
            place += 11 + _palette(content[place + 9]) if block == _IMAGE_OF_GIF else 2
            while (length := content[place]) > 0:
                place += 1 + length
            place += 1
    except IndexError:  # truncated, which the decoder finds
        return len(content)
    return place + 1


def _palette(flags: int) -> int:
    return 3 * 2 ** (flags % 8 + 1) if flags & 0x80 else 0
