import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from miv.files.images import black_and_white, otsu_threshold


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
    found = otsu_threshold(image)
    assert np.isclose(naive_spread(levels, found), best, rtol=1e-9)
    lower = [naive_spread(levels, threshold) for threshold in range(found)]
    assert all(spread < best or np.isclose(spread, best, rtol=1e-9) for spread in lower)


def test_two_clear_parts() -> None:
    image = np.array([[0, 10, 250], [255, 5, 240]], np.uint8)
    assert black_and_white(image).tolist() == [[0, 0, 255], [255, 0, 255]]


def test_blank_paper_stays_white_and_a_black_image_black() -> None:
    assert black_and_white(np.full((2, 2), 255, np.uint8)).min() == 255
    assert black_and_white(np.full((2, 2), 7, np.uint8)).min() == 255
    assert black_and_white(np.zeros((2, 2), np.uint8)).max() == 0
