"""
Histology: features of patches
==============================

Is there tissue like this patch in that slide? CLAM and TRIDENT write one ``.h5`` file per slide with the features of
its patches, ``features`` of shape ``(N, C)`` or ``(1, N, C)``. A slide is a bag, and a patch that a pathologist marked
is a query. No real slides are part of this example: it makes small files of the same form.
"""

# %%
# Six slides of 200 patches; two of them hold patches of the marked kind.
import tempfile
from pathlib import Path

import h5py
import matplotlib.pyplot as plt
import numpy as np

import miv

random, folder = np.random.default_rng(0), Path(tempfile.mkdtemp())
marked = random.normal(size=64)
for number in range(6):
    patches = random.normal(size=(200, 64))
    if number in (1, 4):
        patches[50:55] = marked + 0.7 * random.normal(size=(5, 64))
    with h5py.File(folder / f"slide_{number}.h5", "w") as file:
        file["features"] = patches[None].astype(np.float32)  # (1, N, C), as TRIDENT writes them
        file["coords"] = np.stack(np.divmod(np.arange(200), 20), axis=1) * 256


def read_slide(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Features ``(N, C)`` and corners ``(N, 2)`` of the patches of a slide."""
    with h5py.File(path) as file:
        features = np.asarray(file["features"], np.float32)
        return features.reshape(-1, features.shape[-1]), np.asarray(file["coords"]).reshape(-1, 2)


# %%
# The nearest patch by cosine needs no training; with labels of slides, ``miv.train`` takes the same arrays.
verifier = miv.Verifier("nearest", channels=64).eval()
figure, axes = plt.subplots(1, 6, figsize=(11, 2))
for axis, path in zip(axes, sorted(folder.glob("*.h5")), strict=True):
    features, corners = read_slide(path)
    cosine = features @ marked / np.linalg.norm(features, axis=1) / np.linalg.norm(marked)
    verdict = verifier.verify(marked.astype(np.float32), features)
    axis.scatter(*corners.T, c=cosine, s=8, vmin=-1, vmax=1, cmap="PuOr_r")
    axis.set(xticks=[], yticks=[], title=f"{path.stem}: {verdict.logit:.2f}")
    axis.title.set_fontsize(8)
