"""From instances to feature vectors, with one file per backbone."""

from miv.backbones import compact_cnn, features, hf, hog, hog_cnn, pixels, sentence_tokens, timm, tokens  # noqa: F401
from miv.backbones.backbone_base import BACKBONES, Backbone
from miv.backbones.backbone_names import create_backbone, register_backbone
from miv.backbones.module_backbone import ModuleBackbone

__all__ = ["BACKBONES", "Backbone", "ModuleBackbone", "create_backbone", "register_backbone"]
