"""Feature cache on disk: while a backbone is frozen, each instance is embedded only once.

A file's name is the hash of everything that determines its content: backbone, pool and versions of the code. The array
is followed by the hash of each instance and one of the backbone, so that another pool finds its rows, and by the
SHA-256 of all, so that damage is detected.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from miv.backbones.base import Backbone, embed
from miv.backbones.precision import has_native_bfloat16, lower_precision
from miv.data import ExemplarSet, InstancePool
from miv.data.kinds import KINDS
from miv.errors import MIVError, warn
from miv.files.atomic import whole_file
from miv.files.cache import discard, ignoring_cache_errors
from miv.runtime import Progress, SilentProgress, evaluating, pause

# Warn about texts that are too long for the encoder, once per set of texts.

_MOST_REMEMBERED = 1000
_seen: set[tuple[str, tuple[int | None, ...]]] = set()  # pools already counted, by content and length


def warn_of_cut_texts(backbone: Backbone, pools: Sequence[InstancePool]) -> None:
    """Warn once about texts of these pools that are longer than the encoder reads."""
    if KINDS[backbone.kind].is_array:
        return
    new = {(pool.fingerprint, backbone.instance_shape): pool for pool in pools}
    new = {key: pool for key, pool in new.items() if key not in _seen}
    if len(_seen) > _MOST_REMEMBERED:  # a service keeps getting new texts
        _seen.clear()
    _seen.update(new)
    cut = sum(backbone.count_cut(pool.values) for pool in new.values())
    if cut:
        most = backbone.instance_shape[-1] or 0
        more = f" To read more, train with --backbone-options max_tokens={256 if most < 256 else 512}, which is slower."
        texts = f"{cut:,} of {sum(map(len, new.values())):,} texts"
        warn(f"{texts} have more than {most} tokens; the rest is ignored.{more if most < 512 else ''}")


_FORMAT = "miv-features-1"
_DIGEST, _SHA = 16, 32  # bytes of the hash of an instance, and of others
_NO_ROWS = np.zeros(0, np.int64)
_FEATURES_SINCE = "0.2.0"  # first version of miv with these features; raise it when a backbone changes
_MOST_ROWS = 512  # instances embedded together
_MOST_NUMBERS = 1 << 20  # numbers in them: 512 small images, or 16 of 256 by 256


def embed_pool(
    backbone: Backbone, pool: InstancePool, cache: Path, progress: Progress | None = None
) -> NDArray[np.float32]:
    """The features ``(P, C)`` of a pool, mapped from the cache if present, else computed and cached."""
    backbone.check(pool)
    if backbone.is_identity:
        return pool.values  # nothing to cache
    path, key = _path(backbone, pool, cache)
    cached = _read(path, (len(pool), backbone.channels))
    if cached is not None:
        return cached
    digests = pool.digests()
    known = list(_find(cache, key, digests, backbone.channels))
    missing = _missing(pool, known)
    if len(missing):
        with lower_precision():
            features = embed_instances(backbone, pool, missing, progress or SilentProgress())
    else:
        features = np.empty((len(pool), backbone.channels), np.float32)
    for others, rows, places in known:
        features[rows] = others[places]
    if len(missing) and features.any():  # zeros are not worth a file
        with ignoring_cache_errors(cache), whole_file(path) as temporary, temporary.open("wb") as file:
            np.save(file, features, allow_pickle=False)
            tail = b"".join(digests) + key
            file.write(tail + _hash(features, tail))
    return features


def embed_exemplars(
    backbone: Backbone, exemplars: ExemplarSet, cache: Path | None, progress: Progress | None = None
) -> NDArray[np.float32]:
    """Features ``(P, C)`` of a set's pool; only the rows of the instances that the set uses are valid.

    If the cache has the whole pool, as after training on it, that is used. Otherwise only the used instances are
    embedded, as a pool of their own: a few exemplars may share a pool of millions. Without a cache, nothing is stored.
    """
    pool, used = exemplars.pool, exemplars.used
    if cache is None:
        return embed_instances(backbone, pool, used, progress)
    if len(used) == len(pool) or backbone.is_identity:
        return embed_pool(backbone, pool, cache, progress)
    backbone.check(pool)
    features = _read(_path(backbone, pool, cache)[0], (len(pool), backbone.channels))
    if features is None:
        features = np.zeros((len(pool), backbone.channels), np.float32)
        features[used] = embed_pool(backbone, pool.take(used), cache, progress)
    return features


def embed_instances(
    backbone: Backbone,
    pool: InstancePool,
    chosen: NDArray[np.int64],
    progress: Progress | None = None,
    *,
    warns: bool = True,
) -> NDArray[np.float32]:
    """Features ``(P, C)`` in memory; the ``chosen`` rows are computed, the others are 0; ``warns`` of cut texts.

    An instance without content, such as a blank image, has features of 0 too, which every verifier is unsure about.
    """
    backbone.check(pool)
    if warns:
        warn_of_cut_texts(backbone, [pool])
    features, emptied = np.zeros((len(pool), backbone.channels), np.float32), 0
    device = next((tensor.device for tensor in (*backbone.parameters(), *backbone.buffers())), torch.device("cpu"))
    step = (progress or SilentProgress()).step("Embedding", total=len(chosen))
    with evaluating(backbone), torch.inference_mode(), step as advance:
        numbers = backbone.prepare(pool.values[:1]).numel()  # of one instance
        together = min(_MOST_ROWS, 1 << max(1, _MOST_NUMBERS // numbers).bit_length() - 1)
        for start in range(0, len(chosen), together):
            pause()
            rows = chosen[start : start + together]
            # The next power of two; texts are divided by length anyway, so padding would only cost time.
            bucket = 1 << (len(rows) - 1).bit_length() if KINDS[backbone.kind].is_array else 1
            embedded = embed(backbone, backbone.prepare(pool.values[rows]).to(device), bucket)
            features[rows] = embedded.float().cpu().numpy()
            empty = rows[backbone.is_empty(pool.values[rows])]
            features[empty] = 0  # whatever a network makes of a blank image
            emptied += len(empty)
            advance(len(rows))
    if not (np.isfinite(features.min(initial=0)) and np.isfinite(features.max(initial=0))):  # without a large mask
        row = int((~np.isfinite(features).all(axis=1)).argmax())
        raise MIVError(f"The backbone gives NaN or infinite features for instance {row} of the pool. Use another one.")
    if len(chosen) > emptied and not features.any():
        warn(f"The backbone gives only zeros for all {len(chosen):,} instances. Check the instances and its weights.")
    return features


def _path(backbone: Backbone, pool: InstancePool, cache: Path) -> tuple[Path, bytes]:
    """The file of a pool, and the hash of what gives the features of all pools of this backbone."""
    made_by = [_FEATURES_SINCE, torch.__version__, *(version(name) for name in backbone.libraries)]
    if not KINDS[backbone.kind].is_array and has_native_bfloat16():
        made_by.append("bfloat16")
    backbone_hash = f"{_FORMAT} {backbone.fingerprint()}"
    name = hashlib.sha256(f"{backbone_hash} {pool.fingerprint} {made_by}".encode()).hexdigest()
    return cache / f"{name}.npy", hashlib.sha256(f"{backbone_hash} {made_by}".encode()).digest()


_Part = tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]


def _find(cache: Path, key: bytes, digests: list[bytes], channels: int) -> Iterator[_Part]:
    """From other pools of the same backbone: their features, rows of this pool, and where these are among theirs."""
    missing = np.arange(len(digests))
    for other in sorted(cache.glob("*.npy")):
        if not len(missing):
            return
        with suppress(OSError, ValueError, EOFError, SyntaxError):  # `_read` says what is wrong
            theirs = _digests(other, key)
            place = {digest: row for row, digest in enumerate(theirs)}
            places = np.array([place.get(digests[row], -1) for row in missing.tolist()])
            features = _read(other, (len(theirs), channels)) if (places >= 0).any() else None
            if features is not None:
                yield features, missing[places >= 0], places[places >= 0]
                missing = missing[places < 0]


def _missing(pool: InstancePool, known: Sequence[_Part]) -> NDArray[np.int64]:
    return np.setdiff1d(np.arange(len(pool)), np.concatenate([_NO_ROWS, *(rows for _, rows, _ in known)]))


def _digests(path: Path, key: bytes) -> list[bytes]:
    """The hashes of the instances in a file, unchecked; none if it is of another backbone."""
    with path.open("rb") as file:
        file.seek(-len(key) - _SHA, os.SEEK_END)
        if file.read(len(key)) != key:
            return []
        features = np.load(path, mmap_mode="r", allow_pickle=False)
        file.seek(features.offset + features.nbytes)
        hashes = file.read(_DIGEST * len(features))
    return [hashes[start : start + _DIGEST] for start in range(0, len(hashes), _DIGEST)]


def _hash(features: NDArray[np.float32], tail: bytes) -> bytes:
    digest = hashlib.sha256(features.data)
    digest.update(tail)
    return digest.digest()


def _read(path: Path, shape: tuple[int, ...]) -> NDArray[np.float32] | None:
    """Map the file if it exists and is intact, else ``None``; a damaged file is removed with a warning."""
    if not os.path.lexists(path):
        return None
    try:
        with path.open("rb") as file:
            features = np.load(path, mmap_mode="r", allow_pickle=False)
            if features.shape != shape or features.dtype != np.float32:
                raise ValueError(f"it has {features.dtype} {features.shape} instead of float32 {shape}")
            file.seek(features.offset + features.nbytes)
            tail = file.read()
            if len(tail) != len(features) * _DIGEST + 2 * _SHA:
                raise ValueError(f"it ends with {len(tail):,} bytes of hashes")
            if _hash(features, tail[:-_SHA]) != tail[-_SHA:]:
                raise ValueError("it does not match its hash")
    except (OSError, ValueError, EOFError, SyntaxError) as error:
        discard(path, error, "Its features are computed again.")
        return None
    return features
