"""New instances and what is kept of them, as record batches of a segment."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.data import csr
from miv.gallery.store import arrow_files as arrow
from miv.gallery.store.gallery_manifest import GalleryManifest
from miv.gallery.store.merging import rebatched
from miv.gallery.store.snapshot import Snapshot
from miv.poolings import KeptForm

Rows = NDArray[np.float32]
_ROWS_TOGETHER = 4096  # temporaries of this size stay in the cache


def instance_batches(hashes: list[bytes], features: Rows, manifest: GalleryManifest) -> Iterable[Any]:
    """Hashes and features ``(n, C)`` of new instances."""
    if not hashes:
        return []
    columns = [arrow.hash_column(hashes), arrow.row_column(features)]
    return [arrow.pa.record_batch(columns, schema=arrow.instance_schema(manifest.channels))]


def kept_batches(
    form: KeptForm, features: Rows, members: list[NDArray[np.int64]], snapshot: Snapshot, manifest: GalleryManifest
) -> Iterable[Any] | None:
    """Kept rows of new instances ``(n, C)``, or of the members of new bags; ``None`` if the features are read."""
    if not manifest.width:
        return None
    if form.per == "instance":
        return rebatched(_of_instances(form, features, manifest))
    return rebatched(_of_bags(form, features, members, snapshot, manifest))


def _of_instances(form: KeptForm, features: Rows, manifest: GalleryManifest) -> Iterator[Any]:
    for start in range(0, len(features), _ROWS_TOGETHER):
        part = features[start : start + _ROWS_TOGETHER]
        yield _batch(form.keep(part, csr.borders([len(part)])), manifest)


def _of_bags(
    form: KeptForm, features: Rows, members: list[NDArray[np.int64]], snapshot: Snapshot, manifest: GalleryManifest
) -> Iterator[Any]:
    before, ptr = len(snapshot.features), csr.borders([len(one) for one in members])
    first = 0
    while first < len(members):
        last = max(first + 1, int(np.searchsorted(ptr, ptr[first] + _ROWS_TOGETHER, side="right")) - 1)
        wanted = np.concatenate(members[first:last])
        rows = np.empty((len(wanted), manifest.channels), np.float32)
        is_new = wanted >= before
        rows[is_new] = features[wanted[is_new] - before]
        rows[~is_new] = snapshot.features.take(wanted[~is_new])
        yield _batch(form.keep(rows, ptr[first : last + 1] - ptr[first]), manifest)
        first = last


def _batch(rows: Rows, manifest: GalleryManifest) -> Any:
    return arrow.pa.record_batch([arrow.row_column(rows)], schema=arrow.kept_schema(manifest.width))
