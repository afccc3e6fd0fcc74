"""Features on disk: while a backbone is frozen, each pool is embedded once and never again.

A file's name is the hash of all that decides its content: the backbone's configuration and weights, the pool, and the
versions of the code. Other weights or data have another name, so a cached feature is never stale. After the array
stands its SHA-256, so that a damaged file is noticed and made again.
"""

import hashlib
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from miv.backbones import Backbone
from miv.backbones.cut_texts import warn_of_cut_texts
from miv.backbones.embedding import embed
from miv.data import ExemplarSet, InstancePool
from miv.io.whole_files import whole_file
from miv.runtime.evaluation_mode import evaluating
from miv.runtime.progress import Progress, SilentProgress

_FORMAT = "miv-features-1"
_FEATURES_SINCE = "0.1.0"  # the version of miv from which on backbones give these features; raise it when one changes
_MOST_ROWS = 512  # instances that are embedded together
_MOST_NUMBERS = 1 << 20  # of which they are made: 512 small images, or 16 of 256 by 256


def embed_pool(
    backbone: Backbone, pool: InstancePool, cache: Path, progress: Progress | None = None
) -> NDArray[np.float32]:
    """The features ``(P, C)`` of a pool, mapped from the cache where they are there, else computed and put there.

    Several processes may ask at the same time: each writes the whole file under a name of its own and renames it.
    """
    backbone.check(pool)
    if backbone.is_identity:
        return pool.values  # so there is nothing to keep
    path = _path(backbone, pool, cache)
    found = _read(path, (len(pool), backbone.channels))
    if found is None:
        everything = np.arange(len(pool))
        features = embed_instances(backbone, pool, everything, progress or SilentProgress())
        with whole_file(path) as temporary, temporary.open("wb") as file:
            np.save(file, features, allow_pickle=False)
            file.write(hashlib.sha256(features.data).digest())
        return features
    return found


def embed_exemplars(
    backbone: Backbone, exemplars: ExemplarSet, cache: Path | None, progress: Progress | None = None
) -> NDArray[np.float32]:
    """Features ``(P, C)`` of a set's pool, in which the rows of the instances that the set uses are right.

    Those of the whole pool where the cache has them, as after a training on it. Otherwise only the used instances are
    embedded, as a pool of their own: a few exemplars may share a pool of millions. Without a cache nothing is kept.
    """
    pool, used = exemplars.pool, exemplars.used
    if cache is None:
        return embed_instances(backbone, pool, used, progress)
    if len(used) == len(pool) or backbone.is_identity:
        return embed_pool(backbone, pool, cache, progress)
    backbone.check(pool)
    features = _read(_path(backbone, pool, cache), (len(pool), backbone.channels))
    if features is None:
        features = np.zeros((len(pool), backbone.channels), np.float32)
        features[used] = embed_pool(backbone, pool.take(used), cache, progress)
    return features


def embed_instances(
    backbone: Backbone,
    pool: InstancePool,
    chosen: NDArray[np.int64],
    progress: Progress | None = None,
) -> NDArray[np.float32]:
    """Features ``(P, C)`` in memory of which the ``chosen`` rows are computed, the others 0."""
    backbone.check(pool)
    warn_of_cut_texts(backbone, [pool])
    features = np.zeros((len(pool), backbone.channels), np.float32)
    device = next((weight.device for weight in backbone.parameters()), torch.device("cpu"))
    step = (progress or SilentProgress()).step("Embedding", total=len(chosen))
    with evaluating(backbone), torch.inference_mode(), step as advance:
        together = _rows_together(backbone, pool)
        for start in range(0, len(chosen), together):
            rows = chosen[start : start + together]
            bucket = 1 << (len(rows) - 1).bit_length()  # the next power of two
            embedded = embed(backbone, backbone.prepare(pool.values[rows]).to(device), bucket)
            features[rows] = embedded.float().cpu().numpy()
            advance(len(rows))
    return features


def _path(backbone: Backbone, pool: InstancePool, cache: Path) -> Path:
    made_by = [_FEATURES_SINCE, torch.__version__, *(version(name) for name in backbone.libraries)]
    made_of = f"{_FORMAT} {backbone.fingerprint()} {pool.fingerprint} {made_by}"
    return cache / f"{hashlib.sha256(made_of.encode()).hexdigest()}.npy"


def _rows_together(backbone: Backbone, pool: InstancePool) -> int:
    """A power of two, as many as the memory of a small machine bears."""
    numbers = backbone.prepare(pool.values[:1]).numel()
    return min(_MOST_ROWS, 1 << max(1, _MOST_NUMBERS // numbers).bit_length() - 1)


def _read(path: Path, shape: tuple[int, ...]) -> NDArray[np.float32] | None:
    """Map the file if it is there and whole, else ``None``."""
    try:
        with path.open("rb") as file:
            features = np.load(path, mmap_mode="r", allow_pickle=False)
            if features.shape != shape or features.dtype != np.float32:
                return None
            file.seek(-hashlib.sha256().digest_size, 2)
            expected = file.read()
            if file.tell() != features.offset + features.nbytes + len(expected):
                return None
    except (OSError, ValueError, EOFError, SyntaxError):
        return None
    return features if hashlib.sha256(features.data).digest() == expected else None
