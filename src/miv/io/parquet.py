"""Import pyarrow in one place; if it is missing, the error says what to install.

Reading text tables, images and verifiers does not need it, so import this module inside a function,
or in a module that is imported only to read or write Parquet files.
"""

from miv.errors import needs_extra

with needs_extra("train", "Reading and writing Parquet files", "pyarrow"):
    import pyarrow as pa
    import pyarrow.parquet as pq

__all__ = ["pa", "pq"]
