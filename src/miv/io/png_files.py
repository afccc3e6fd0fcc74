"""Whether a PNG holds all of its pixels: Pillow shows those that are missing as black."""

import struct
import zlib
from pathlib import Path
from typing import BinaryIO

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # by colour type
_ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
_TOGETHER = 1 << 20  # bytes


def check_pixels(png: Path | BinaryIO) -> None:
    """Raise a ``ValueError`` if the compressed rows of a PNG end before its last pixel; the header must be valid."""
    missing = 0
    unpack = zlib.decompressobj()
    with png.open("rb") if isinstance(png, Path) else png as file:
        if file.read(len(_SIGNATURE)) != _SIGNATURE:
            return
        while len(head := file.read(8)) == 8:
            length, kind = struct.unpack(">I4s", head)
            if kind == b"IHDR":
                missing = _bytes_of_rows(*struct.unpack(">IIBBxxB", file.read(13)))
                length -= 13
            elif kind == b"IDAT":
                data = file.read(length)
                length = 0
                while data and missing > 0:
                    missing -= len(unpack.decompress(data, min(missing, _TOGETHER)))
                    data = unpack.unconsumed_tail
            elif kind == b"IEND":
                break
            file.seek(length + 4, 1)  # and the checksum, which Pillow checks
    if missing > 0:
        raise ValueError(f"its last {missing:,} bytes of pixels are missing")


def _bytes_of_rows(width: int, height: int, bits: int, colour: int, interlaced: int) -> int:
    """Each row is a byte for its filter, then its pixels without gaps."""
    passes = _ADAM7 if interlaced else ((0, 0, 1, 1),)
    sizes = [(-(-(width - x) // dx), -(-(height - y) // dy)) for x, y, dx, dy in passes]
    return sum(tall * (1 + -(-wide * bits * _CHANNELS.get(colour, 1) // 8)) for wide, tall in sizes if wide > 0)
