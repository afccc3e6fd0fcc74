"""From instances to feature vectors, with one file per backbone."""

from typing import TYPE_CHECKING

from miv.backbones import cnn, descriptors, hf, timm, tokens  # noqa: F401
from miv.backbones.base import BACKBONES, Backbone
from miv.backbones.names import ModuleBackbone, create_backbone, register_backbone
from miv.registry import lazy_exports

if TYPE_CHECKING:
    from miv.backbones.cache import exemplars_of_two_kinds as exemplars_of_two_kinds

__all__ = ["BACKBONES", "Backbone", "ModuleBackbone", "create_backbone", "exemplars_of_two_kinds", "register_backbone"]
# A verifier does not need to make sets.
__getattr__, _ = lazy_exports(__name__, {"exemplars_of_two_kinds": "miv.backbones.cache"})
