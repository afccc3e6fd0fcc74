"""An index over the kept rows that proposes bags, so that the verifier compares a few instead of all.

The rows whose codes are nearest to the query's are proposed. Each is compared as a bag of its own, and the bags of the
best ones are compared whole. Which share of the rows is proposed is chosen when the index is built: the smallest that
finds nearly all of the exact best bags.
"""

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from miv.data import csr
from miv.errors import MIVError
from miv.gallery.row_codes import RowCodes, codes_of, write_codes
from miv.gallery.searching import best_places, exact_logits, logits_of
from miv.gallery.store.arrow_files import missing_file
from miv.gallery.store.gallery_manifest import INDEX, Recall, SegmentEntry
from miv.gallery.store.open_gallery import OpenGallery
from miv.gallery.store.snapshot import Snapshot
from miv.kept import KeptForm
from miv.runtime.evaluation_mode import evaluating
from miv.runtime.progress import Progress, SilentProgress

if TYPE_CHECKING:
    from miv.gallery.store.segments import Segment

Rows = NDArray[np.float32]
LEAST_ROWS = 10_000  # a pass over a smaller segment is faster than its index
TOP = 10  # hits by which recall is measured
QUERIES = 100  # stored instances that serve as queries when recall is measured, after as many that chose the share
SHARES = (0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16)  # of the rows, proposed by their codes
_WANTED = 0.995  # recall by which the share is chosen
_LEAST_PROPOSED = 1024  # rows of a segment
_COMPARED = 8  # one in so many proposed rows has its bag compared
_QUERIES_TOGETHER = 10  # share one pass
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
            store.require_same()
            with progress.step("Indexing", total=sum(map(len, segment.kept))) as advance:
                write_codes(path, segment.kept, form.proposal_rows, advance)
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
        share: of the rows, proposed by their codes.
    """

    def __init__(self, form: KeptForm, snapshot: Snapshot, recall: Recall | None, share: float) -> None:
        self.form, self.snapshot, self.recall, self.share = form, snapshot, recall, share

    def candidates(self, queries: Rows, top: int) -> NDArray[np.int64]:
        """Numbers of the bags to compare, in increasing order."""
        snapshot, first = self.snapshot, 0
        codes = codes_of(self.form.proposal_queries(queries))
        chosen = np.zeros(snapshot.bags, bool)
        rows = [np.zeros(0, np.int64)]
        compared = [np.zeros(0, np.int64)]  # without a code of their own
        for number, segment in enumerate(snapshot.segments):
            kept = sum(map(len, segment.kept))
            if INDEX in segment.entry.bytes:
                count = max(_LEAST_PROPOSED, 4 * top, round(self.share * kept))
                mapped = _mapped(segment)
                rows += [first + mapped.nearest(code, count) for code in codes]
            else:
                compared.append(np.arange(first, first + kept))
                chosen[snapshot.first_bag[number] : snapshot.first_bag[number + 1]] = True
            first += kept
        compared += self._best_alone(queries, np.unique(np.concatenate(rows)), top)
        borders, bags = snapshot.bags_of_rows
        chosen[bags[csr.take_bags(borders, np.unique(np.concatenate(compared)))[1]]] = True
        return np.flatnonzero(chosen & snapshot.is_live)

    def _best_alone(self, queries: Rows, rows: NDArray[np.int64], top: int) -> list[NDArray[np.int64]]:
        """For each query, the rows that have the greatest logits as bags of one."""
        prepared, found = self.form.prepare(queries), []
        count = max(_LEAST_PROPOSED, 4 * top, len(rows) // _COMPARED)
        for start in range(0, len(rows), prepared.rows_together):
            kept = self.snapshot.kept.take(rows[start : start + prepared.rows_together])
            found.append(prepared.logits(kept, np.arange(len(kept) + 1)))
        return [rows[best_places(logits, count)] for logits in np.concatenate(found, axis=1)] if found else []


def noted_prefilter(form: KeptForm, snapshot: Snapshot) -> Prefilter:
    """The prefilter of a gallery whose index was built, with the recall that was measured then."""
    recall = snapshot.manifest.recall
    if recall is None or recall.share is None:
        found = "has no index" if recall is None else "has an index of an earlier version of miv"
        raise MIVError(
            f"The gallery {snapshot.folder} {found}. Build one with `miv gallery index {snapshot.folder}` "
            "(Gallery.build_index in Python), or search without the prefilter."
        )
    return Prefilter(form, snapshot, recall, recall.share)


def _with_index(entry: SegmentEntry, size: int) -> SegmentEntry:
    return SegmentEntry(entry.name, entry.instances, entry.bags, entry.members, {**entry.bytes, INDEX: size})


def _mapped(segment: "Segment") -> RowCodes:
    """Map the index of a segment, once; if another process has removed the segment, the error is FileNotFoundError."""
    if segment.index is None:
        segment.index = RowCodes(segment.path / INDEX, segment.entry.bytes[INDEX], sum(map(len, segment.kept)))
    return segment.index


def _measured_recall(form: KeptForm, snapshot: Snapshot, progress: Progress) -> Recall:
    """Share of the exact ten best bags among those of the prefilter, with a sample of stored instances as queries.

    Half of the sample chooses the share of the rows that is proposed, and the other half measures the recall.
    """
    live = np.flatnonzero(snapshot.is_live)
    if not len(live):
        raise MIVError("The gallery is empty. Add bags first.")
    bags = np.random.default_rng(_SEED).choice(live, min(2 * QUERIES, len(live)), replace=False)
    queries = snapshot.features.take(snapshot.members[snapshot.ptr[bags]])
    best = _exact_best(form, snapshot, live, queries, progress)
    half = len(queries) // 2
    chosen = (one for one in SHARES if _found(form, snapshot, queries[:half], best[:half], one) >= _WANTED)
    share = next(chosen, SHARES[-1]) if half else SHARES[-1]
    recall = _found(form, snapshot, queries[half:], best[half:], share)
    return Recall(recall, TOP, len(queries) - half, len(live), share)


def _exact_best(
    form: KeptForm, snapshot: Snapshot, live: NDArray[np.int64], queries: Rows, progress: Progress
) -> list[NDArray[np.int64]]:
    best = []
    with progress.step("Searching without the index", total=len(queries)) as advance:
        for start in range(0, len(queries), _QUERIES_TOGETHER):
            some = queries[start : start + _QUERIES_TOGETHER]
            exact = exact_logits(form.prepare(some), snapshot)[:, live]
            best += [live[best_places(logits, TOP)] for logits in exact]
            advance(len(some))
    return best


def _found(form: KeptForm, snapshot: Snapshot, queries: Rows, best: list[NDArray[np.int64]], share: float) -> float:
    """Recall of the prefilter with this share."""
    prefilter, shares = Prefilter(form, snapshot, None, share), []
    for query, expected in zip(queries, best, strict=True):
        proposed = prefilter.candidates(query[None], TOP)
        ranked = logits_of(form.prepare(query[None]), snapshot, proposed)[0]
        shares.append(len(np.intersect1d(expected, proposed[best_places(ranked, TOP)])) / len(expected))
    return float(np.mean(shares))
