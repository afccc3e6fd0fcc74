"""Exemplars as a table of indices into a pool that stores each instance once."""

from miv.data.exemplar_set import Exemplar, ExemplarSet
from miv.data.instance_pool import InstancePool
from miv.data.split_folders import SPLITS, load_split, load_splits, save_splits
from miv.data.two_kinds import bag_side, query_side
from miv.io.instance_files import InstanceKind

__all__ = [
    "SPLITS",
    "Exemplar",
    "ExemplarSet",
    "InstanceKind",
    "InstancePool",
    "bag_side",
    "load_split",
    "load_splits",
    "query_side",
    "save_splits",
]
