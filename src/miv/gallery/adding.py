"""Add bags: read them, embed what the gallery does not know yet, and commit it part by part."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image

from miv.data import csr
from miv.data.pool import InstancePool
from miv.errors import MIVError
from miv.files.arrays import Integers, Mask
from miv.files.images import Fit
from miv.files.instances import InstanceKind
from miv.gallery.files import HASH_BYTES
from miv.gallery.snapshot import Snapshot
from miv.gallery.store import OpenGallery, merge_small
from miv.poolings import StoredForm
from miv.runtime import Progress, evaluating
from miv.verifier.engine import foreign_of
from miv.verifier.network import Verifier
from miv.verifier.reading import ErrorLocations, check_bags, with_folders
from miv.verifier.verifying import Rows, bag_reader, embedded

_PART_MEMBERS: dict[InstanceKind, int] = {"image": 1024, "text": 1024, "features": 1 << 16}  # seconds of work
_LONGEST_NAME = 1000
_LONGEST_TEXT = 200  # characters of a text that serve as its name
_BAGS_COPIED = 4096
_ROWS_TOGETHER = 4096  # temporaries of this size stay in the cache


class GivenBag(NamedTuple):
    """A bag to add: its name, its instances as ``Verifier.verify`` takes them, and names of the instances."""

    name: str
    instances: Any
    instance_names: Sequence[str] | None = None


@dataclass(frozen=True, eq=False)
class ReadBags:
    """Some bags that were read, and whose instances may still have to be embedded."""

    names: list[str]
    digests: list[bytes]  # of each instance, equal if the content is equal
    members: list[Integers]  # for each bag, the rows of its members among the instances
    instance_names: list[list[str]]
    foreign: Mask  # whether the statistics of each instance are out of distribution
    features: Callable[[Integers], Rows]  # of the instances at some rows


def in_parts(bags: Iterator[GivenBag], kind: InstanceKind) -> Iterator[list[GivenBag]]:
    """Divide bags into parts of which the instances fit in memory."""
    part: list[GivenBag] = []
    members = 0
    for bag in bags:
        check_bag_name(bag.name)
        [instances] = with_folders([bag.instances], kind)
        check_bags([None], [instances], kind, ErrorLocations([f"The bag {bag.name!r}"]))
        part.append(GivenBag(bag.name, instances, bag.instance_names))
        members += len(instances)
        if members >= _PART_MEMBERS[kind]:
            yield part
            part, members = [], 0
    if part:
        yield part


def read_bags(verifier: Verifier, bags: list[GivenBag], resize: Fit | None) -> ReadBags:
    """Read the instances of some bags, each distinct one once."""
    backbone, reader = verifier.backbone, bag_reader(verifier, resize)
    names = [_member_names(bag, backbone.kind) for bag in bags]
    members = [reader.add_all(bag.instances, f"The bag {bag.name!r}") for bag in bags]
    pool = reader.take_new()
    if pool is None:
        raise MIVError("There are no instances. Expected at least one bag.")
    if pool.kind == "features":
        pool = InstancePool("features", pool.values + np.float32(0))  # -0.0 becomes 0.0: equal vectors, equal bytes

    def features(rows: Integers) -> Rows:
        return embedded(backbone, pool.take(rows))

    foreign, bag_names = foreign_of(verifier, pool), [bag.name for bag in bags]
    return ReadBags(bag_names, pool.digests(), members, names, foreign, features)


def check_bag_name(name: object) -> str:
    """Return the name of a bag: a text that is not empty. It is data and never part of a path."""
    is_text = isinstance(name, str) and name.encode(errors="ignore").decode() == name
    if not is_text or not str(name).strip() or len(str(name)) > _LONGEST_NAME:
        raise MIVError(f"The name of a bag is {str(name)[:80]!r}. Expected 1 to {_LONGEST_NAME} characters of UTF-8.")
    return str(name)


def _member_names(bag: GivenBag, kind: InstanceKind) -> list[str]:
    """Given names, else files of images, else the first words of texts."""
    if bag.instance_names is not None:
        names = [str(name) for name in bag.instance_names]
        if len(names) != len(bag.instances):
            counts = f"{len(bag.instances)} instances and {len(names)} instance names"
            raise MIVError(f"The bag {bag.name!r} has {counts}. Expected one name per instance.")
    elif kind == "image":
        files = [getattr(image, "filename", "") if isinstance(image, Image.Image) else image for image in bag.instances]
        names = [str(file) if isinstance(file, str | PathLike) else "" for file in files]
    elif kind == "text":
        names = [str(one)[:_LONGEST_TEXT] for one in bag.instances]
    else:
        names = [""] * len(bag.instances)
    # File names that are not UTF-8 hold half letters, which no UTF-8 can.
    return [name[:_LONGEST_NAME].encode(errors="replace").decode() for name in names]


@dataclass(frozen=True, eq=False)
class Adding:
    """Adds bags part by part, so that a kill loses little; without ``replace``, another bag of a name is an error."""

    store: OpenGallery
    verifier: Verifier
    form: StoredForm
    progress: Progress
    resize: Fit | None = None
    replace: bool = False

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
        bags = np.flatnonzero(source.is_live)
        with torch.inference_mode(), evaluating(self.verifier), self.progress.step("Copying bags") as advance:
            for start in range(0, len(bags), _BAGS_COPIED):
                part = bags[start : start + _BAGS_COPIED]
                ptr, rows = csr.take_bags(source.ptr, part)
                used, places = np.unique(source.members[rows], return_inverse=True)
                self._add_part(
                    ReadBags(
                        names=[source.name(int(bag)) for bag in part],
                        digests=source.hashes(used),
                        members=np.split(places, ptr[1:-1]),
                        instance_names=[source.instance_names(int(bag)) for bag in part],
                        foreign=source.foreign.take(used)[:, 0] > 0,
                        features=lambda rows, used=used: source.features.take(used[rows]),  # type: ignore[misc]
                    )
                )
                advance(len(part))

    def _add_part(self, read: ReadBags) -> int:
        digests, snapshot = read.digests, self.store.snapshot
        known = snapshot.numbers(digests)
        unknown = np.flatnonzero(known < 0)
        new = np.array(sorted({digests[place]: place for place in unknown[::-1]}.values()), np.int64)
        new_numbers = {digests[row]: len(snapshot.features) + n for n, row in enumerate(new)}
        numbers = np.array([new_numbers.get(*pair) for pair in zip(digests, known, strict=True)], np.int64)
        members = [numbers[places] for places in read.members]
        chosen = self._chosen(read.names, members, read.instance_names)
        if len(new) or chosen:
            self._commit(read, new, chosen, [members[bag] for bag in chosen])
            merge_small(self.store)
        return len(chosen)

    def _chosen(self, names: list[str], members: list[Integers], instance_names: list[list[str]]) -> list[int]:
        """Bags to write: not those that are there with the same instances and, to replace, the same names of them."""
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise MIVError(f"There are two bags named {twice[0]!r}. Expected different names.")
        snapshot, chosen = self.store.snapshot, []
        for number, name in enumerate(names):
            there = snapshot.number_of.get(name)
            if there is not None:
                before = snapshot.members[snapshot.ptr[there] : snapshot.ptr[there + 1]]
                same_names = not self.replace or snapshot.instance_names(there) == instance_names[number]
                if np.array_equal(before, members[number]) and same_names:
                    continue
                if not self.replace:
                    remedy = "Choose another name, or replace it: `miv gallery replace`, or Gallery.replace in Python."
                    raise MIVError(f"The gallery has a bag named {name!r} with other instances. {remedy}")
            chosen.append(number)
        return chosen

    def _commit(self, read: ReadBags, new: Integers, chosen: list[int], members: list[Integers]) -> None:
        """Write one segment of new instances and of chosen bags with their members, then list it in the manifest."""
        store, snapshot = self.store, self.store.snapshot
        features = read.features(new) if len(new) else np.zeros((0, store.manifest.channels), np.float32)
        names = [read.names[bag] for bag in chosen]
        labels = [read.instance_names[bag] if any(read.instance_names[bag]) else [] for bag in chosen]
        texts = [
            json.dumps([name, *of_bag], ensure_ascii=False).encode() for name, of_bag in zip(names, labels, strict=True)
        ]
        arrays: dict[str, Any] = {
            "hashes": [np.frombuffer(b"".join(read.digests[row] for row in new), f"V{HASH_BYTES}")],
            "foreign": [read.foreign[new]],
            "features": [features],
            "stored": self._stored_rows(features, members),
            "members": members,
            "sizes": [np.array(list(map(len, members)))],
            "text_sizes": [np.array(list(map(len, texts)))],
            "texts": [np.frombuffer(b"".join(texts), np.uint8)],
        }
        replaced = {snapshot.number_of[name] for name in names if name in snapshot.number_of}
        removed = tuple(sorted({*store.manifest.removed, *replaced}))
        store.commit(segments=(*store.manifest.segments, store.write_segment(arrays)), removed=removed)

    def _stored_rows(self, features: Rows, members: list[Integers]) -> Iterator[Rows]:
        """Stored rows of new instances with the features ``(n, C)``, or of the members of new bags."""
        snapshot, form = self.store.snapshot, self.form
        if not self.store.manifest.width:
            return
        if form.per == "instance":
            for start in range(0, len(features), _ROWS_TOGETHER):
                part = features[start : start + _ROWS_TOGETHER]
                yield form.rows(part, csr.borders([len(part)]))
            return
        before, ptr = len(snapshot.features), csr.borders([len(bag) for bag in members])
        for first, last in csr.batches(ptr, _ROWS_TOGETHER):
            wanted = np.concatenate(members[first:last])
            rows = np.empty((len(wanted), features.shape[1]), np.float32)
            is_new = wanted >= before
            rows[is_new] = features[wanted[is_new] - before]
            rows[~is_new] = snapshot.features.take(wanted[~is_new])
            yield form.rows(rows, ptr[first : last + 1] - ptr[first])
