"""Your own data as exemplars: from a folder per class, from a table, or from arrays."""

from miv.data.sources.drawing import Drawing
from miv.data.sources.exemplars_from_arrays import from_arrays
from miv.data.sources.from_folder import FromFolder
from miv.data.sources.from_table import FromTable
from miv.data.sources.pool_builder import ImageForm
from miv.data.sources.split_shares import Shares
from miv.data.sources.table_rows import Columns

__all__ = ["Columns", "Drawing", "FromFolder", "FromTable", "ImageForm", "Shares", "from_arrays"]
