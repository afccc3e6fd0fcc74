"""The IDX format of MNIST and QMNIST: a few bytes that say type and shape, then the numbers, big-endian."""

import gzip
import math
import zlib
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from miv.errors import MIVError

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_GZIP = b"\x1f\x8b"
_LARGEST = 512 << 20  # bytes; 10 times the largest official file
_MOST_AXES = 32  # numpy's own limit; the official files have two or three


def read_idx(path: Path) -> NDArray[Any]:
    """Read an IDX file, compressed with gzip or not, as an array of the type and shape that it states.

    The header is checked: a file with fewer or more bytes than it states is an error.
    """
    try:
        with path.open("rb") as raw:
            compressed = raw.read(2) == _GZIP
            raw.seek(0)
            stream = cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if compressed else raw
            return _read(stream, path)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise MIVError(f"{path} is a damaged gzip file ({error}). Download it again.") from error
    except OSError as error:
        raise MIVError(f"Could not read {path}: {error.strerror or error}.") from error


def _read(stream: IO[bytes], path: Path) -> NDArray[Any]:
    magic = stream.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _TYPES or not 0 < magic[3] <= _MOST_AXES:
        raise MIVError(f"{path} is not an IDX file: it starts with {magic.hex(' ') or 'nothing'}.")
    header = stream.read(4 * magic[3])
    if len(header) < 4 * magic[3]:
        raise MIVError(f"{path} ends within its header. Download it again.")
    shape = tuple(int(side) for side in np.frombuffer(header, ">u4"))
    dtype = np.dtype(_TYPES[magic[2]])
    expected = math.prod(shape) * dtype.itemsize
    if expected > _LARGEST:
        raise MIVError(f"{path} states a shape of {shape}, more than the maximum of {_LARGEST:,} bytes.")
    content = stream.read(expected + 1)
    if len(content) != expected:
        found = "more" if len(content) > expected else f"{len(content):,}"
        raise MIVError(
            f"{path} states {shape} of {dtype.itemsize} bytes, {expected:,} in total, but contains {found}. "
            "Download it again."
        )
    return np.frombuffer(content, dtype).reshape(shape).astype(dtype.newbyteorder("="), copy=False)
