"""The two parts of a verifier, given by name or as a module, and their entries in ``config.json``."""

from typing import Any

from torch import nn

from miv.backbones import Backbone, ModuleBackbone
from miv.backbones.names import as_backbone, make_module, name_of
from miv.errors import MIVError
from miv.poolings import POOLINGS, AlignedNorm, Pooling, create_pooling
from miv.poolings.pooling_base import Start
from miv.registry import options_of


def backbone_of(given: str | nn.Module, channels: int | None, options: dict[str, Any] | None) -> Backbone:
    """Return the backbone, given by name or as a module."""
    if not isinstance(given, str):
        _check_module("backbone", given, nn.Module, "a torch.nn.Module that maps instances to features (N, C)", options)
        if isinstance(given, Backbone) and channels not in (None, given.channels):
            raise MIVError(f"channels is {channels}, but the backbone has {given.channels}. Omit channels.")
        return as_backbone(given, channels)
    if given == "features" and channels is None:
        raise MIVError("channels is missing. The backbone 'features' needs the length of a vector.")
    if given == "features":
        options = {"channels": channels, **(options or {})}
        if options["channels"] != channels:
            raise MIVError(
                f"channels is {channels}, and {options['channels']} in backbone_options. Omit it in the options."
            )
        return as_backbone(make_module(given, **options))
    made = make_module(given, **(options or {}))
    if isinstance(made, Backbone) and channels is not None:
        raise MIVError(f"channels is {channels}. The backbone {given!r} sets its own. Omit channels.")
    return as_backbone(made, channels)


def pooling_of(
    given: str | Pooling, channels: int, start: Start | None, options: dict[str, Any] | None
) -> tuple[Pooling, Start]:
    """Return the pooling, given by name or as a module, and its start."""
    if isinstance(given, str):
        start = start or "similar"
        return create_pooling(given, channels=channels, start=start, **(options or {})), start
    _check_module("pooling", given, Pooling, "an instance of a subclass of miv.Pooling", options)
    if given.channels != channels:
        raise MIVError(
            f"The pooling takes features of {given.channels} channels, but the backbone returns {channels}. Create the "
            f"pooling with channels={channels}."
        )
    own: Start = "similar" if isinstance(given.norm, AlignedNorm) else "paper"
    if start not in (None, own):
        raise MIVError(
            f"start is {start!r}, but the given pooling starts as {own!r}. Omit start; "
            "pooling.start_similar() makes a pooling start as 'similar'."
        )
    return given, own


def _check_module(
    what: str, given: object, wanted: type[nn.Module], expected: str, options: dict[str, Any] | None
) -> None:
    if isinstance(given, type):
        raise MIVError(f"{what} is the class {given.__name__}. Expected an instance: {given.__name__}(...).")
    if not isinstance(given, wanted):
        raise MIVError(f"{what} is a {type(given).__name__}. Expected a name, or {expected}.")
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
