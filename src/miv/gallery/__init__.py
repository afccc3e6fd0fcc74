"""A gallery: many bags on disk, searched by one query."""

from miv.gallery.files import MANIFEST_NAME, GalleryManifest
from miv.gallery.gallery import Gallery, GalleryCheck
from miv.gallery.search import Chance, Hit, Hits, HitWitness, TooManyPooled
from miv.gallery.snapshot import Snapshot
from miv.gallery.store import GalleryBusy, GalleryReplaced

__all__ = [
    "MANIFEST_NAME",
    "Chance",
    "Gallery",
    "GalleryBusy",
    "GalleryCheck",
    "GalleryManifest",
    "GalleryReplaced",
    "Hit",
    "HitWitness",
    "Hits",
    "Snapshot",
    "TooManyPooled",
]
