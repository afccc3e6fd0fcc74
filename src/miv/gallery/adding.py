"""Add bags: embed what the gallery does not know yet, and commit it piece by piece, so that a kill loses little."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from miv.data import csr
from miv.errors import MIVError
from miv.files.images import Fit
from miv.gallery import arrow_files as arrow
from miv.gallery.bag_reading import GivenBag, ReadBags, in_parts, read_bags
from miv.gallery.manifest import GalleryManifest
from miv.gallery.snapshot import SegmentContent, Snapshot
from miv.gallery.store import KnownInstances, merge_small, rebatched
from miv.poolings import StoredForm
from miv.runtime import Progress, SilentProgress, evaluating
from miv.verifier.verifying import Rows

if TYPE_CHECKING:
    from miv.gallery.store import OpenGallery
    from miv.verifier.network import Verifier

_TOGETHER = 1024  # instances embedded between two commits: seconds of work
_BAGS_COPIED = 4096
_ROWS_TOGETHER = 4096  # temporaries of this size stay in the cache


class Adding:
    """Adds bags to a gallery that this process has locked.

    Args:
        store: the open gallery.
        verifier: embeds the instances.
        form: what is kept of each bag.
        resize: as for ``Verifier.verify``.
        progress: reports the progress of embedding.
        replace: whether bags of the same name are replaced; otherwise one with other instances is an error.
    """

    def __init__(
        self,
        store: "OpenGallery",
        verifier: "Verifier",
        form: StoredForm,
        resize: Fit | None,
        progress: Progress | None,
        replace: bool,
    ) -> None:
        self.store, self.verifier, self.form, self.resize = store, verifier, form, resize
        self.progress, self.replace = progress or SilentProgress(), replace

    def add(self, bags: Iterable[GivenBag]) -> int:
        """Add all bags; return how many are new or changed."""
        verifier, changed = self.verifier, 0
        with torch.inference_mode(), evaluating(verifier), self.progress.step("Adding bags") as advance:
            for part in in_parts(iter(bags), verifier.backbone.kind):
                changed += self._add_part(read_bags(verifier, part, self.resize))
                advance(len(part))
        return changed

    def copy(self, source: Snapshot) -> None:
        """Add the bags of another gallery with the same backbone."""
        hashes = np.concatenate([np.zeros(0, f"S{arrow.HASH_BYTES}"), *(one.hashes for one in source.segments)])
        bags = np.flatnonzero(source.is_live)
        with torch.inference_mode(), evaluating(self.verifier), self.progress.step("Copying bags") as advance:
            for start in range(0, len(bags), _BAGS_COPIED):
                part = bags[start : start + _BAGS_COPIED]
                ptr, rows = csr.take_bags(source.ptr, part)
                used, places = np.unique(source.members[rows], return_inverse=True)
                self._add_part(
                    ReadBags(
                        names=[source.name(int(bag)) for bag in part],
                        digests=[digest.ljust(arrow.HASH_BYTES, b"\0") for digest in hashes[used].tolist()],
                        members=np.split(places, ptr[1:-1]),
                        instance_names=[source.instance_names(int(bag)) for bag in part],
                        features=partial(_stored_features, source, used),
                        is_embedded=True,
                    )
                )
                advance(len(part))

    def _add_part(self, read: ReadBags) -> int:
        known, digests = self.store.known_instances, read.digests
        new = np.flatnonzero(list(_first_unknown(digests, known)))
        pieces = [new] if read.is_embedded else np.split(new, np.arange(_TOGETHER, len(new), _TOGETHER))
        for piece in pieces[:-1]:
            self._commit([digests[row] for row in piece], read.features(piece), [], [], [])
        last = pieces[-1]
        features = read.features(last) if len(last) else np.zeros((0, self.store.manifest.channels), np.float32)
        hashes = [digests[row] for row in last]
        rows = known.rows_with(hashes, digests)
        members = [rows[places] for places in read.members]
        chosen = self._chosen(read.names, members, read.instance_names)
        if len(last) or chosen:
            names, chosen_members = [read.names[number] for number in chosen], [members[number] for number in chosen]
            instance_names = [read.instance_names[number] for number in chosen]
            self._commit(hashes, features, names, chosen_members, instance_names)
            merge_small(self.store)
        return len(chosen)

    def _chosen(self, names: list[str], members: list[NDArray[np.int64]], instance_names: list[list[str]]) -> list[int]:
        """Bags to write: not those that are there with the same instances and, to replace, the same names of them."""
        snapshot, chosen, seen = self.store.snapshot, [], set()
        for number, name in enumerate(names):
            if name in seen:
                raise MIVError(f"There are two bags named {name!r}. Expected different names.")
            seen.add(name)
            there = snapshot.number_of.get(name)
            if there is not None:
                before = snapshot.members[snapshot.ptr[there] : snapshot.ptr[there + 1]]
                same_names = not self.replace or snapshot.instance_names(there) == instance_names[number]
                if np.array_equal(before, members[number]) and same_names:
                    continue
                if not self.replace:
                    raise MIVError(
                        f"The gallery has a bag named {name!r} with other instances. Choose another name, or replace "
                        "it: `miv gallery replace`, or Gallery.replace in Python."
                    )
            chosen.append(number)
        return chosen

    def _commit(
        self,
        hashes: list[bytes],
        features: Rows,
        names: list[str],
        members: list[NDArray[np.int64]],
        instance_names: list[list[str]],
    ) -> None:
        """Write one segment of new instances and bags, then list it in the manifest."""
        store, manifest = self.store, self.store.manifest
        content = SegmentContent(
            instances=instance_batches(hashes, features, manifest),
            bags=[arrow.bag_batch(names, members, instance_names)] if names else [],
            kept=kept_batches(self.form, features, members, store.snapshot, manifest),
        )
        snapshot = store.snapshot
        replaced = [snapshot.number_of[name] for name in names if name in snapshot.number_of]
        entry = store.write_segment(content)
        changes: dict[str, Any] = {"segments": (*manifest.segments, entry)}
        if replaced:
            changes["removed"] = store.write_removed(np.append(snapshot.removed, replaced))
        store.commit(manifest.changed(**changes), new_hashes=hashes)


def _stored_features(source: Snapshot, used: NDArray[np.int64], wanted: NDArray[np.int64]) -> Rows:
    return source.features.take(used[wanted])


def _first_unknown(digests: list[bytes], known: KnownInstances) -> Iterator[bool]:
    """Whether each digest is new to the gallery, and here for the first time."""
    seen: set[bytes] = set()
    for digest, row in zip(digests, known.rows(digests), strict=True):
        yield row < 0 and digest not in seen
        seen.add(digest)


def instance_batches(hashes: list[bytes], features: Rows, manifest: GalleryManifest) -> Iterable[Any]:
    """Hashes and features ``(n, C)`` of new instances."""
    if not hashes:
        return []
    columns = [arrow.hash_column(hashes), arrow.row_column(features)]
    return [arrow.pa.record_batch(columns, schema=arrow.instance_schema(manifest.channels))]


def kept_batches(
    form: StoredForm, features: Rows, members: list[NDArray[np.int64]], snapshot: Snapshot, manifest: GalleryManifest
) -> Iterable[Any] | None:
    """Kept rows of new instances ``(n, C)``, or of the members of new bags; ``None`` if the features are read."""
    if not manifest.width:
        return None
    if form.per == "instance":
        return rebatched(_of_instances(form, features, manifest))
    return rebatched(_of_bags(form, features, members, snapshot, manifest))


def _of_instances(form: StoredForm, features: Rows, manifest: GalleryManifest) -> Iterator[Any]:
    for start in range(0, len(features), _ROWS_TOGETHER):
        part = features[start : start + _ROWS_TOGETHER]
        yield _batch(form.rows(part, csr.borders([len(part)])), manifest)


def _of_bags(
    form: StoredForm, features: Rows, members: list[NDArray[np.int64]], snapshot: Snapshot, manifest: GalleryManifest
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
        yield _batch(form.rows(rows, ptr[first : last + 1] - ptr[first]), manifest)
        first = last


def _batch(rows: Rows, manifest: GalleryManifest) -> Any:
    return arrow.pa.record_batch([arrow.row_column(rows)], schema=arrow.kept_schema(manifest.width))
