"""The two parts of a verifier, given by name or as a module, and their entries in ``config.json``."""

from typing import Any

from torch import nn

from miv.backbones import Backbone, ModuleBackbone
from miv.backbones.names import as_backbone, make_module, name_of
from miv.errors import MIVError
from miv.poolings import POOLINGS, AlignedNorm, Pooling, create_pooling
from miv.poolings.pooling_base import Start
from miv.registry import options_of


def backbone_of(backbone: str | nn.Module, channels: int | None, options: dict[str, Any] | None) -> Backbone:
    """Return the backbone, given by name or as a module."""
    if not isinstance(backbone, str):
        expected = "a torch.nn.Module that maps instances to features (N, C)"
        _check_module("backbone", backbone, nn.Module, expected, options)
        if isinstance(backbone, Backbone) and channels not in (None, backbone.channels):
            raise MIVError(f"channels is {channels}, but the backbone has {backbone.channels}. Omit channels.")
        return as_backbone(backbone, channels)
    options = options or {}
    if backbone == "features":
        if channels is None:
            raise MIVError("channels is missing. The backbone 'features' needs the length of a vector.")
        if "channels" in options and options["channels"] != channels:
            raise MIVError(
                f"channels is {channels}, and {options['channels']} in backbone_options. Omit it in the options."
            )
        return as_backbone(make_module(backbone, **{**options, "channels": channels}))
    module = make_module(backbone, **options)
    if isinstance(module, Backbone) and channels is not None:
        raise MIVError(f"channels is {channels}. The backbone {backbone!r} sets its own. Omit channels.")
    return as_backbone(module, channels)


def pooling_of(
    pooling: str | Pooling, channels: int, start: Start | None, options: dict[str, Any] | None
) -> tuple[Pooling, Start]:
    """Return the pooling, given by name or as a module, and its start."""
    if isinstance(pooling, str):
        start = start or "similar"
        return create_pooling(pooling, channels=channels, start=start, **(options or {})), start
    _check_module("pooling", pooling, Pooling, "an instance of a subclass of miv.Pooling", options)
    if pooling.channels != channels:
        raise MIVError(
            f"The pooling takes features of {pooling.channels} channels, but the backbone returns {channels}. Create "
            f"the pooling with channels={channels}."
        )
    own: Start = "similar" if isinstance(pooling.norm, AlignedNorm) else "paper"
    if start not in (None, own):
        raise MIVError(f"start is {start!r}, but the given pooling starts as {own!r}. Omit start.")
    return pooling, own


def _check_module(
    what: str, part: object, expected: type[nn.Module], words: str, options: dict[str, Any] | None
) -> None:
    if isinstance(part, type):
        raise MIVError(f"{what} is the class {part.__name__}. Expected an instance: {part.__name__}(...).")
    if not isinstance(part, expected):
        raise MIVError(f"{what} is a {type(part).__name__}. Expected a name, or {words}.")
    if options:
        raise MIVError(f"{what}_options is {options}, but the {what} is a module. Omit the options.")


def describe_backbone(backbone: Backbone) -> dict[str, Any]:
    """The ``config.json`` entry of a backbone, with the class name if no name is registered."""
    name = name_of(backbone)
    options = {key: value for key, value in backbone.configuration().items() if (name, key) != ("features", "channels")}
    called, needs_channels = type(backbone).__name__, name == "features"
    if isinstance(backbone, ModuleBackbone):
        called, needs_channels = backbone.called, not hasattr(backbone.module, "channels")
    channels = backbone.channels if needs_channels else None
    return {"backbone": name or called, "channels": channels, "backbone_options": options}


def describe_pooling(pooling: Pooling) -> dict[str, Any]:
    """The ``config.json`` entry of a pooling given as a module."""
    options = {key: value for key, value in (options_of(pooling) or {}).items() if key != "channels"}
    return {"pooling": POOLINGS.name_of(type(pooling)) or type(pooling).__name__, "pooling_options": options}
