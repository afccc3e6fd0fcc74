"""Read what the footer of an untrusted Parquet file says about its columns.

pyarrow reads the footer too, but ends the whole process (C++ `terminate`) when it is asked for a column of some damaged
footers. The format is Thrift's compact protocol: a tree of numbered fields.
"""

from dataclasses import dataclass
from typing import Any, BinaryIO

_MAGIC = b"PAR1"
_DEEPEST = 32
_BYTE_ARRAY, _FIXED_LENGTH = 6, 7
# Encodings of texts that cannot be read as numbers. In the second, a text may repeat the start of the text before it.
_DELTA = {6, 7}
# Numbers of fields: of the file, of a group of rows, of a column in it, and of what is known of that column.
_SCHEMA, _GROUPS, _COLUMNS, _ABOUT = 2, 4, 1, 3
_TYPE, _ENCODINGS, _PATH, _VALUES, _UNPACKED = 1, 2, 3, 5, 6
_LENGTH, _CHILDREN = 2, 5  # of an element of the schema, which also has a type


@dataclass(frozen=True)
class ColumnChunk:
    """A column in one group of rows, as the footer describes it."""

    path: tuple[str, ...]
    is_text: bool
    is_delta: bool
    values: int
    value_bytes: int  # of each value at least
    unpacked_bytes: int


def column_chunks(file: BinaryIO) -> list[ColumnChunk]:
    """The columns of all groups of rows; a ``ValueError`` if the footer is damaged."""
    file.seek(0, 2)
    size = file.tell()
    file.seek(max(0, size - 8))
    tail = file.read(8)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != _MAGIC or length > size - 8:
        raise ValueError("it has no Parquet footer")
    file.seek(size - 8 - length)
    try:
        whole = _Reader(file.read(length)).structure()
        # pyarrow decodes by the types in the schema; what a group of rows says may differ in a damaged file.
        elements = [one for one in whole[_SCHEMA][1:] if _TYPE in one and not one.get(_CHILDREN)]
        return [
            _chunk(column[_ABOUT], elements[place])
            for group in whole.get(_GROUPS, [])
            for place, column in enumerate(group[_COLUMNS])
        ]
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError(f"its footer is damaged ({type(error).__name__})") from error


def _chunk(about: dict[int, Any], element: dict[int, Any]) -> ColumnChunk:
    values, unpacked = int(about[_VALUES]), int(about[_UNPACKED])
    value_bytes = int(element[_LENGTH]) if element[_TYPE] == _FIXED_LENGTH else 4
    if values < 0 or unpacked < 0 or value_bytes < 0:
        raise ValueError("its footer has negative sizes")
    path = tuple(part.decode() for part in about[_PATH])
    is_delta = bool(_DELTA & set(about[_ENCODINGS]))
    return ColumnChunk(path, element[_TYPE] == _BYTE_ARRAY, is_delta, values, value_bytes, unpacked)


class _Reader:
    """Reads values of Thrift's compact protocol; everything is at most as long as the bytes that hold it."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._place = 0

    def structure(self, depth: int = 0) -> dict[int, Any]:
        if depth > _DEEPEST:
            raise ValueError("its footer is nested too deeply")
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            found[number] = self._value(head & 15, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (1, 2):  # true and false are in the type itself
            return kind == 1
        if kind == 3:
            return self._byte()
        if kind in (4, 5, 6):
            return self._integer()
        if kind in (7, 8):
            return self._bytes(8 if kind == 7 else self._varint())
        if kind in (9, 10):
            head = self._byte()
            size = head >> 4 if head >> 4 < 15 else self._varint()
            return [self._element(head & 15, depth) for _ in range(self._possible(size))]
        if kind == 12:
            return self.structure(depth + 1)
        raise ValueError(f"its footer has a value of unknown type {kind}")

    def _element(self, kind: int, depth: int) -> Any:
        return self._byte() if kind in (1, 2) else self._value(kind, depth)

    def _possible(self, size: int) -> int:
        if size > len(self._content) - self._place:  # every element has a byte of its own
            raise ValueError("its footer is truncated")
        return size

    def _bytes(self, length: int) -> bytes:
        start, self._place = self._place, self._place + self._possible(length)
        return self._content[start : self._place]

    def _byte(self) -> int:
        self._place += 1
        return self._content[self._place - 1]

    def _varint(self) -> int:
        result = shift = 0
        while True:
            byte = self._byte()
            result |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return result
            if shift > 63:
                raise ValueError("its footer has a number that is too long")

    def _integer(self) -> int:
        zigzag = self._varint()
        return (zigzag >> 1) ^ -(zigzag & 1)
