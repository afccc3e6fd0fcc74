"""Bags of any size as chunks of features: files, arrays, iterators, and instances through the backbone."""

from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from miv.data.kinds import KINDS, Kind
from miv.data.pool import InstancePool
from miv.errors import MIVError, needs_extra
from miv.files.arrays import Mask
from miv.files.images import Fit
from miv.files.instances import is_file
from miv.poolings import Rows
from miv.verifier.network import Verifier
from miv.verifier.reading import ErrorLocations, as_vectors, check_finite, is_finite, with_folders
from miv.verifier.verifying import bag_reader, embedded
from miv.verifier.verifying import query_features as features_of_queries

CHUNK_BYTES = 1 << 20  # stays in the cache from reading to pooling
_INSTANCES = 256  # images or texts that are read and embedded together
_PARQUET_ROWS = 2048


@dataclass(frozen=True)
class BagChunks:
    """A bag that can be read from its start."""

    open: Callable[[], Iterator[Rows]]  # returns the chunks, features (n, C) each
    size: int | None = None  # number of instances, if known before the bag is read
    once: bool = False  # whether it can be read only once


class ChunkReader:
    """Turns what users give as one bag into chunks of features."""

    def __init__(self, verifier: Verifier, resize: Fit | None = None) -> None:
        self.verifier, self.backbone, self.resize = verifier, verifier.backbone, resize
        self.takes_vectors = KINDS[verifier.backbone.kind].is_vector

    def read(self, source: Any) -> BagChunks:
        """A file, an array, chunks, a function that returns an iterator, or instances."""
        if isinstance(source, str | PathLike):
            return self._file(Path(source))
        if isinstance(source, Tensor):
            source = source.detach().cpu().numpy()
        if isinstance(source, np.ndarray):
            rows = max(1, CHUNK_BYTES // max(1, source[:1].nbytes))
            starts = range(0, len(source), rows)
            return BagChunks(lambda: self._of_arrays(source[at : at + rows] for at in starts), len(source))
        if callable(source):
            return BagChunks(lambda: self._of_any(iter(source())))
        if not isinstance(source, Iterable):
            raise MIVError(
                f"The bag is a {type(source).__name__}. Expected a .npy or .parquet file, a folder, an array, or an "
                "iterable of chunks or instances."
            )
        if iter(source) is source:
            return BagChunks(lambda: self._of_any(source), once=True)
        size = len(source) if isinstance(source, Sized) else None
        return BagChunks(lambda: self._of_any(iter(source)), size)

    def features(self, instances: Any, place: str = "The bag", first: int = 0) -> Rows:
        """Features ``(n, C)`` of instances that users give, each distinct one embedded once."""
        reader = bag_reader(self.verifier, self.resize)
        rows = reader.add_all(instances, place, first)
        pool = reader.take_new()
        if pool is None:
            return np.zeros((0, self.backbone.channels), np.float32)
        return embedded(self.backbone, pool)[rows]

    def _file(self, path: Path) -> BagChunks:
        if path.suffix == ".npy" and is_file(path):
            file = NumpyFile(path)
            return BagChunks(lambda: self._of_arrays(file.chunks()), file.shape[0])
        if path.suffix == ".parquet" and is_file(path):
            return self._parquet(path)
        members = with_folders([path], self.backbone.kind)[0]
        if members is path:
            raise MIVError(
                f"There is no bag {path}. Expected a .npy or .parquet file, a folder, or a .txt file of texts."
            )
        return BagChunks(lambda: self._of_any(iter(members)), len(members))

    def _parquet(self, path: Path) -> BagChunks:
        with needs_extra("gallery", "A bag in a Parquet file", "pyarrow"):
            import pyarrow.compute as pc
            import pyarrow.parquet as pq
        try:
            table = pq.ParquetFile(path)
        except (OSError, ValueError) as error:
            raise MIVError(f"{path} is not a Parquet file: {error}.") from error
        column = _column_of(path, table.schema_arrow, KINDS[self.backbone.kind])

        def read() -> Iterator[Rows]:
            file = pq.ParquetFile(path, pre_buffer=False)  # which would hold all row groups at once
            for batch in file.iter_batches(_PARQUET_ROWS, columns=[column]):
                values = batch.column(0)
                if values.null_count:
                    raise MIVError(f"{path}: the column {column} has empty cells. Expected one instance per row.")
                if values.type == "string" or values.type == "large_string":
                    yield self.features(values.to_pylist(), str(path))
                else:
                    lengths = np.unique(pc.list_value_length(values).to_numpy(zero_copy_only=False))
                    if len(lengths) > 1:
                        raise MIVError(
                            f"{path}: the vectors in {column} have different lengths, from {lengths[0]} to "
                            f"{lengths[-1]}. Expected one length."
                        )
                    flat = values.flatten().to_numpy(zero_copy_only=False)
                    yield from self._of_arrays([flat.reshape(len(values), -1)])

        return BagChunks(read, table.metadata.num_rows)

    def _of_any(self, items: Iterator[Any]) -> Iterator[Rows]:
        """Chunks, or single instances that are gathered to chunks."""
        done = 0
        waiting: list[Any] = []
        kinds = set()
        for item in items:
            if isinstance(item, Tensor):
                item = item.detach().cpu().numpy()
            is_chunk = isinstance(item, np.ndarray) and item.ndim == 2 and item.dtype.kind == "f"
            kinds.add(is_chunk)
            if len(kinds) > 1:
                raise MIVError("The bag mixes chunks of features and single instances. Expected one of them.")
            if is_chunk:
                yield from self._of_arrays([item])
                continue
            waiting.append(item)
            if len(waiting) == _INSTANCES:
                yield self.features(waiting, first=done)
                done, waiting = done + len(waiting), []
        if waiting:
            yield self.features(waiting, first=done)

    def _of_arrays(self, arrays: Iterable[NDArray[Any]]) -> Iterator[Rows]:
        """Features as they are; images and the vectors that a backbone takes go through it."""
        for array in arrays:
            if array.ndim == 2 and (array.dtype.kind == "f" or self.takes_vectors):
                yield self.embedded(array) if self.takes_vectors else np.asarray(array, np.float32)
            else:
                for start in range(0, len(array), _INSTANCES):
                    yield self.features(array[start : start + _INSTANCES])

    def embedded(self, vectors: NDArray[Any]) -> Rows:
        """What the pooling takes of vectors ``(N, C)``: themselves, or standardised if the verifier does that."""
        rows = np.asarray(vectors, np.float32)
        return rows if self.backbone.is_identity else embedded(self.backbone, InstancePool("features", rows))


def query_features(reader: ChunkReader, queries: Any) -> tuple[Rows, Mask]:
    """Features ``(R, C)`` of queries, each one instance, and which are foreign, ``(R,)`` bool."""
    if isinstance(queries, Tensor):
        queries = queries.detach().cpu().numpy()
    if isinstance(queries, str | PathLike) or not hasattr(queries, "__len__") or _is_numbers(queries):
        raise MIVError("Got one query. Expected a list of queries, each one instance.")
    if any(isinstance(query, list | tuple) and not _is_numbers(query) for query in queries):
        raise MIVError("A query is a list of references. Expected one instance per query, for a bag in chunks.")
    return features_of_queries(reader.verifier, list(queries), ErrorLocations(), reader.resize)


def _is_numbers(values: Any) -> bool:
    return len(values) > 0 and isinstance(values[0], int | float | np.number)


def _column_of(path: Path, schema: Any, kind: Kind) -> str:
    """The only column that can hold instances."""
    lists = [field.name for field in schema if "list" in str(field.type)]
    texts = [field.name for field in schema if str(field.type) in ("string", "large_string")]
    columns = lists or ([] if kind.is_array else texts)
    if len(columns) != 1:
        raise MIVError(
            f"{path} has the columns {', '.join(schema.names)}. Expected exactly one with vectors (lists of numbers)"
            f"{'' if kind.is_array else ' or texts'}."
        )
    return str(columns[0])


class NumpyFile:
    """A ``.npy`` file of numbers ``(N, ...)``, with plain reads: a mapped file would count as memory of the process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            # Mapped, so that a false header cannot allocate memory.
            outline = np.load(path, mmap_mode="r", allow_pickle=False)
        except Exception as error:  # damaged headers raise many types
            raise MIVError(f"{path}: not a NumPy file of numbers, or damaged ({error}).") from error
        if not isinstance(outline, np.memmap) or outline.dtype.kind not in "fiu" or outline.ndim < 2:
            content = f"{outline.dtype} {outline.shape}" if isinstance(outline, np.ndarray) else "an archive"
            raise MIVError(f"{path}: expected numbers of shape (N, C), got {content}.")
        if not outline.flags.c_contiguous:
            raise MIVError(f"{path} is in column-major order. Expected rows: save numpy.ascontiguousarray(array).")
        self.shape, self.dtype, self._offset = outline.shape, outline.dtype, int(outline.offset)

    def chunks(self, first: int = 0, last: int | None = None) -> Iterator[NDArray[Any]]:
        """Arrays ``(n, ...)`` of consecutive rows; each is overwritten by the next."""
        row = self.shape[1:]
        bytes_of_row = int(np.prod(row)) * self.dtype.itemsize
        together = max(1, CHUNK_BYTES // bytes_of_row)
        buffer = np.empty((together, *row), self.dtype)
        raw = memoryview(buffer.data).cast("B")
        at, last = first, self.shape[0] if last is None else last
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset + first * bytes_of_row)
                while at < last:
                    count = min(together, last - at)
                    if file.readinto(raw[: count * bytes_of_row]) < count * bytes_of_row:
                        raise MIVError(f"{self.path} ends after {at:,} of {self.shape[0]:,} rows. It is damaged.")
                    yield buffer[:count]
                    at += count
        except OSError as error:
            raise MIVError(f"Could not read {self.path}: {error.strerror or error}.") from error


def check_queries(queries: Any, channels: int) -> Rows:
    """The features of queries ``(R, channels)``; an error unless they are finite numbers of this shape."""
    features = as_vectors(queries, channels, "The list of queries")
    if not len(features):
        raise MIVError("There are no queries. Expected at least one.")
    check_finite(features, "The list of queries")
    return features


def check_chunk(features: Rows, channels: int, place: int | None = None) -> None:
    """Raise an error unless a chunk is ``(N, channels)``, and finite if the ``place`` of its first row is given."""
    if features.ndim != 2 or features.shape[1] != channels:
        raise MIVError(
            f"A chunk of the bag is {features.shape}. Expected (N, {channels}): one row of features per target."
        )
    if place is not None and not is_finite(features):
        row = place + int((~np.isfinite(features)).any(axis=1).argmax())
        raise MIVError(f"Instance {row:,} of the bag contains NaN or infinity. Expected finite numbers.")
