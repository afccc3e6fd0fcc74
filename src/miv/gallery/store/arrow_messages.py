"""Messages of an Arrow file, looked at before their content is read."""

import struct
from collections.abc import Iterator
from typing import Any

_MAGIC = b"ARROW1\0\0"
_HEADER, _COMPRESSION = 2, 3  # numbers of the fields in the tables Message and RecordBatch of Arrow's format


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
