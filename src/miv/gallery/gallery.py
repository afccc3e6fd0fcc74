"""The public gallery: create, open, add, remove, replace, search; and a check, which reads what is left of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from miv.data import csr
from miv.errors import MIVError
from miv.files.arrays import Integers, Mask
from miv.files.atomic import readable_disk_errors, whole_folder
from miv.files.images import Fit
from miv.gallery.adding import Adding, GivenBag, check_bag_name
from miv.gallery.files import DAMAGED, GalleryManifest, SegmentEntry
from miv.gallery.search import Hits, search
from miv.gallery.snapshot import Segment, Snapshot
from miv.gallery.store import OpenGallery, compact
from miv.poolings import form_of
from miv.runtime import Progress, SilentProgress
from miv.verifier.engine import witnesses_by
from miv.verifier.network import Verifier
from miv.verifier.reading import ALONE, single_instances
from miv.verifier.saving import backbone_fingerprint, verifier_fingerprint
from miv.verifier.verdict import WitnessMethod
from miv.verifier.verifying import query_features

VERIFIER = "verifier"
_MOST_TO_SUGGEST = 20_000  # bags; comparing a name with more takes seconds


@dataclass(frozen=True)
class GalleryCheck:
    """What a check of a gallery found."""

    bags: int  # that are whole
    problems: tuple[str, ...]  # one sentence per damaged file
    lost: tuple[str, ...]  # names of bags with damaged instances
    nameless: int  # bags whose names are damaged, too

    def __str__(self) -> str:
        lines = [*self.problems, f"Whole bags: {self.bags:,}. Damaged bags: {len(self.lost) + self.nameless:,}."]
        return "\n".join([*lines, f"Lost: {', '.join(self.lost)}"] if self.lost else lines)

    def document(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {**vars(self), "problems": list(self.problems), "lost": list(self.lost)}


class _SegmentRemains(Segment):
    """A segment that may be damaged or missing; what is missing is filled with zeros."""

    def __init__(self, folder: Path, entry: SegmentEntry, manifest: GalleryManifest) -> None:
        self.problem, self.views = "", {name: np.zeros(shape) for name, shape in entry.shapes(manifest).items()}
        self.is_whole_bag = self.is_named = np.zeros(entry.bags, bool)
        self.is_whole_instance = np.zeros(entry.instances, bool)
        try:
            super().__init__(folder, entry, manifest)
        except (MIVError, FileNotFoundError) as error:
            self.problem = _words(error)
            self.sizes, self.members = np.ones(entry.bags, np.int64), np.zeros(entry.bags, np.int64)

    def array(self, name: str) -> Any:
        return self.views[name]

    def read_bags(self) -> tuple[Integers, Integers]:
        """Sizes and members of the bags, as far as they are whole."""
        try:
            self.file.verify(0, len(self.file.content))
        except MIVError as error:
            self.problem = _words(error)
        features, hashes = self._intact("features"), self._intact("hashes")
        self.is_whole_instance = features & hashes & self._intact("foreign")
        if not (self._intact("sizes").all() and self._intact("text_sizes").all()):
            raise MIVError(self.problem)  # which bag is which cannot be told
        sizes, members = super().read_bags()
        self.is_named = self._intact("texts", self.text_borders)
        self.is_whole_bag = self.is_named & self._intact("members", csr.borders(sizes))
        return sizes, np.where(np.repeat(self.is_whole_bag, sizes), members, 0)

    def _intact(self, name: str, borders: Integers | None = None) -> Mask:
        """Which rows of an array, or which runs of rows, are as they were written."""
        (start, _), view = self.borders[name], self.views[name]
        rows = np.arange(len(view) + 1) if borders is None else borders
        return self.file.intact(start + rows * (view[:1].nbytes or 1))


def _words(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"{error.filename} is missing."
    return str(error).removesuffix(DAMAGED).strip()


class Remains(Snapshot):
    """What is left of a gallery: its live bags are those that are whole."""

    segment_type = _SegmentRemains

    def __init__(self, folder: Path, manifest: GalleryManifest, known: Sequence[Segment] = ()) -> None:
        super().__init__(folder, manifest)
        none, was_live = np.zeros(0, bool), self.is_live
        remains = [segment for segment in self.segments if isinstance(segment, _SegmentRemains)]  # all of them
        self.problems = [segment.problem for segment in remains if segment.problem]
        is_whole = np.concatenate([none, *(segment.is_whole_instance for segment in remains)])
        is_whole_bag = np.concatenate([none, *(segment.is_whole_bag for segment in remains)])
        self.is_named = np.concatenate([none, *(segment.is_named for segment in remains)])
        self.is_live = was_live & is_whole_bag & ~csr.bag_any(~is_whole[self.members], self.ptr)
        self.lost = was_live & ~self.is_live

    def check(self) -> GalleryCheck:
        lost = [self.name(int(bag)) for bag in np.flatnonzero(self.lost & self.is_named)]
        nameless = int((self.lost & ~self.is_named).sum())
        return GalleryCheck(int(self.is_live.sum()), tuple(self.problems), tuple(lost), nameless)


class Gallery:
    """Many bags on disk, and the verifier that searches them.

    Every distinct instance is embedded and stored once, even if several bags hold it. Several processes can search a
    gallery while one writes to it; a process that is killed leaves it as it was after the last finished step.

    Create one with ``Gallery.create``, open one with ``Gallery.open``.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp() + "/files"
    >>> gallery = Gallery.create(folder, Verifier("nearest", channels=2))
    >>> gallery.add("first", [[1.0, 0.0], [0.9, 0.3]])
    >>> gallery.add("second", [[0.0, 1.0]])
    >>> [hit.name for hit in gallery.search([0.1, 1.0])]
    ['second', 'first']
    """

    def __init__(self, folder: str | Path, verifier: Verifier | str | Path | None = None) -> None:
        self.folder = Path(folder)
        self.verifier = self._verifier_for(GalleryManifest.load(self.folder), self.folder, verifier)
        self._form = form_of(self.verifier.pooling)
        self._store = OpenGallery(self.folder)

    @classmethod
    def create(
        cls, folder: str | Path, verifier: Verifier | str | Path, *, like: str | Path | None = None
    ) -> "Gallery":
        """Create a gallery in a new or empty folder, with a copy of the verifier.

        ``like`` is another gallery, whose bags are copied without embedding them again; its verifier must have the same
        backbone.
        """
        folder = Path(folder)
        verifier = verifier if isinstance(verifier, Verifier) else Verifier.from_pretrained(verifier)
        _refuse_existing(folder)
        return cls._created(folder, verifier, None if like is None else cls.open(like)._store.snapshot)

    @classmethod
    def _created(cls, folder: Path, verifier: Verifier, source: Snapshot | None) -> "Gallery":
        form = form_of(verifier.pooling)
        manifest = GalleryManifest(
            fingerprint=verifier_fingerprint(verifier),
            backbone=backbone_fingerprint(verifier),
            channels=verifier.backbone.channels,
            per=form.per,
            width=form.width if form.is_stored_apart else 0,
        )
        if source is not None and source.manifest.backbone != manifest.backbone:
            remedy = "Create the gallery without --like, and add the bags from their files again: miv gallery add"
            raise MIVError(f"The verifier of the gallery {source.folder} has another backbone. {remedy}")
        with whole_folder(folder) as temporary:
            verifier.save_pretrained(temporary / VERIFIER)
            manifest.save(temporary)
            if source is not None:
                store = OpenGallery(temporary)
                with store.writing():
                    Adding(store, verifier, form, SilentProgress()).copy(source)
        return cls(folder, verifier)

    @classmethod
    def open(cls, folder: str | Path, verifier: Verifier | str | Path | None = None) -> "Gallery":
        """Open a gallery. A verifier that replaces the gallery's own may differ in its operating point only."""
        return cls(folder, verifier)

    @staticmethod
    def _verifier_for(manifest: GalleryManifest, folder: Path, verifier: Verifier | str | Path | None) -> Verifier:
        source = verifier if verifier is not None else folder / VERIFIER
        loaded = source if isinstance(source, Verifier) else Verifier.from_pretrained(source)
        if verifier_fingerprint(loaded) != manifest.fingerprint:
            name = str(source) if isinstance(source, str | Path) else "VERIFIER"
            remedy = f"Open it with its own, or make a new gallery: miv gallery create NEW {name} --like {folder}"
            raise MIVError(f"What the gallery {folder} stores does not fit another verifier. {remedy}")
        return loaded

    @classmethod
    def check(
        cls, folder: str | Path, *, verifier: Verifier | str | Path | None = None, rebuild: str | Path | None = None
    ) -> GalleryCheck:
        """Compare all files of a gallery with their checksums; a damaged manifest or verifier is an error.

        ``rebuild`` is a new folder, for a gallery of the bags that are whole. ``verifier`` is the gallery's own if that
        is damaged, too.
        """
        folder = Path(folder)
        manifest = GalleryManifest.load(folder)
        loaded = cls._verifier_for(manifest, folder, verifier)
        remains = Remains(folder, manifest)
        check = remains.check()
        if rebuild is not None:
            _refuse_existing(Path(rebuild))
            cls._created(Path(rebuild), loaded, remains)
        return check

    def add(
        self,
        name: str,
        instances: Any,
        *,
        instance_names: Sequence[str] | None = None,
        resize: Fit | None = None,
        progress: Progress | None = None,
        replace: bool = False,
    ) -> None:
        """Add a bag as ``Verifier.verify`` takes it, under a new name, which is not a path.

        Adding the same bag again changes nothing, so a killed command can be repeated. ``instance_names`` are shown for
        witnesses; by default they are the files of images, and the texts. ``replace`` is for ``put``.
        """
        self._write([GivenBag(name, instances, instance_names)], resize, progress, replace=replace)

    def add_many(
        self,
        bags: "Mapping[str, Any] | Iterable[tuple[str, Any] | tuple[str, Any, Sequence[str]]]",
        *,
        resize: Fit | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Add many bags, faster than one by one; return how many are new.

        ``bags`` are instances by name, or tuples of a name, instances and, if wanted, names of the instances, as in
        ``add``; a generator is fine.
        """
        given = (GivenBag(*bag) for bag in (bags.items() if isinstance(bags, Mapping) else bags))
        return self._write(given, resize, progress, replace=False)

    def replace(self, name: str, instances: Any, **options: Any) -> None:
        """Replace the instances of a bag in one step; the arguments are those of ``add``."""
        self._number(name)
        self.put(name, instances, **options)

    def put(self, name: str, instances: Any, **options: Any) -> None:
        """Add a bag, or replace the bag of that name in one step; the arguments are those of ``add``."""
        self.add(name, instances, **options, replace=True)

    def remove(self, *names: str) -> None:
        """Remove bags: all of them, or none if a name is unknown. ``compact`` frees their space."""
        with self._store.writing():
            numbers = [self._number(name) for name in dict.fromkeys(names)]
            self._store.commit(removed=tuple(sorted({*self._store.manifest.removed, *numbers})))

    def search(
        self,
        query: Any,
        top: int = 10,
        *,
        witnesses: WitnessMethod | None = None,
        resize: Fit | None = None,
        most_pooled: int | None = None,
    ) -> Hits:
        """Find the ``top`` bags that most likely hold something of the query's class.

        The other arguments are those of ``Verifier.verify``; a list of queries is several references of one class.
        If witnesses would pool more than ``most_pooled`` instances, a cheaper method chooses them, and a note says so.
        """
        if not isinstance(top, int) or isinstance(top, bool) or top < 1:
            raise MIVError(f"top is {top!r}. Expected a whole number of at least 1.")
        by = witnesses_by(self.verifier, witnesses)
        references, _, places = single_instances([query], self.verifier.backbone.kind, ALONE)
        asked = query_features(self.verifier, references, places, resize)
        return search(self.verifier, self._form, self._store.refresh(), asked, top, by, most_pooled)

    def compact(self) -> None:
        """Free the space of removed bags and of instances that no bag uses, and merge small files."""
        with self._store.writing():
            compact(self._store)

    def __len__(self) -> int:
        return int(self._store.refresh().is_live.sum())

    def __contains__(self, name: object) -> bool:
        return name in self._store.refresh().number_of

    def __repr__(self) -> str:
        return f"Gallery({str(self.folder)!r}, {len(self):,} bags)"

    @property
    def names(self) -> list[str]:
        """Names of the bags, in the order in which they were added."""
        return list(self._store.refresh().number_of)

    def info(self) -> dict[str, Any]:
        """Counts and sizes, as plain values."""
        snapshot = self._store.refresh()
        manifest, used = snapshot.manifest, len(np.unique(snapshot.members[snapshot.live_members]))
        return {
            "folder": str(self.folder),
            "bags": int(snapshot.is_live.sum()),
            "instances": used,
            "members": int(snapshot.live_members.sum()),
            "removed_bags": len(manifest.removed),
            "unused_instances": manifest.instances - used,
            "segments": len(manifest.segments),
            "bytes": manifest.bytes,
            "pooling": self.verifier.configuration["pooling"],
            "calibrated": not self.verifier.operating_point.is_default,
            "fingerprint": manifest.fingerprint,
        }

    def _number(self, name: str) -> int:
        number_of = self._store.refresh().number_of
        if check_bag_name(name) not in number_of:
            near = get_close_matches(name, islice(number_of, _MOST_TO_SUGGEST), n=1, cutoff=0.5)
            raise MIVError(f"There is no bag {name!r}.{f' Did you mean {near[0]!r}?' if near else ''}")
        return number_of[name]

    def _write(self, bags: Iterable[GivenBag], resize: Fit | None, progress: Progress | None, *, replace: bool) -> int:
        with self._store.writing():
            shown = progress or SilentProgress()
            return Adding(self._store, self.verifier, self._form, shown, resize, replace).add(bags)


def _refuse_existing(folder: Path) -> None:
    with readable_disk_errors(folder):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise MIVError(f"{folder} already exists. Choose another name, or remove it.")
