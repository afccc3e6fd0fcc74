"""Checks of options shared by all tasks."""

import math
from collections.abc import Iterable

from miv.errors import MIVError, unknown_name

_MOST_IMAGE_BYTES = 8 << 30


def check_whole(least: int, most: int | None = None, /, **options: int | None) -> None:
    """Check that options are whole numbers within bounds; ``None`` means not given.

    >>> check_whole(2, 9, writers=2, copies=None)
    >>> check_whole(2, 9, writers=1)
    Traceback (most recent call last):
    miv.errors.MIVError: writers is 1. Expected a whole number from 2 to 9.
    """
    for name, value in options.items():
        fits = isinstance(value, int) and not isinstance(value, bool)
        if value is not None and not (fits and least <= value and (most is None or value <= most)):
            bounds = f"of at least {least:,}" if most is None else f"from {least:,} to {most:,}"
            raise MIVError(f"{name} is {value!r}. Expected a whole number {bounds}.")


def check_word(what: str, given: str, known: Iterable[str]) -> None:
    """Check that a word is known; the error suggests the nearest one."""
    if given not in known:
        raise unknown_name(what, str(given), known)


def check_difficulty(difficulty: float) -> None:
    """Check that the difficulty is from 0 to 5.

    >>> check_difficulty(-1.0)
    Traceback (most recent call last):
    miv.errors.MIVError: difficulty is -1.0. Expected a number from 0 to 5; 1 is the default.
    """
    if not isinstance(difficulty, (int, float)) or not math.isfinite(difficulty) or not 0 <= difficulty <= 5:
        raise MIVError(f"difficulty is {difficulty!r}. Expected a number from 0 to 5; 1 is the default.")


def check_room(images: int, height: int, width: int) -> None:
    """Raise an error if the images do not fit in the memory of a typical machine.

    >>> check_room(50_000_000, 28, 28)
    Traceback (most recent call last):
    miv.errors.MIVError: 50,000,000 images of 28 × 28 pixels need 36.5 GiB. Expected at most 8; use fewer images.
    """
    size = images * height * width
    if size > _MOST_IMAGE_BYTES:
        raise MIVError(
            f"{images:,} images of {height} × {width} pixels need {size / 2**30:,.1f} GiB. "
            f"Expected at most {_MOST_IMAGE_BYTES >> 30}; use fewer images."
        )
