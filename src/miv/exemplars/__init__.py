"""Exemplars as a table of indices over a pool of instances that are stored once."""

from miv.exemplars.pool import InstancePool, Kind
from miv.exemplars.splits import SPLITS, load_split, load_splits, save_splits
from miv.exemplars.table import ExemplarSet

__all__ = ["SPLITS", "ExemplarSet", "InstancePool", "Kind", "load_split", "load_splits", "save_splits"]
