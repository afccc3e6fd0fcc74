"""A PNG that ends well but lacks pixels is an error, not a partly black image."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from miv.errors import MIVError
from miv.files.images import read_image


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def grey(rows: int, height: int = 20, width: int = 20) -> bytes:
    """A valid PNG but for its number of rows, in two pieces of data."""
    packed = zlib.compress(b"".join(b"\0" + bytes([200]) * width for _ in range(rows)))
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    data = chunk(b"IDAT", packed[:7]) + chunk(b"IDAT", packed[7:])
    return b"\x89PNG\r\n\x1a\n" + header + data + chunk(b"IEND", b"")


def test_missing_rows_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "whole.png").write_bytes(grey(20))
    (tmp_path / "short.png").write_bytes(grey(19))
    assert (read_image(tmp_path / "whole.png") == 200).all()
    with pytest.raises(MIVError, match="its last 21 bytes of pixels are missing"):
        read_image(tmp_path / "short.png")


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
@pytest.mark.parametrize("size", [(1, 1), (5, 3), (9, 17)])
def test_every_kind_that_pillow_writes_is_whole(tmp_path: Path, mode: str, size: tuple[int, int]) -> None:
    values = np.random.default_rng(0).integers(0, 2 if mode == "1" else 255, (size[1], size[0]), np.uint8)
    picture = (
        Image.fromarray(values.astype(np.uint16) * 257) if mode == "I;16" else Image.fromarray(values).convert(mode)
    )
    picture.save(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png").shape == (size[1], size[0])


def test_an_interlaced_image_is_whole(tmp_path: Path) -> None:
    """Pillow writes none: seven passes, each with its own rows, of a 5 by 3 image."""
    rows = [(1, 1), (1, 1), (2, 0), (1, 1), (3, 1), (2, 2), (5, 1)]  # width and number of rows of each pass
    raw = b"".join((b"\0" + bytes([200]) * wide) * tall for wide, tall in rows if wide and tall)
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 5, 3, 8, 0, 0, 0, 1))
    start = b"\x89PNG\r\n\x1a\n" + header
    (tmp_path / "a.png").write_bytes(start + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b""))
    assert (read_image(tmp_path / "a.png") == 200).all()
    (tmp_path / "b.png").write_bytes(start + chunk(b"IDAT", zlib.compress(raw[:-3])) + chunk(b"IEND", b""))
    with pytest.raises(MIVError, match="its last 3 bytes"):
        read_image(tmp_path / "b.png")
