"""Your own data as exemplars: from one folder per class, a table, arrays, or a Hugging Face dataset."""

from miv.data.sources.drawing import Drawing
from miv.data.sources.folder import FromFolder, splits_from_folder
from miv.data.sources.table import Columns, FromTable, splits_from_table
from miv.data.splits import Shares
from miv.files.images import ImageForm

__all__ = [
    "Columns",
    "Drawing",
    "FromFolder",
    "FromTable",
    "ImageForm",
    "Shares",
    "splits_from_folder",
    "splits_from_table",
]
