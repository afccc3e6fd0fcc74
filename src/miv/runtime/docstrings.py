"""Read argument descriptions from docstrings, for the help of flags."""

import re
from collections.abc import Mapping, Sequence
from inspect import cleandoc


def as_sentence(text: str, literals: Sequence[str] = ()) -> str:
    """Capitalise a help text, unless it starts with a literal word to type.

    Args:
        text: description of an argument in a docstring.
        literals: literal words; words with ``_`` or ``:`` count as literal anyway.

    >>> as_sentence("exemplars in a step."), as_sentence("compact_cnn, features or hf:<name>.")
    ('Exemplars in a step.', 'compact_cnn, features or hf:<name>.')
    >>> as_sentence("none, or affine.", ["none", "affine"])
    'none, or affine.'
    """
    word = text.split()[0].rstrip(",.;:") if text else ""
    return text if word in literals or {"_", ":"} & set(word) else text[:1].upper() + text[1:]


def argument_lines(docstring: str) -> Mapping[str, str]:
    """Read ``name: text`` from the ``Args:`` part of a docstring; deeper lines continue the text.

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
