"""Your own data as exemplars: from a folder per class, from a table, or from arrays."""

from miv.tasks.own.arrays import from_arrays
from miv.tasks.own.drawing import Drawing
from miv.tasks.own.folder import FromFolder
from miv.tasks.own.instances import ImageForm
from miv.tasks.own.rows import Columns
from miv.tasks.own.splits import Shares
from miv.tasks.own.table import FromTable

__all__ = ["Columns", "Drawing", "FromFolder", "FromTable", "ImageForm", "Shares", "from_arrays"]
