"""Counts and sizes of a gallery."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.gallery.store.snapshot import Snapshot
from miv.models.verifier import Verifier


def counts_of(snapshot: Snapshot, folder: Path, verifier: Verifier) -> dict[str, Any]:
    """Counts and sizes, as plain values."""
    manifest = snapshot.manifest
    live, used = _live_members(snapshot), used_instances(snapshot)
    return {
        "folder": str(folder),
        "bags": int(snapshot.is_live.sum()),
        "instances": used,
        "members": int(live.sum()),
        "removed_bags": len(snapshot.removed),
        "unused_instances": manifest.instances - used,
        "segments": len(manifest.segments),
        "bytes": sum(sum(entry.bytes.values()) for entry in manifest.segments),
        "indexed_bags": 0,  # this and the next are of an index that earlier versions had
        "recall": None,
        "pooling": verifier.configuration["pooling"],
        "calibrated": not verifier.operating_point.is_default,
        "fingerprint": manifest.fingerprint,
    }


def used_instances(snapshot: Snapshot) -> int:
    """Number of distinct instances in bags that are not removed."""
    return len(np.unique(snapshot.members[_live_members(snapshot)]))


def _live_members(snapshot: Snapshot) -> NDArray[np.bool_]:
    return np.repeat(snapshot.is_live, np.diff(snapshot.ptr))
