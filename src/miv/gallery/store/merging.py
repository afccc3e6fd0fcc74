"""Merge small segments, and drop what removed bags left."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.gallery.store import arrow_files as arrow
from miv.gallery.store.gallery_manifest import SegmentEntry
from miv.gallery.store.open_gallery import OpenGallery
from miv.gallery.store.segments import Segment, SegmentContent

_TOGETHER = 4  # segments of about one size are merged when there are this many
_SMALLEST = 64  # rows; up to this, segments count as equally small
_LARGEST = 1 << 19  # rows of a merged segment: merging takes seconds
_ROWS_PER_BATCH = 1 << 16


def merge_small(store: OpenGallery) -> None:
    """Merge the last segments if there are several of one size, so that there are never many.

    Bags and instances keep their numbers. Each row is written again a few times at most: once per factor of four.
    """
    while count := _count_to_merge([entry.size for entry in store.manifest.segments]):
        merged = store.snapshot.segments[-count:]
        content = SegmentContent(
            instances=rebatched(batch for one in merged for batch in one.instance_batches),
            bags=rebatched(batch for one in merged for batch in one.bag_batches),
            kept=rebatched(batch for one in merged for batch in one.kept_batches) if store.manifest.width else None,
        )
        entry = store.write_segment(content)
        store.commit(store.manifest.changed(segments=(*store.manifest.segments[:-count], entry)), new_hashes=[])


def compact(store: OpenGallery) -> None:
    """Rewrite segments without removed bags and without instances that no bag uses, then merge small ones."""
    snapshot, manifest = store.snapshot, store.manifest
    live_members = np.repeat(snapshot.is_live, np.diff(snapshot.ptr))
    is_used = np.zeros(len(snapshot.features), bool)
    is_used[snapshot.members[live_members]] = True
    new_number = np.cumsum(is_used) - 1
    entries: list[SegmentEntry] = []
    first_instance = first_bag = first_member = 0
    for segment in snapshot.segments:
        entry = segment.entry
        used = is_used[first_instance : first_instance + entry.instances]
        live = snapshot.is_live[first_bag : first_bag + entry.bags]
        of_live = live_members[first_member : first_member + entry.members]
        moved = bool((new_number[segment.members] != segment.members).any())
        if used.all() and live.all() and not moved:
            entries.append(entry)
        elif used.any() or live.any():
            kept_mask = {"instance": used, "member": of_live, "bag": live}[snapshot.per]
            content = SegmentContent(
                instances=rebatched(_filtered(segment.instance_batches, used)),
                bags=rebatched(_renumbered(segment, live, new_number)),
                kept=rebatched(_filtered(segment.kept_batches, kept_mask)) if manifest.width else None,
            )
            entries.append(store.write_segment(content))
        first_instance += entry.instances
        first_bag += entry.bags
        first_member += entry.members
    store.commit(manifest.changed(segments=tuple(entries), removed=None))
    merge_small(store)


def rebatched(batches: Iterable[Any]) -> Iterator[Any]:
    """The same rows in batches of a useful size: thousands of tiny ones would be slow to read."""
    waiting: list[Any] = []
    for batch in batches:
        waiting.append(batch)
        if sum(len(one) for one in waiting) >= _ROWS_PER_BATCH:
            yield from _joined(waiting)
            waiting = []
    yield from _joined(waiting)


def _joined(batches: list[Any]) -> Iterator[Any]:
    if any(len(batch) for batch in batches):
        yield from arrow.pa.Table.from_batches(batches).combine_chunks().to_batches()


def _count_to_merge(sizes: list[int]) -> int:
    limit = _SMALLEST
    while limit <= _LARGEST:
        count = total = 0
        for size in reversed(sizes):
            if size > limit or total + size > _LARGEST:
                break
            count, total = count + 1, total + size
        if count >= _TOGETHER:
            return count
        limit *= _TOGETHER
    return 0


def _filtered(batches: list[Any], mask: NDArray[np.bool_]) -> Iterator[Any]:
    start = 0
    for batch in batches:
        yield batch.filter(arrow.pa.array(mask[start : start + len(batch)]))
        start += len(batch)


def _renumbered(segment: Segment, live: NDArray[np.bool_], new_number: NDArray[np.int64]) -> Iterator[Any]:
    for batch in _filtered(segment.bag_batches, live):
        column, names = batch.column(1), batch.column(2)
        borders = arrow.pa.array(np.concatenate([[0], np.cumsum(np.diff(column.offsets.to_numpy()))]))
        members = new_number[column.flatten().to_numpy()]
        columns = [
            batch.column(0),
            arrow.pa.LargeListArray.from_arrays(borders, arrow.pa.array(members, arrow.pa.int64())),
            arrow.pa.LargeListArray.from_arrays(borders, names.flatten()),
        ]
        yield arrow.pa.record_batch(columns, schema=arrow.bag_schema())
