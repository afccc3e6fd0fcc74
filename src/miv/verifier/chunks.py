"""Bags of any size as chunks of features: files, arrays, iterators, and instances through the backbone."""

from collections.abc import Iterable, Iterator, Sized
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from miv.bags.borders import refuse_nested
from miv.data.kinds import KINDS
from miv.data.pool import InstancePool
from miv.errors import MIVError
from miv.files.arrays import Mask
from miv.files.images import Fit
from miv.files.instances import is_file, refuse_masked
from miv.poolings import Rows
from miv.verifier.engine import foreign_of
from miv.verifier.network import Verifier
from miv.verifier.reading import is_finite, with_folders
from miv.verifier.verifying import bag_reader, embedded

CHUNK_BYTES = 1 << 20  # read together
_INSTANCES = 256  # images or texts that are read and embedded together


class BagChunks:
    """Chunks of one bag: features ``(n, C)``, and which instances have foreign statistics, ``(n,)`` bool.

    Args:
        verifier: the verifier.
        source: a ``.npy`` file, a folder or a ``.txt`` file, an array, an iterable of arrays ``(n, C)`` or of
            instances, or a function that returns an iterator.
        resize: as for ``Verifier.verify``.
    """

    def __init__(self, verifier: Verifier, source: Any, resize: Fit | None = None) -> None:
        bag_reader(verifier, resize)  # refuses what cannot be read in chunks
        self._verifier, self._resize = verifier, resize
        self._takes_vectors = KINDS[verifier.backbone.kind].is_vector
        refuse_nested(source, "The bag")
        refuse_masked(source, "The bag")
        if isinstance(source, str | PathLike):
            source = path = Path(source)
            if not (path.suffix == ".npy" and is_file(path)):
                [source] = with_folders([path], verifier.backbone.kind)
                if source is path:
                    raise MIVError(f"There is no bag {path}. Expected a .npy file, a folder, or a .txt file of texts.")
        elif isinstance(source, Tensor):
            source = source.detach().cpu().numpy()
        if not (callable(source) or isinstance(source, Iterable | Path)):
            raise MIVError(
                f"The bag is a {type(source).__name__}. Expected a .npy file, a folder, an array, or an iterable of "
                "chunks or instances."
            )
        self._source = source
        self.size: int | None = len(source) if isinstance(source, Sized) else None
        """Number of instances or of chunks, if it is known before the bag is read."""
        if isinstance(source, Path):
            self.size = len(_mapped(source))

    def __iter__(self) -> Iterator[tuple[Rows, Mask]]:
        done, waiting, kinds = 0, [], set()
        for item in self._items():
            if isinstance(item, Tensor):
                item = item.detach().cpu().numpy()
            kinds.add(self._is_chunk(item))
            if len(kinds) > 1:
                raise MIVError("The bag mixes chunks of features and single instances. Expected one of them.")
            if self._is_chunk(item):
                refuse_masked(item, "A chunk of the bag")
                rows, backbone = np.asarray(item, np.float32), self._verifier.backbone
                if self._takes_vectors and not backbone.is_identity:
                    rows = embedded(backbone, InstancePool("features", rows))
                yield rows, np.zeros(len(item), bool)
                continue
            waiting.append(item)
            if len(waiting) == _INSTANCES:
                yield self._embedded(waiting, done)
                done, waiting = done + len(waiting), []
        if waiting:
            yield self._embedded(waiting, done)

    def _items(self) -> Iterator[Any]:
        """Arrays of features, or single instances."""
        source = self._source() if callable(self._source) else self._source
        if not isinstance(source, np.ndarray | Path):
            yield from source
            return
        array = _mapped(source) if isinstance(source, Path) else source
        rows = max(1, CHUNK_BYTES // max(1, array[:1].nbytes))
        for start in range(0, len(array), rows):
            if isinstance(source, Path):
                array = _mapped(source)  # anew: pages that stay mapped count as memory of the process
            chunk = np.array(array[start : start + rows])
            yield from [chunk] if self._is_chunk(chunk) else chunk

    def _is_chunk(self, item: Any) -> bool:
        is_matrix = isinstance(item, np.ndarray) and item.ndim == 2
        return is_matrix and (item.dtype.kind == "f" or self._takes_vectors)

    def _embedded(self, instances: list[Any], first: int) -> tuple[Rows, Mask]:
        """Features of instances, each distinct one embedded once."""
        reader = bag_reader(self._verifier, self._resize)
        rows = reader.add_all(instances, "The bag", first)
        pool = reader.take_new()
        assert pool is not None  # noqa: S101 - there is at least one
        return embedded(self._verifier.backbone, pool)[rows], foreign_of(self._verifier, pool)[rows]


def _mapped(path: Path) -> NDArray[Any]:
    """A ``.npy`` file of numbers ``(N, ...)``; a false header cannot allocate memory."""
    try:
        array: Any = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # damaged headers raise many types
        raise MIVError(f"{path}: not a NumPy file of numbers, or damaged ({error}).") from error
    if not isinstance(array, np.memmap) or array.dtype.kind not in "fiu" or array.ndim < 2:
        content = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else "an archive"
        raise MIVError(f"{path}: expected numbers of shape (N, C), got {content}.")
    return array


def check_chunk(features: Rows, channels: int, place: int) -> None:
    """Raise an error unless a chunk is ``(N, channels)`` and finite; ``place`` is that of its first row."""
    if features.ndim != 2 or features.shape[1] != channels:
        raise MIVError(
            f"A chunk of the bag is {features.shape}. Expected (N, {channels}): one row of features per target."
        )
    if not is_finite(features):
        row = place + int((~np.isfinite(features)).any(axis=1).argmax())
        raise MIVError(f"Instance {row:,} of the bag contains NaN or infinity. Expected finite numbers.")
