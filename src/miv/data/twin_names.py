"""Names of classes that differ only by a suffix, such as ``001`` and ``001_forg``: often one person or thing."""

import re
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

_SUFFIXED = re.compile(r"(?P<stem>.*?\w)(?P<suffix>[ _\-./]+[^\W\d_][^ _\-./]*)")  # the suffix starts with a letter
_SYSTEMATIC = 0.1  # a suffix on this share of the names is a system; a rarer one may be part of a title


def twin_names(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return pairs of names that differ only by a suffix.

    A suffix is a separator and a word. The stem must end in a digit, or the stem and at least a tenth of all names
    with the suffix must be names: *Paris* and *Paris_Texas* among hundreds of titles are no twins.

    >>> twin_names(["001", "001_forg", "002", "010"])
    [('001', '001_forg')]
    >>> twin_names(["7-real", "7-fake", "golden_eagle", "golden_retriever"])
    [('7-fake', '7-real')]
    """
    known = set(names)
    parted = {name: match for name in sorted(known) if (match := _SUFFIXED.fullmatch(name))}
    of_suffix = Counter(match["suffix"] for match in parted.values())
    by_stem: dict[str, list[str]] = {}
    for name, match in parted.items():
        stem = match["stem"]
        if stem[-1].isdigit() or (stem in known and of_suffix[match["suffix"]] >= _SYSTEMATIC * len(known)):
            by_stem.setdefault(stem, [stem] if stem in known else []).append(name)
    return [pair for alike in by_stem.values() for pair in pairwise(alike)]
