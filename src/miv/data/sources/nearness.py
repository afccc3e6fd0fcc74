"""Find similar classes without learning, as a source of hard negatives."""

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from miv.data import InstancePool

_TEXT_BINS = 2048
_IMAGE_SIDE = 16


def nearest_classes(pool: InstancePool, members: Sequence[NDArray[np.int64]], count: int) -> list[NDArray[np.int64]]:
    """For each class, the ``count`` other classes with the nearest mean instance, nearest first.

    Images are compared by their pixels (16 × 16 grey), texts by their three-character
    sequences, features by their direction after each channel is standardised to mean 0 and deviation 1.

    Args:
        pool: the instances.
        members: for each of ``K`` classes, the indices of its instances in the pool.
        count: number of neighbours per class; fewer if there are fewer classes.
    """
    centres = np.stack([np.mean([_describe(pool, int(i)) for i in indices], axis=0) for indices in members])
    centres -= centres.mean(axis=0)
    if pool.kind == "features":
        centres /= np.maximum(centres.std(axis=0), 1e-12)
    centres /= np.maximum(np.linalg.norm(centres, axis=1, keepdims=True), 1e-12)  # (K, D)
    neighbours = []
    for number, centre in enumerate(centres):
        likeness = centres @ centre  # (K,)
        likeness[number] = -np.inf
        neighbours.append(np.argsort(-likeness, kind="stable")[: min(count, len(centres) - 1)])
    return neighbours


def _describe(pool: InstancePool, index: int) -> NDArray[np.float32]:
    if pool.kind == "text":
        return _trigrams(str(pool.values[index]))
    if pool.kind == "features":
        return np.asarray(pool.values[index], dtype=np.float32)
    picture = Image.fromarray(np.asarray(pool.values[index])).convert("L")
    small = picture.resize((_IMAGE_SIDE, _IMAGE_SIDE), Image.Resampling.BOX)
    return _unit(np.asarray(small, dtype=np.float32).ravel())


def _trigrams(text: str) -> NDArray[np.float32]:
    padded = f"  {text.lower()}  ".encode()
    counts = np.zeros(_TEXT_BINS, dtype=np.float32)
    for start in range(len(padded) - 2):
        counts[zlib.crc32(padded[start : start + 3]) % _TEXT_BINS] += 1
    return _unit(counts)


def _unit(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    scaled: NDArray[np.float32] = vector / max(float(np.linalg.norm(vector)), 1e-12)
    return scaled
