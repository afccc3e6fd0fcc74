"""An index over the kept rows that proposes bags, so that the verifier compares a few instead of all."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from miv.data import csr
from miv.errors import MIVError, needs_extra
from miv.gallery.searching import best_places, exact_logits, logits_of
from miv.gallery.store.arrow_files import DAMAGED, missing_file
from miv.gallery.store.gallery_manifest import INDEX, Recall, SegmentEntry
from miv.gallery.store.open_gallery import OpenGallery
from miv.gallery.store.snapshot import Snapshot
from miv.io.whole_files import whole_file
from miv.kept import KeptForm
from miv.runtime.evaluation_mode import evaluating
from miv.runtime.progress import Progress, SilentProgress

Rows = NDArray[np.float32]
LEAST_ROWS = 10_000  # a pass over a smaller segment is faster than its index
TOP = 10  # hits by which recall is measured
QUERIES = 100  # stored instances that serve as queries when recall is measured
_PROPOSED = 256  # rows proposed per segment, and width of its search
_CONNECTIVITY, _EXPANSION = 16, 128  # of the graph; more is more exact, slower to build and larger
_ROWS_TOGETHER = 8192
_SEED = 0


def build_index(store: OpenGallery, form: KeptForm, progress: Progress | None = None) -> float:
    """Index every large segment that has no index yet, then measure and note the recall."""
    if not form.proposes:
        raise MIVError(
            "The pooling of this verifier compares every instance with the query in its own way, so no index can "
            "propose bags. Search without the prefilter, or use another pooling, such as cap_dba_l2."
        )
    progress = progress or SilentProgress()
    with torch.inference_mode(), evaluating(form.verifier):
        for place, entry in enumerate(store.manifest.segments):
            segment = store.snapshot.segments[place]
            if INDEX in entry.bytes or sum(map(len, segment.kept)) < LEAST_ROWS:
                continue
            path = segment.path / INDEX
            _write_index(path, form, segment.kept, progress)
            indexed = _with_index(entry, path.stat().st_size)
            segments = (*store.manifest.segments[:place], indexed, *store.manifest.segments[place + 1 :])
            store.commit(store.manifest.changed(segments=segments), new_hashes=[])
        try:
            recall = _measured_recall(form, store.snapshot, progress)
        except FileNotFoundError as error:  # no other process can have removed it
            raise missing_file(error) from error
    store.commit(store.manifest.changed(recall=recall), new_hashes=[])
    return recall.recall


class Prefilter:
    """Proposes the bags that hold the rows nearest to a query, and all bags that are in no index.

    Args:
        form: the kept form.
        snapshot: the gallery.
        recall: of its index; ``None`` while it is measured.
    """

    def __init__(self, form: KeptForm, snapshot: Snapshot, recall: Recall | None) -> None:
        self.form, self.snapshot, self.recall = form, snapshot, recall

    def candidates(self, queries: Rows, top: int) -> NDArray[np.int64]:
        """Numbers of the bags to compare, in increasing order."""
        snapshot, first, rows = self.snapshot, 0, []
        vectors = self.form.proposal_queries(queries)
        count = max(_PROPOSED, 4 * top)
        chosen = np.zeros(snapshot.bags, bool)
        for number, segment in enumerate(snapshot.segments):
            kept = sum(map(len, segment.kept))
            if INDEX in segment.entry.bytes:
                rows.append(first + _nearest(_view(segment), vectors, min(count, kept)))
            else:
                rows.append(np.arange(first, first + kept))
                chosen[snapshot.first_bag[number] : snapshot.first_bag[number + 1]] = True
            first += kept
        borders, bags = snapshot.bags_of_rows
        wanted = np.unique(np.concatenate([np.zeros(0, np.int64), *rows]))
        chosen[bags[csr.take_bags(borders, wanted)[1]]] = True
        return np.flatnonzero(chosen & snapshot.is_live)


def noted_prefilter(form: KeptForm, snapshot: Snapshot) -> Prefilter:
    """The prefilter of a gallery whose index was built, with the recall that was measured then."""
    if snapshot.manifest.recall is None:
        raise MIVError(
            f"The gallery {snapshot.folder} has no index. Build one with `miv gallery index {snapshot.folder}` "
            "(Gallery.build_index in Python), or search without the prefilter."
        )
    return Prefilter(form, snapshot, snapshot.manifest.recall)


def _usearch() -> Any:
    with needs_extra("gallery", "An index of a gallery", "usearch"):
        from usearch.index import Index
    return Index


def _write_index(path: Path, form: KeptForm, kept: list[Rows], progress: Progress) -> None:
    width = form.proposal_rows(kept[0][:1]).shape[1]
    options = {"connectivity": _CONNECTIVITY, "expansion_add": _EXPANSION}
    index = _usearch()(ndim=width, metric="ip", dtype="bf16", **options)
    first = 0
    with progress.step("Indexing", total=sum(map(len, kept))) as advance:
        for piece in kept:
            for start in range(0, len(piece), _ROWS_TOGETHER):
                rows = form.proposal_rows(piece[start : start + _ROWS_TOGETHER])
                index.add(np.arange(first, first + len(rows)), rows, threads=torch.get_num_threads())
                first += len(rows)
                advance(len(rows))
    with whole_file(path) as temporary:
        index.save(str(temporary))


def _with_index(entry: SegmentEntry, size: int) -> SegmentEntry:
    return SegmentEntry(entry.name, entry.instances, entry.bags, entry.members, {**entry.bytes, INDEX: size})


def _view(segment: Any) -> Any:
    """Map the index of a segment, once; if another process has removed the segment, the error is FileNotFoundError."""
    if segment.index is None:
        path, expected = segment.path / INDEX, segment.entry.bytes[INDEX]
        found = path.stat().st_size
        if found != expected:
            raise MIVError(f"The index {path} has {found:,} bytes. Expected {expected:,}. {DAMAGED}")
        try:
            segment.index = _usearch().restore(str(path), view=True)
        except (RuntimeError, ValueError, OSError) as error:
            path.stat()  # it may be gone since
            raise MIVError(f"{path} is not an index: {error}. {DAMAGED}") from error
        if segment.index is None or len(segment.index) != sum(map(len, segment.kept)):
            raise MIVError(f"{path} is not the index of its segment. {DAMAGED}")
    return segment.index


def _nearest(index: Any, vectors: Rows, count: int) -> NDArray[np.int64]:
    index.expansion_search = count
    if index.ndim != vectors.shape[1]:
        raise MIVError(f"An index has vectors of {index.ndim}, the queries {vectors.shape[1]}. {DAMAGED}")
    found = [index.search(vector, count, threads=1).keys for vector in vectors]
    rows = np.concatenate(found).astype(np.int64)
    return rows[rows < len(index)]


def _measured_recall(form: KeptForm, snapshot: Snapshot, progress: Progress) -> Recall:
    """Share of the exact ten best bags among those of the prefilter, with a sample of stored instances as queries."""
    live = np.flatnonzero(snapshot.is_live)
    if not len(live):
        raise MIVError("The gallery is empty. Add bags first.")
    random = np.random.default_rng(_SEED)
    bags = random.choice(live, min(QUERIES, len(live)), replace=False)
    first = snapshot.members[snapshot.ptr[np.sort(bags)]]
    queries = snapshot.features.take(first)
    prefilter = Prefilter(form, snapshot, recall=None)
    shares = []
    with progress.step("Measuring recall", total=len(queries)) as advance:
        for start in range(0, len(queries), 10):  # ten queries share one pass
            some = queries[start : start + 10]
            exact = exact_logits(form.prepare(some), snapshot)[:, live]
            for query, logits in zip(some, exact, strict=True):
                best = live[best_places(logits, TOP)]
                proposed = prefilter.candidates(query[None], TOP)
                ranked = logits_of(form.prepare(query[None]), snapshot, proposed)[0]
                shares.append(len(np.intersect1d(best, proposed[best_places(ranked, TOP)])) / len(best))
            advance(len(some))
    return Recall(float(np.mean(shares)), TOP, len(queries), len(live))
