"""Exemplars as a table of indices into a pool that stores each instance once."""

from typing import TYPE_CHECKING

from miv.registry import lazy_exports

if TYPE_CHECKING:
    from miv.data.exemplars import Exemplar as Exemplar, ExemplarSet as ExemplarSet
    from miv.data.folder import load_split as load_split, load_splits as load_splits, save_splits as save_splits
    from miv.data.pool import InstancePool as InstancePool
    from miv.data.splits import SPLITS as SPLITS
    from miv.files.instances import InstanceKind as InstanceKind

_HOMES = {
    "exemplars": "Exemplar ExemplarSet",
    "folder": "load_split load_splits save_splits",
    "pool": "InstancePool",
    "splits": "SPLITS",
}
_NAMES = {name: f"miv.data.{home}" for home, names in _HOMES.items() for name in names.split()}
_NAMES["InstanceKind"] = "miv.files.instances"
__all__ = sorted(_NAMES)
__getattr__, __dir__ = lazy_exports(__name__, _NAMES)
