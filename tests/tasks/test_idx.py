import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from miv.errors import MIVError
from miv.tasks.qmnist import read_idx

CODES = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}


def idx_bytes(array: NDArray[Any]) -> bytes:
    """Write the format by hand, independently of the reader."""
    code = CODES[array.dtype.str[1:]]
    shape = b"".join(struct.pack(">I", side) for side in array.shape)
    return bytes([0, 0, code, array.ndim]) + shape + array.astype(array.dtype.newbyteorder(">")).tobytes()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("idx")


def test_six_bytes_by_eye(folder: Path) -> None:
    path = folder / "six"
    path.write_bytes(bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 10, 20, 30, 40, 50, 60]))
    assert read_idx(path).tolist() == [[10, 20, 30], [40, 50, 60]]


@given(
    array=st.sampled_from(sorted(CODES)).flatmap(
        lambda kind: arrays.arrays(np.dtype(kind), arrays.array_shapes(max_dims=3, min_side=0, max_side=5))
    ),
    compressed=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_what_is_written_is_read(folder: Path, array: NDArray[Any], compressed: bool) -> None:
    content = idx_bytes(array)
    path = folder / "written"
    path.write_bytes(gzip.compress(content) if compressed else content)
    found = read_idx(path)
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


@given(content=st.binary(max_size=80), compressed=st.booleans())
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_read_or_refused_with_the_file_named(folder: Path, content: bytes, compressed: bool) -> None:
    path = folder / "any bytes ü"
    path.write_bytes(gzip.compress(content) if compressed else content)
    refusal = str(path)
    try:
        read_idx(path)
    except MIVError as error:
        refusal = str(error)
    assert str(path) in refusal


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_cut_file_is_refused(folder: Path, data: st.DataObject) -> None:
    content = idx_bytes(np.arange(24, dtype="i4").reshape(2, 3, 4))
    if data.draw(st.booleans()):
        content = gzip.compress(content)
    path = folder / "cut"
    path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(MIVError, match="cut"):
        read_idx(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x89PNG\r\n\x1a\n", "not an IDX file"),
        (bytes([0, 0, 8, 1, 0, 0, 0, 2, 1, 2, 3]), "contains more"),
        (bytes([0, 0, 8, 2, 255, 255, 255, 255, 255, 255, 255, 255]), "more than the"),
        (bytes([0, 0, 8, 1, 31, 255, 255, 0]), "contains 0"),
        (bytes([0, 0, 8, 1, 32, 0, 0, 1]), "more than the maximum of 536,870,912 bytes"),
        (bytes([0, 0, 8, 100, *([0, 0, 0, 1] * 100), 7]), "not an IDX file: it starts with 00 00 08 64"),
    ],
)
def test_refused(folder: Path, content: bytes, message: str) -> None:
    path = folder / "bad"
    path.write_bytes(content)
    with pytest.raises(MIVError, match=message):
        read_idx(path)


def test_a_missing_file(folder: Path) -> None:
    with pytest.raises(MIVError, match="No such file"):
        read_idx(folder / "nothing")
