"""From instances to feature vectors, with one file per backbone."""

from miv.backbones import cnn, descriptors, efficientnet, hf, pairs, tokens  # noqa: F401
from miv.backbones.base import BACKBONES, Backbone
from miv.backbones.names import ModuleBackbone, create_backbone, register_backbone

__all__ = ["BACKBONES", "Backbone", "ModuleBackbone", "create_backbone", "register_backbone"]
