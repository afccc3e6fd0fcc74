"""From instances to feature vectors, one file a backbone."""

from miv.backbones import compact_cnn, features, hf, hog, hog_cnn, pixels, timm  # noqa: F401
from miv.backbones.backbone_base import BACKBONES, Backbone, create_backbone

__all__ = ["BACKBONES", "Backbone", "create_backbone"]
