"""Import pyarrow in one place; if it is missing, the error says what to install. Refuse files that unpack to too much.

Reading text tables, images and verifiers does not need it, so import this module inside a function,
or in a module that is imported only to read or write Parquet files.
"""

from pathlib import Path

from miv.errors import MIVError, needs_extra

__all__ = ["check_unpacked_size", "pa", "pq"]


with needs_extra("train", "Reading and writing Parquet files", "pyarrow"):
    import pyarrow as pa
    import pyarrow.parquet as pq


_FREE_BYTES = 256 << 20  # a file may always unpack to this many bytes,
_MANY_ROWS = 1024  # of texts, read at a time; fewer if they are long
_LARGEST_RATIO = 1000  # or to this many times its size


def check_unpacked_size(path: Path, content: bytes | None = None) -> None:
    """Raise an error if a file unpacks to far more memory than its size suggests, before it is unpacked.

    A few bytes can encode a billion equal numbers, which the footer shows. They can also encode one long text for a
    thousand rows, so texts are first read and counted, a few rows at a time. ``content`` is that of the file, if
    already read.
    """
    file_bytes = path.stat().st_size if content is None else len(content)
    most = max(_FREE_BYTES, _LARGEST_RATIO * file_bytes)
    total, longest, texts = 0, 1, set()
    with pq.ParquetFile(path if content is None else pa.BufferReader(content)) as file:
        # pyarrow aborts the process when it is asked for a damaged chunk. A scan, in bounded memory, raises an error.
        file.scan_contents()
        for group in range(file.metadata.num_row_groups):
            for place in range(file.metadata.row_group(group).num_columns):
                chunk, column = file.metadata.row_group(group).column(place), file.schema.column(place)
                # pyarrow decodes by the types in the schema; what a group of rows says may differ in a damaged file.
                value_bytes = column.length if column.physical_type == "FIXED_LEN_BYTE_ARRAY" else 4
                if min(chunk.num_values, chunk.total_uncompressed_size, value_bytes) < 0:
                    raise ValueError("its footer has negative sizes")
                total += max(chunk.total_uncompressed_size, value_bytes * chunk.num_values)
                if column.physical_type == "BYTE_ARRAY":
                    texts.add(chunk.path_in_schema)
                    longest = max(longest, chunk.total_uncompressed_size)  # a text may be as long as all of them
        _check(path, total, most, file_bytes)
        total = 0
        for name in sorted(texts):
            for batch in file.iter_batches(max(1, min(_MANY_ROWS, most // longest)), columns=[name]):
                total += batch.nbytes
                _check(path, total, most, file_bytes)


def _check(path: Path, unpacked: int, most: int, file_bytes: int) -> None:
    if unpacked > most:
        raise MIVError(
            f"{path} has {file_bytes:,} bytes and unpacks to {unpacked:,} or more. Expected at most {most:,}. "
            "The file is probably damaged; if not, split it or save it as CSV."
        )
