"""Use any module as a backbone."""

from secrets import token_hex
from typing import Any, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from miv.backbones.backbone_base import Backbone, check_images
from miv.backbones.module_fingerprint import module_fingerprint
from miv.errors import MIVError, unknown_name
from miv.io.instance_files import InstanceKind
from miv.registry import options_of


def as_backbone(module: nn.Module, channels: int | None = None) -> Backbone:
    """Return a backbone unchanged; wrap any other module."""
    return module if isinstance(module, Backbone) else ModuleBackbone(module, channels)


class ModuleBackbone(Backbone):
    """Any module that maps instances ``(U, ...)`` to features ``(U, C)``; see ``Backbone`` for optional attributes.

    Args:
        module: the module.
        channels: ``C``; by default the module's own attribute ``channels``.
    """

    def __init__(self, module: nn.Module, channels: int | None = None) -> None:
        super().__init__()
        self.module = module
        self.channels = _channels(module, channels)
        self.instance_shape = ()  # the module knows
        self.freeze_batch_norm = bool(getattr(module, "freeze_batch_norm", False))
        self._never_learns = {name for name, weight in module.named_parameters() if not weight.requires_grad}

    @property
    def called(self) -> str:
        """The name of the module's class, for errors."""
        return type(self.module).__name__

    @property
    def kind(self) -> InstanceKind:  # type: ignore[override]  # a module need not have it until it matters
        kind = getattr(self.module, "kind", None)
        if kind is None:
            raise MIVError(
                f"The backbone {self.called} does not declare the kind of its instances. Add a class attribute: "
                'kind = "image", "text" or "features".'
            )
        if kind not in get_args(InstanceKind):
            raise unknown_name(f"kind of instance (declared by {self.called})", str(kind), get_args(InstanceKind))
        return kind

    def __call__(self, instances: Tensor) -> Tensor:
        """Embed, then check the output."""
        features = nn.Module.__call__(self, instances)
        given = f"{features.dtype} {tuple(features.shape)}" if isinstance(features, Tensor) else type(features).__name__
        wanted = (len(instances), self.channels)
        if not isinstance(features, Tensor) or features.shape != wanted or not features.is_floating_point():
            raise MIVError(
                f"The backbone {self.called} returned {given} for instances {tuple(instances.shape)}. Expected float "
                f"features {wanted}: one row per instance."
            )
        return features

    def forward(self, instances: Tensor) -> Tensor:
        return self.module(instances)

    def prepare(self, values: NDArray[Any]) -> Tensor:
        own = getattr(self.module, "prepare", None)
        if own is not None:
            return self._checked(own(values), len(values))
        if self.kind == "image":
            return check_images(values).float() / 255  # (U, 1 or 3, H, W), 0 to 1
        if self.kind == "features":
            return torch.from_numpy(np.require(values, np.float32, requirements=["C", "W"]))
        raise MIVError(
            f"The backbone {self.called} takes texts, but cannot convert them to a tensor. Add a "
            "method prepare(values) that converts an array of U strings to a tensor (U, ...)."
        )

    def _checked(self, prepared: Any, count: int) -> Tensor:
        if not isinstance(prepared, Tensor) or len(prepared) != count:
            raise MIVError(
                f"prepare() of the backbone {self.called} returned a {type(prepared).__name__} for {count} instances. "
                f"Expected a tensor of {count} rows."
            )
        return prepared

    def unfreeze(self) -> Self:
        """Train everything except what the module itself keeps fixed."""
        super().unfreeze()
        for name, weight in self.module.named_parameters():
            if name in self._never_learns:
                weight.requires_grad_(False)
        return self

    def configuration(self) -> dict[str, Any]:
        return options_of(self.module) or {}

    def fingerprint(self) -> str:
        """SHA-256 of the code and content of all modules in it; if these cannot be read, unique to this object."""
        return module_fingerprint(self.module, self._token)

    @property
    def _token(self) -> str:
        return vars(self).setdefault("_random_token", token_hex())


def _channels(module: nn.Module, given: int | None) -> int:
    own = getattr(module, "channels", None)
    if own is None and given is None:
        raise MIVError(
            f"The backbone {type(module).__name__} does not declare its feature length. Set self.channels in it, or "
            "pass channels to the verifier."
        )
    if None not in (own, given) and own != given:
        raise MIVError(f"channels is {given}, but the backbone {type(module).__name__} has {own}. Omit channels.")
    channels = given if own is None else own
    if not isinstance(channels, int) or isinstance(channels, bool) or channels < 1:
        raise MIVError(f"channels is {channels!r}. Expected a whole number above 0, the length of a feature vector.")
    return channels
