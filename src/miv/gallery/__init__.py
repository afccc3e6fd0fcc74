"""A gallery: many bags on disk, searched by one query."""

from miv.gallery.bag_gallery import Gallery
from miv.gallery.hits import Hit, Hits, HitWitness

__all__ = ["Gallery", "Hit", "HitWitness", "Hits"]
