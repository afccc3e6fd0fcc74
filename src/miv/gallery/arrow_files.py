"""Arrow files of a gallery: written in one pass, mapped instead of read, and checked before they are believed."""

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.errors import MIVError, needs_extra

HASH_BYTES = 16
DAMAGED = "The gallery is damaged. Restore it from a copy, or create it again."
_MAGIC = b"ARROW1\0\0"
_HEADER, _COMPRESSION = 2, 3  # numbers of the fields in the tables Message and RecordBatch of Arrow's format


class _Arrow:
    """pyarrow, imported when it is first used: `import miv` and its names must work without it."""

    def __getattr__(self, name: str) -> Any:
        with needs_extra("gallery", "A gallery", "pyarrow"):
            import pyarrow
        return getattr(pyarrow, name)


pa: Any = _Arrow()


def instance_schema(channels: int) -> Any:
    """Distinct instances: the hash of their content, and their features."""
    return pa.schema([("hash", pa.binary(HASH_BYTES)), ("features", pa.list_(pa.float32(), channels))])


def kept_schema(width: int) -> Any:
    """What is kept of each instance, member or bag."""
    return pa.schema([("kept", pa.list_(pa.float32(), width))])


def bag_schema() -> Any:
    """Bags: their names, the numbers of their instances, and names of these."""
    numbers, texts = pa.large_list(pa.int64()), pa.large_list(pa.string())
    return pa.schema([("name", pa.string()), ("members", numbers), ("instance_names", texts)])


def removed_schema() -> Any:
    """Numbers of removed bags."""
    return pa.schema([("bag", pa.int64())])


def require_arrow() -> None:
    """Raise an error before any work if pyarrow is missing."""
    _ = pa.__version__


def write_batches(path: Path, schema: Any, batches: Iterable[Any]) -> None:
    """Write record batches, uncompressed, so that they can be mapped."""
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def map_batches(path: Path, schema: Any, expected_bytes: int, rows: int) -> list[Any]:
    """Map the record batches of a file; anything but this schema, size and number of rows is an error."""
    try:
        found = path.stat().st_size
        if found != expected_bytes:
            raise MIVError(f"{path} has {found:,} bytes. Expected {expected_bytes:,}. {DAMAGED}")
        batches = list(record_batches(pa, pa.memory_map(str(path)).read_buffer(), schema))
        for batch in batches:
            batch.validate(full=True)  # borders outside their texts would crash; rows of numbers have none to check
        counted = sum(len(batch) for batch in batches)
        # Mapped columns are no larger than their file, unless several claim the same bytes.
        if counted != rows or sum(batch.nbytes for batch in batches) > expected_bytes:
            raise MIVError(f"{path} has {counted:,} rows. Expected {rows:,}, each with bytes of its own. {DAMAGED}")
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise MIVError(f"{path} cannot be read: {error}. {DAMAGED}") from error
    return batches


def missing_file(error: FileNotFoundError) -> MIVError:
    """The error about a file that the manifest lists, and that is not there."""
    return MIVError(f"{error.filename or error} is missing. {DAMAGED}")


def row_column(rows: NDArray[np.float32]) -> Any:
    """Rows ``(N, K)`` as a column."""
    values = pa.array(np.ascontiguousarray(rows, np.float32).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(values, rows.shape[1])


def column_rows(column: Any, width: int) -> NDArray[np.float32]:
    """A column of ``N`` lists of ``K`` numbers as rows ``(N, K)``, without a copy."""
    if column.null_count or column.values.null_count:
        raise MIVError(f"A column of numbers has empty cells. {DAMAGED}")
    values = column.values.to_numpy(zero_copy_only=True).reshape(-1, width)
    return np.asarray(values[column.offset : column.offset + len(column)])


def hash_column(digests: list[bytes]) -> Any:
    """Digests of 16 bytes as a column."""
    return pa.array(digests, pa.binary(HASH_BYTES))


def column_hashes(column: Any) -> NDArray[Any]:
    """A column of digests as an array of 16 bytes each, which NumPy can sort."""
    start = column.offset * HASH_BYTES
    content = column.buffers()[1]
    taken = b"" if content is None else content.to_pybytes()[start : start + len(column) * HASH_BYTES]
    return np.frombuffer(taken, f"S{HASH_BYTES}")


def bag_batch(names: list[str], members: list[NDArray[np.int64]], instance_names: list[list[str]]) -> Any:
    """Bags as a record batch."""
    sizes = np.array([0, *(len(one) for one in members)], np.int64)
    joined = np.concatenate(members) if members else np.zeros(0, np.int64)
    borders = pa.array(np.cumsum(sizes), pa.int64())
    flat = pa.array([name for some in instance_names for name in some], pa.string())
    columns = [
        pa.array(names, pa.string()),
        pa.LargeListArray.from_arrays(borders, pa.array(joined, pa.int64())),
        pa.LargeListArray.from_arrays(borders, flat),
    ]
    return pa.record_batch(columns, schema=bag_schema())


def removed_batch(bags: NDArray[np.int64]) -> Any:
    """Numbers of removed bags as a record batch."""
    return pa.record_batch([pa.array(bags, pa.int64())], schema=removed_schema())


def record_batches(pa: Any, content: Any, schema: Any) -> Iterator[Any]:
    """Yield the record batches of a mapped file without a copy; another schema or compressed content is an error.

    The messages are read one after the other, as a stream, and not by the list at the end of the file: so each one is
    checked before pyarrow would unpack it, which for a few bytes can take all memory.

    Args:
        pa: pyarrow.
        content: the buffer of the whole file.
        schema: the expected schema.
    """
    if content.slice(0, len(_MAGIC)).to_pybytes() != _MAGIC:
        raise pa.ArrowInvalid("it is not an Arrow file")
    messages = iter(pa.ipc.MessageReader.open_stream(pa.BufferReader(content.slice(len(_MAGIC)))))
    first = next(messages, None)
    if first is None:
        raise pa.ArrowInvalid("it has no schema")
    found = pa.ipc.read_schema(first)
    if not found.equals(schema):
        raise pa.ArrowInvalid(f"it has other columns: {str(found)[:200]}")
    for message in messages:
        if message.type != "record batch":
            raise pa.ArrowInvalid(f"it has a message of another type: {message.type}")
        if _is_compressed(message.metadata.to_pybytes()):
            raise pa.ArrowInvalid("it is compressed")
        yield pa.ipc.read_record_batch(message, schema)


def _is_compressed(metadata: bytes) -> bool:
    """Whether the metadata of a record batch, a FlatBuffer that pyarrow has verified, has the field BodyCompression."""
    message = struct.unpack_from("<I", metadata)[0]
    header = _field(metadata, message, _HEADER)
    if header == message:
        return False  # reading it says that the header is missing
    batch = header + struct.unpack_from("<I", metadata, header)[0]
    return _field(metadata, batch, _COMPRESSION) != batch


def _field(metadata: bytes, table: int, number: int) -> int:
    """The place of a field of a FlatBuffers table; that of the table itself if it does not have the field."""
    offsets = table - struct.unpack_from("<i", metadata, table)[0]
    size = struct.unpack_from("<H", metadata, offsets)[0]
    place = 4 + 2 * number
    return table + (struct.unpack_from("<H", metadata, offsets + place)[0] if place + 2 <= size else 0)
