"""Checks of the options that the synthetic twins share."""

import math

from miv.errors import MivError


def check_at_least(least: int, **options: int) -> None:
    """Refuse options below a bound.

    >>> check_at_least(2, writers=1)
    Traceback (most recent call last):
    miv.errors.MivError: writers is 1. Expected a whole number of at least 2.
    """
    for name, value in options.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise MivError(f"{name} is {value!r}. Expected a whole number of at least {least}.")


def check_difficulty(difficulty: float) -> None:
    """Refuse a difficulty outside 0 to 5.

    >>> check_difficulty(-1.0)
    Traceback (most recent call last):
    miv.errors.MivError: difficulty is -1.0. Expected a number from 0 to 5; 1 is the default.
    """
    if not isinstance(difficulty, (int, float)) or not math.isfinite(difficulty) or not 0 <= difficulty <= 5:
        raise MivError(f"difficulty is {difficulty!r}. Expected a number from 0 to 5; 1 is the default.")
