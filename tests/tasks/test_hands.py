import numpy as np
import pytest

from miv.tasks.synthetic.digit_shapes import ALLOGRAPHS
from miv.tasks.synthetic.hands import Hands


def write(writers: int, copies: int, difficulty: float) -> np.ndarray:
    """Return ``(writers, 10, copies, 28, 28)``."""
    rng = np.random.default_rng(0)
    writer = np.repeat(np.arange(writers), 10 * copies)
    digit = np.tile(np.repeat(np.arange(10), copies), writers)
    return Hands.draw(writers, rng).write(writer, digit, difficulty, rng).reshape(writers, 10, copies, 28, 28)


def test_every_digit_has_several_ways_to_be_written_which_are_equally_frequent_in_sum() -> None:
    assert sorted(ALLOGRAPHS) == list(range(10))
    for forms in ALLOGRAPHS.values():
        assert len(forms) >= 3
        assert sum(common for common, _ in forms) == pytest.approx(1)


def test_without_difficulty_a_hand_repeats_itself_but_for_the_rim_and_hands_differ() -> None:
    images = write(writers=4, copies=2, difficulty=0).astype(float)
    within = np.abs(images[:, :, 0] - images[:, :, 1]).mean()
    between = np.abs(images[0, :, 0] - images[1:, :, 0]).mean()
    assert within < between / 4


def test_variation_within_a_hand_grows_with_difficulty() -> None:
    spread = [np.abs(np.diff(write(8, 2, difficulty).astype(float), axis=2)).mean() for difficulty in (0, 0.5, 1, 2)]
    assert spread == sorted(spread)


def test_digits_are_placed_as_in_mnist() -> None:
    images = write(writers=10, copies=3, difficulty=1).reshape(-1, 28, 28).astype(float)
    mass = images.sum(axis=(1, 2))
    middle_y = (images.sum(axis=2) @ np.arange(28)) / mass
    middle_x = (images.sum(axis=1) @ np.arange(28)) / mass
    assert np.abs(np.stack([middle_x, middle_y]) - 13.5).max() < 1.2
    tall = (images.max(axis=2) > 64).sum(axis=1)
    wide = (images.max(axis=1) > 64).sum(axis=1)
    assert np.maximum(tall, wide).min() >= 17
    assert np.maximum(tall, wide).max() <= 22
    assert 0.08 < (images > 127).mean() < 0.2  # QMNIST: 0.13
