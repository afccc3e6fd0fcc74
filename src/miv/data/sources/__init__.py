"""Your own data as exemplars: from one folder per class, a table, arrays, or a Hugging Face dataset."""

from miv.data.sources.arrays import from_arrays
from miv.data.sources.drawing import Drawing
from miv.data.sources.folder import FromFolder
from miv.data.sources.own_data import folder_source, splits_from_folder, splits_from_table, table_source
from miv.data.sources.table import Columns, FromTable
from miv.data.splits import Shares
from miv.files.images import ImageForm

__all__ = [
    "Columns",
    "Drawing",
    "FromFolder",
    "FromTable",
    "ImageForm",
    "Shares",
    "folder_source",
    "from_arrays",
    "splits_from_folder",
    "splits_from_table",
    "table_source",
]
