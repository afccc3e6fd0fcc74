"""From instances to feature vectors, one file a backbone."""

from miv.backbones import compact_cnn, features  # noqa: F401
from miv.backbones.base import BACKBONES, Backbone

__all__ = ["BACKBONES", "Backbone"]
