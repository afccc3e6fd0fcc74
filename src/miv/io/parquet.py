"""The library of Parquet files, imported in one place: where it is missing, the error says what to install.

Reading text tables, images and verifiers does without it, so whoever imports this module does so inside a function,
or is itself imported only where a Parquet file is read or written.
"""

from miv.errors import needs_extra

with needs_extra("train", "Reading and writing Parquet files", "pyarrow"):
    import pyarrow as pa
    import pyarrow.parquet as pq

__all__ = ["pa", "pq"]
