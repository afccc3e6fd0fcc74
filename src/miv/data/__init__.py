"""Exemplars as a table of indices over a pool of instances that are stored once."""

from miv.data.exemplar_set import ExemplarSet
from miv.data.instance_pool import InstancePool, Kind
from miv.data.split_folders import SPLITS, load_split, load_splits, save_splits

__all__ = ["SPLITS", "ExemplarSet", "InstancePool", "Kind", "load_split", "load_splits", "save_splits"]
