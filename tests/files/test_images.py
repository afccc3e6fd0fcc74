"""Pixels are as in the file; bombs, damaged and foreign files are errors."""

import os
import struct
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from miv.errors import MIVError
from miv.files.images import MAX_PIXELS, apply_steps, black_and_white, otsu_threshold, read_image


def saved(path: Path, array: Any, **options: Any) -> Path:
    Image.fromarray(np.asarray(array, dtype=np.uint8)).save(path, **options)
    return path


def png(width: int, height: int) -> bytes:
    """A grey PNG that promises many pixels and has hardly any."""
    header, pieces = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0), b"\x89PNG\r\n\x1a\n"
    for kind, data in ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(100))), (b"IEND", b"")):
        pieces += struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return pieces


def test_heic_is_read_or_the_library_is_named(tmp_path: Path) -> None:
    path = tmp_path / "photo.HEIC"
    path.write_bytes(b"\0\0\0\x18ftypheic")
    try:
        import pillow_heif
    except ImportError:
        with pytest.raises(MIVError, match=r"photo\.HEIC: HEIC images need pillow-heif"):
            read_image(path)
        return
    pillow_heif.from_pillow(Image.new("L", (64, 48), 255)).save(path)
    assert read_image(path).shape == (48, 64)


def test_grey_pixels_come_back_as_they_were_saved(tmp_path: Path) -> None:
    pixels = [[0, 10, 20], [30, 40, 255]]
    image = read_image(saved(tmp_path / "a.png", pixels))
    assert image.dtype == np.uint8
    assert image.tolist() == pixels


def test_grey_becomes_colour_and_colour_grey(tmp_path: Path) -> None:
    grey = saved(tmp_path / "grey.png", [[7, 9]])
    assert read_image(grey, colour=True).tolist() == [[[7, 7, 7], [9, 9, 9]]]
    red = saved(tmp_path / "red.png", [[[255, 0, 0]]])
    assert read_image(red).tolist() == [[76]]  # 0.299 of 255


def test_transparent_parts_become_white(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.png", [[[0, 0, 0, 0], [0, 0, 0, 255]]])
    assert read_image(path).tolist() == [[255, 0]]


@pytest.mark.parametrize(
    ("suffix", "levels", "dtype", "expected"),
    [
        ("png", [0, 256, 65535], np.uint16, [0, 1, 255]),  # scaled, not clipped
        ("png", [0, 0], np.uint16, [0, 0]),
        ("tiff", [0, 100, 255], np.int32, [0, 100, 255]),
    ],
)
def test_deep_grey_becomes_eight_bits(
    tmp_path: Path, suffix: str, levels: list[int], dtype: Any, expected: list[int]
) -> None:
    Image.fromarray(np.array([levels], dtype=dtype)).save(tmp_path / f"a.{suffix}")
    assert read_image(tmp_path / f"a.{suffix}").tolist() == [expected]
    (tmp_path / "a.pgm").write_bytes(b"P5 3 1 65535\n" + np.array([0, 256, 65535], dtype=">u2").tobytes())
    assert read_image(tmp_path / "a.pgm").tolist() == [[0, 1, 255]]


@pytest.mark.parametrize(
    ("levels", "dtype", "message"),
    [
        ([0, 4095], np.uint16, "16-bit grey levels go from 0 to 4,095"),
        ([0, 200], np.uint16, "16-bit grey levels go from 0 to 200"),
        ([0, 65535], np.int32, "32-bit grey levels go from 0 to 65,535"),
        ([-1, 5], np.int32, "32-bit grey levels go from -1 to 5"),
    ],
)
def test_grey_that_would_become_black_is_refused(tmp_path: Path, levels: list[int], dtype: Any, message: str) -> None:
    path = tmp_path / "a.tiff"
    Image.fromarray(np.array([levels], dtype=dtype)).save(path)
    with pytest.raises(MIVError, match=rf"a\.tiff.*{message}, so its white level is unknown; save it as 8-bit"):
        read_image(path)


def test_floating_point_grey_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tiff"
    Image.fromarray(np.array([[0.5]], dtype=np.float32)).save(path)
    with pytest.raises(MIVError, match=r"a\.tiff.*floating point"):
        read_image(path)


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tiff"])
def test_the_orientation_of_the_camera_is_applied(tmp_path: Path, suffix: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the top of the picture is at the right of the file
    picture = np.zeros((8, 16), dtype=np.uint8)
    picture[:, :8] = 255
    path = saved(tmp_path / f"a.{suffix}", picture, exif=exif)
    image = read_image(path)
    assert image.shape == (16, 8)
    assert image[:6].min() > 200
    assert image[10:].max() < 50


def test_the_three_ways_to_fit_a_size() -> None:
    left_half_white = np.zeros((4, 8), dtype=np.uint8)
    left_half_white[:, :4] = 200
    assert apply_steps(left_half_white, ("resize 4x4 crop bilinear",)).tolist() == [[200, 200, 0, 0]] * 4
    padded = apply_steps(left_half_white, ("resize 4x4 pad bilinear",))
    assert padded[0].tolist() == padded[3].tolist() == [0, 0, 0, 0]
    assert padded[1, 0] == 200
    stretched = apply_steps(left_half_white, ("resize 2x4 stretch bilinear",))
    assert stretched.shape == (2, 4)
    assert stretched[:, 0].tolist() == [200, 200]


def test_an_image_bomb_is_refused_from_its_header(tmp_path: Path) -> None:
    path = tmp_path / "bomb.png"
    path.write_bytes(png(50_000, 50_000))
    tracemalloc.start()
    with pytest.raises(MIVError, match=r"bomb\.png.*pixels.*50,000,000"):
        read_image(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2_000_000


def test_the_limit_holds_without_the_one_of_pillow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    path = tmp_path / "big.png"
    path.write_bytes(png(MAX_PIXELS // 1000 + 1, 1000))
    with pytest.raises(MIVError, match=r"50,001 × 1,000 pixels"):
        read_image(path)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(MIVError, match=r"nothing\.png.*does not exist"):
        read_image(tmp_path / "nothing.png")
    with pytest.raises(MIVError, match="is not a file"):
        read_image(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(MIVError, match="is not a file"):
        read_image(tmp_path / "pipe.png")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", r"the file is empty \(0 bytes\)"),
        (b"hello", "not a readable image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not a readable image"),
    ],
)
def test_a_file_that_is_no_image_is_refused(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(content)
    with pytest.raises(MIVError, match=rf"a\.png: {told}"):
        read_image(path)


@pytest.mark.parametrize("suffix", ["png", "jpg", "gif", "bmp", "tiff", "webp", "pgm"])
def test_a_truncated_image_is_refused(tmp_path: Path, suffix: str) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (40, 40))
    path = saved(tmp_path / f"a.{suffix}", noise)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(MIVError, match=rf"a\.{suffix}"):
        read_image(path)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    suffix=st.sampled_from(["png", "jpg", "gif", "bmp", "tiff", "webp", "pgm"]),
    changes=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=8),
    length=st.integers(0, 2000),
)
def test_damaged_files_give_pixels_or_one_error(
    tmp_path: Path, suffix: str, changes: list[tuple[int, int]], length: int
) -> None:
    path = saved(tmp_path / f"a.{suffix}", np.arange(300).reshape(15, 20) % 256)
    content = bytearray(path.read_bytes())
    for place, value in changes:
        content[place % len(content)] = value
    path.write_bytes(content[:length])
    try:
        image = read_image(path)
    except MIVError as error:
        message = str(error)
    else:
        message = path.name
        assert image.ndim == 2
        assert image.dtype == np.uint8
    assert path.name in message


def naive_spread(levels: list[int], threshold: int) -> float:
    """Return the variance between the two parts, times the square of the number of pixels."""
    dark = [level for level in levels if level <= threshold]
    light = [level for level in levels if level > threshold]
    if not dark or not light:
        return -1.0
    return len(dark) * len(light) * (sum(dark) / len(dark) - sum(light) / len(light)) ** 2


@given(arrays.arrays(np.uint8, st.tuples(st.integers(1, 5), st.integers(1, 5))))
def test_no_threshold_parts_better(image: np.ndarray) -> None:
    levels = [int(level) for level in image.ravel()]
    if len(set(levels)) == 1:
        return
    best = max(naive_spread(levels, threshold) for threshold in range(256))
    threshold = otsu_threshold(image)
    assert np.isclose(naive_spread(levels, threshold), best, rtol=1e-9)
    lower = [naive_spread(levels, threshold) for threshold in range(threshold)]
    assert all(spread < best or np.isclose(spread, best, rtol=1e-9) for spread in lower)


def test_blank_paper_stays_white_and_a_black_image_black() -> None:
    assert black_and_white(np.full((2, 2), 255, np.uint8)).min() == 255
    assert black_and_white(np.full((2, 2), 7, np.uint8)).min() == 255
    assert black_and_white(np.zeros((2, 2), np.uint8)).max() == 0


def test_a_png_whose_pixels_do_not_match_their_checksum_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.png", np.arange(300).reshape(15, 20) % 256)
    content = bytearray(path.read_bytes())
    content[content.index(b"IDAT") + 20] ^= 1
    path.write_bytes(content)
    with pytest.raises(MIVError, match="truncated or damaged"):
        read_image(path)
