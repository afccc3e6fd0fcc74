"""Exemplars as a table of indices into a pool that stores each instance once."""

from miv.data.exemplars import Exemplar, ExemplarSet
from miv.data.folder import load_set, load_split, load_splits, save_set, save_splits
from miv.data.pool import InstancePool
from miv.data.sources.arrays import bag_side, from_arrays, from_dataset, query_side, to_dataset
from miv.data.sources.folder import set_from_folder
from miv.data.sources.table import set_from_table
from miv.data.splits import SPLITS
from miv.files.instances import InstanceKind

__all__ = [
    "SPLITS",
    "Exemplar",
    "ExemplarSet",
    "InstanceKind",
    "InstancePool",
    "bag_side",
    "from_arrays",
    "from_dataset",
    "load_set",
    "load_split",
    "load_splits",
    "query_side",
    "save_set",
    "save_splits",
    "set_from_folder",
    "set_from_table",
    "to_dataset",
]
