"""Your own data as exemplars: from a folder per class, from a table, or from arrays."""

from miv.tasks.custom.drawing import Drawing
from miv.tasks.custom.exemplars_from_arrays import from_arrays
from miv.tasks.custom.from_folder import FromFolder
from miv.tasks.custom.from_table import FromTable
from miv.tasks.custom.pool_builder import ImageForm
from miv.tasks.custom.split_shares import Shares
from miv.tasks.custom.table_rows import Columns

__all__ = ["Columns", "Drawing", "FromFolder", "FromTable", "ImageForm", "Shares", "from_arrays"]
