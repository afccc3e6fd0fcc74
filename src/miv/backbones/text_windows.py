"""Cut a text that is longer than an encoder reads into overlapping windows of whole words."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise

Span = tuple[int, int]  # first character, and the one after the last

_WORD = re.compile(r"\S+")


def text_windows(text: str, tokens: Sequence[Span], most: int) -> list[str]:
    """Overlapping parts of a text that together hold every word, each of at most ``most`` tokens.

    A window begins in the middle of the one before it, so what is said in half a window is whole in one of them. A word
    with more than ``most`` tokens, as in a script without spaces, is cut between tokens.

    Args:
        text: the text.
        tokens: where each of its tokens is, in order.
        most: maximum number of tokens in a window.

    >>> text_windows("one two three four five", [(0, 3), (4, 7), (8, 13), (14, 18), (19, 23)], 4)
    ['one two three four', 'three four five']
    """
    pieces = list(_pieces(text, tokens, most))
    sizes = [size for _, size in pieces]
    windows, first = [], 0
    while True:
        last, size = first, 0  # the window holds the pieces from first to before last
        while last < len(pieces) and (last == first or size + sizes[last] <= most):
            size += sizes[last]
            last += 1
        windows.append(text[pieces[first][0][0] : pieces[last - 1][0][1]])
        if last == len(pieces):
            return windows
        shared = 0
        first, before = last, first
        while first - 1 > before and shared + sizes[first - 1] <= most // 2:
            first -= 1
            shared += sizes[first]


def _pieces(text: str, tokens: Sequence[Span], most: int) -> Iterator[tuple[Span, int]]:
    """Words with their number of tokens; a word with too many is several pieces."""
    words = [found.span() for found in _WORD.finditer(text)]
    ends = [end for _, end in words]
    inside: list[list[int]] = [[] for _ in words]  # where the tokens of each word end
    for _, end in tokens:
        inside[min(bisect_left(ends, end), len(words) - 1)].append(end)
    for (start, end), stops in zip(words, inside, strict=True):
        if len(stops) <= most:
            yield (start, end), len(stops)
            continue
        borders = [start, *stops[most - 1 : -1 : most], end]
        for number, border in enumerate(pairwise(borders)):
            yield border, min(most, len(stops) - number * most)
