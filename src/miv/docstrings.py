"""What docstrings say of arguments, for the help of flags."""

import re
from collections.abc import Mapping
from inspect import cleandoc


def argument_lines(docstring: str) -> Mapping[str, str]:
    """Read ``name: text`` from the ``Args:`` part of a docstring; a deeper line goes on with the text.

    >>> argument_lines('''Coins.
    ...
    ...     Args:
    ...         tosses: how many tosses
    ...             a bag holds.
    ...         seed: start of the random numbers.
    ... ''')
    {'tosses': 'how many tosses a bag holds.', 'seed': 'start of the random numbers.'}
    """
    _, _, part = cleandoc(docstring).partition("Args:\n")
    lines: dict[str, str] = {}
    name = ""
    for line in part.splitlines():
        if line and not line.startswith(" "):  # the next part of the docstring
            break
        if start := re.match(r" {4}(\w+)(?: \([^)]*\))?: (.*)", line):
            name = start[1]
            lines[name] = start[2].strip()
        elif name and line.strip():
            lines[name] += " " + line.strip()
    return lines
