"""
Who wrote it? A writer's style in novels
========================================

A passage is the query, and the bag holds passages of several novels: is one of them by the same writer? The passage
that counts is always from *another* novel, and the writers of train, validation and test are different people, so that
neither names nor topics give the answer away.

Get the texts (75 MB)::

    git clone --depth 1 https://github.com/computationalstylistics/100_english_novels novels

Style is hard: AUROC 0.605 on test, against 0.558 for the best plain method (cosine of MiniLM without the mean).
The plain method ranks the bag slightly better (i-AP 0.535 against 0.521).

.. image:: /images/examples/style.png
"""

# sphinx_gallery_thumbnail_path = 'images/examples/style.png'

# %%
# Passages of 150 words. A bag of eight holds two of the query's writer, or none.
import re
from pathlib import Path

import numpy as np
from results import compare, picture

from miv import ExemplarSet

WORDS, PASSAGES, BAG = 150, 12, 8
random = np.random.default_rng(0)
novels: dict[str, dict[str, list[str]]] = {}
for path in sorted(Path("novels/corpus").glob("*.txt")):
    words = re.sub(r"\s+", " ", path.read_text(encoding="utf-8")).split()
    starts = np.linspace(2_000, len(words) - 2_000, PASSAGES).astype(int)
    texts = [" ".join(words[start : start + WORDS]) for start in starts]
    novels.setdefault(path.stem.split("_")[0], {})[path.stem] = texts


def draw(writers: list[str], count: int) -> ExemplarSet:
    """Bags for passages of these writers, half of them with a witness."""
    queries, bags, labels, witnesses = [], [], [], []
    for number in range(count):
        writer = writers[random.integers(len(writers))]
        book, *others = random.permutation(list(novels[writer]))
        own = [text for other in others for text in novels[writer][other]]
        rest = [text for one in writers if one != writer for texts in novels[one].values() for text in texts]
        found = 2 * (number % 2)
        bag = [*random.choice(own, found, replace=False), *random.choice(rest, BAG - found, replace=False)]
        queries.append(str(random.choice(novels[writer][book])))
        bags.append([str(text) for text in bag])
        labels.append(number % 2)
        witnesses.append([place < found for place in range(BAG)])
    return ExemplarSet.from_arrays(queries, bags, labels, witnesses=witnesses)


names = [str(name) for name in random.permutation([name for name, books in novels.items() if len(books) > 1])]
third = len(names) // 4
parts = {"train": names[2 * third :], "validation": names[:third], "test": names[third : 2 * third]}
sets = {split: draw(some, 2_000 if split == "train" else 600) for split, some in parts.items()}

# %%
# Trained with default settings, and beside it the plain methods on the same texts.
run = compare("style", sets)
picture("style", run, sets["test"])
