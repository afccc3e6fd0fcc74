"""The expected shape of a JSON document: one check before it is used, instead of one per use."""

from typing import Any

from miv.errors import MIVError

Shape = Any
"""What a value must be.

A type or a tuple of types; a dict with the shapes of its fields, where ``"name?"`` may be missing or null and ``"*"``
is the shape of all other fields; or a list with the shape of its elements. ``None`` means anything.
"""

NUMBER = (int, float)
_WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", dict: "an object"}


def check_shape(value: Any, shape: Shape, place: str, remedy: str) -> None:
    """Raise an error that names the first field with another shape; ``remedy`` ends the message.

    >>> check_shape({"seed": "x"}, {"seed": int, "best?": {"epoch": int}}, "run.json", "Train again.")
    Traceback (most recent call last):
    miv.errors.MIVError: run.json: 'seed' is 'x'. Expected a whole number. Train again.
    """
    _check(value, shape, place, (), remedy)


def _check(value: Any, shape: Shape, place: str, path: tuple[str, ...], remedy: str) -> None:
    if isinstance(shape, dict):
        _expect(isinstance(value, dict), value, "an object", place, path, remedy)
        for name, inner in shape.items():
            field = name.removesuffix("?")
            if name == "*":
                for other in value.keys() - {known.removesuffix("?") for known in shape}:
                    _check(value[other], inner, place, (*path, str(other)), remedy)
            elif field != name and value.get(field) is None:
                continue
            elif field not in value:
                raise MIVError(f"{place} has no {'.'.join((*path, field))!r}. {remedy}")
            else:
                _check(value[field], inner, place, (*path, field), remedy)
    elif isinstance(shape, list):
        _expect(isinstance(value, list), value, "a list", place, path, remedy)
        for number, element in enumerate(value):
            _check(element, shape[0], place, (*path, str(number)), remedy)
    elif shape is not None:
        kinds = shape if isinstance(shape, tuple) else (shape,)
        fits = isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
        _expect(fits, value, _WORDS[float if float in kinds else kinds[0]], place, path, remedy)


def _expect(fits: bool, value: Any, expected: str, place: str, path: tuple[str, ...], remedy: str) -> None:
    if not fits:
        where = ".".join(path) or "content"
        raise MIVError(f"{place}: {where!r} is {str(value)[:60]!r}. Expected {expected}. {remedy}")
