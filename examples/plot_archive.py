"""
Searching an archive
====================

A gallery keeps many bags on disk. One query finds the bags that most likely hold something of its class, by exact
verdicts. Here the bags are 40 letters of digits, the query is one digit, and the verifier needs no training: it answers
by the nearest target.
"""

# %%
# Add each bag once. A killed ``add`` goes on where it stopped.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from miv import Gallery, Verifier
from miv.runtime import SilentProgress
from miv.tasks import create_task

exemplars = create_task("digits-twin", writers=20, held_out_writers=10).build(SilentProgress())["test"]
images, verifier = exemplars.pool.values, Verifier("nearest", "hog").eval()
gallery = Gallery.create(Path(tempfile.mkdtemp()) / "letters", verifier)
for number in range(40):
    gallery.add(f"letter {number}", list(images[exemplars.bag(number)]))

# %%
# Search for a digit by the writer of one of the letters.
asked = next(number for number in range(40) if exemplars.label[number])
hits = gallery.search(images[exemplars.query[asked]], 4)
print(hits)

# %%
# The same in numbers: how often is the right letter among the first three, against 3 in 40 by chance?
positive = [number for number in range(40) if exemplars.label[number]]
first = [[hit.name for hit in gallery.search(images[exemplars.query[number]], 3)] for number in positive]
found = np.mean([f"letter {number}" in names for number, names in zip(positive, first, strict=True)])
figure, axis = plt.subplots(figsize=(5, 1.4))
axis.barh(["chance", "nearest on hog"], [3 / 40, found], color=["lightgrey", "tab:orange"])
axis.set(xlim=(0, 1), xlabel="share of queries whose letter is among the first three")
