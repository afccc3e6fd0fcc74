"""Your own data as exemplars: from one folder per class, a table, arrays, or a Hugging Face dataset."""

from miv.data.sources.drawing import Drawing
from miv.data.sources.exemplars_from_arrays import from_arrays
from miv.data.sources.from_folder import FromFolder
from miv.data.sources.from_table import FromTable
from miv.data.sources.own_data import folder_source, splits_from_folder, splits_from_table, table_source
from miv.data.sources.pool_builder import ImageForm
from miv.data.sources.split_shares import Shares
from miv.data.sources.table_rows import Columns

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
