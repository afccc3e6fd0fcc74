"""The base class of backbones: instances in, feature vectors out."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.module import register_module_module_registration_hook

from miv.data.exemplars import ExemplarSet
from miv.data.kinds import KINDS
from miv.data.pool import InstancePool
from miv.errors import MIVError
from miv.files.instances import InstanceKind
from miv.files.weights import add_weights
from miv.registry import Registry, options_of


class Backbone(nn.Module):
    """Maps instances ``(U, *instance_shape)`` to features ``(U, channels)``, for queries and targets alike.

    Every backbone of the package is a subclass. A verifier also takes any other ``nn.Module`` that maps instances
    ``(U, ...)`` to features ``(U, C)``, and reads these attributes if they exist:

    - ``channels``: ``C``. Without it, pass ``Verifier(..., channels=C)``.
    - ``kind``: kind of instance, ``"image"``, ``"text"`` or ``"features"``. ``verify`` and training need it.
    - ``prepare(values)``: ``U`` values of an ``InstancePool`` to the tensor ``(U, ...)`` that ``forward`` takes.
      Without it, images become float ``(U, 1 or 3, H, W)`` from 0 to 1, and feature vectors float32 ``(U, L)``.

    ``miv.register_backbone`` registers a class under a name, so that a verifier with it can be saved and loaded.

    The features of an instance never depend on the rest of the batch, except through BatchNorm in training; a
    pretrained backbone keeps its BatchNorm fixed (``freeze_batch_norm``).
    """

    kind: InstanceKind  # kind of instances, as in InstancePool
    channels: int
    instance_shape: tuple[int | None, ...]  # None: any length
    instance_dtype: torch.dtype | None = None  # None: floating point
    files: tuple[str, ...] = ()  # written by save_files
    libraries: tuple[str, ...] = ()  # libraries that affect the features, other than torch and miv
    is_identity: bool = False  # whether the features are the instances themselves, so there is nothing to compute
    reads_pairs: bool = False  # whether it reads a target together with the query, as ``pairs``
    freeze_batch_norm: bool = False
    token_channels: int | None = None  # of each token, if the features are tokens side by side
    frozen: bool = False
    trainable_layers: int | None = None  # number of last layers that train after unfreeze(); None: all

    def __call__(self, instances: Tensor) -> Tensor:
        """Check the shape, then embed."""
        shape = self.instance_shape
        sides = tuple(instances.shape[1:])
        fits = len(sides) == len(shape) and all(s in (None, side) for s, side in zip(shape, sides, strict=True))
        dtype = self.instance_dtype
        if not fits or not (instances.is_floating_point() if dtype is None else instances.dtype == dtype):
            wanted = ", ".join(str(length or "any") for length in shape)
            given_form = f"{instances.dtype} {tuple(instances.shape)}"
            raise MIVError(
                f"The instances are {given_form}. Expected {dtype or 'float'} (U, {wanted}), as of prepare()."
            )
        features: Tensor = super().__call__(instances)
        return features

    @property
    def vector_channels(self) -> int:
        """Number of first channels that are one vector per instance, which cosines compare; by default all."""
        return self.channels

    def prepare(self, values: NDArray[Any]) -> Tensor:
        """Convert ``U`` values of an ``InstancePool`` to the tensor ``(U, *instance_shape)`` to embed."""
        raise NotImplementedError

    def count_cut(self, values: NDArray[Any]) -> int:
        """Number of values of an ``InstancePool`` that ``prepare`` truncates because they are too long."""
        return 0

    def is_empty(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of ``U`` values of an ``InstancePool`` have nothing to judge; their features are zeros."""
        return KINDS[self.kind].is_empty(values)

    def windows(self, values: NDArray[Any]) -> list[list[str]]:
        """Each of ``U`` texts in overlapping parts that ``prepare`` does not truncate; by default the whole text."""
        return [[str(text)] for text in values]

    def paired(self, exemplars: ExemplarSet) -> ExemplarSet:
        """The exemplars over the instances that this backbone embeds; other than given only if it ``reads_pairs``."""
        return exemplars

    def check(self, pool: InstancePool) -> None:
        """Raise an error before any work if the instances have the wrong kind or form."""
        check_kind(pool, self.kind)
        self.prepare(pool.values[:1])

    def configuration(self) -> dict[str, Any]:
        """Return the options, except its name, that recreate this backbone without its weights and other files."""
        defaults = {name: option.default for name, option in signature(type(self)).parameters.items()}
        made_with = {name: default for name, default in defaults.items() if default is not Parameter.empty}
        return {name: value for name, value in (made_with | (options_of(self) or {})).items() if name != "name"}

    def save_files(self, folder: Path) -> None:
        """Write what is in neither the configuration nor the weights (a tokenizer), under the names in ``files``."""

    def load_files(self, folder: Path) -> None:
        """Read the output of ``save_files``."""

    def freeze(self) -> Self:
        """Fix all weights: no gradient and no training mode until ``unfreeze``."""
        self.frozen = True
        self.requires_grad_(False)
        return self.train(self.training)

    def unfreeze(self) -> Self:
        """Train everything, or the last ``trainable_layers``, except BatchNorm if ``freeze_batch_norm`` is set."""
        self.frozen = False
        self.requires_grad_(self.trainable_layers is None)
        if self.trainable_layers is not None:
            for module in self.last_layers(self.trainable_layers):
                module.requires_grad_(True)
        return self.train(self.training)

    def train_only_last(self, layers: int | None) -> Self:
        """Train only this many of the last layers; ``None`` trains everything."""
        if layers is not None:
            self.last_layers(layers)
        self.trainable_layers = layers
        return self if self.frozen else self.unfreeze()

    def last_layers(self, count: int) -> list[nn.Module]:
        """The last layers of a stack and what follows them; only transformers are such stacks."""
        raise MIVError(f"trainable_layers is {count}, but this backbone is no transformer (hf:<name>). Omit it.")

    @classmethod
    def is_pretrained(cls, options: dict[str, Any]) -> bool:
        """Whether a backbone with these options starts with pretrained weights, which a high learning rate destroys."""
        return False

    def train(self, mode: bool = True) -> Self:
        """Set the training mode of everything that is not frozen."""
        super().train(mode and not self.frozen)
        self.training = mode  # of the module itself; the parts of a frozen backbone stay in evaluation mode
        if self.freeze_batch_norm:
            for module in self.modules():
                if isinstance(module, _BatchNorm):
                    module.eval().requires_grad_(False)  # statistics, scale and offset all stay fixed
        return self

    def fingerprint(self) -> str:
        """SHA-256 of configuration and weights; equal fingerprints give equal features for equal instances."""
        made_of = {"class": type(self).__qualname__, **self.configuration()}
        digest = hashlib.sha256(json.dumps(made_of, sort_keys=True).encode())
        add_weights(digest, self.state_dict())
        return digest.hexdigest()


# Of modules, not only backbones: a plain module is registered unchanged and wrapped on creation.
BACKBONES: Registry[nn.Module] = Registry(
    "backbone", " For one of your own, import its module first: miv --import MODULE, or MIV_IMPORT=MODULE."
)


_BACKBONES_FOR: dict[InstanceKind, str] = {
    "image": "compact_cnn, hog_cnn, hog, colour, hog_colour or hf:<name or folder>",
    "text": "hf:<name or folder> or trigrams",
    "features": "features",
}


def check_kind(pool: InstancePool, expected: InstanceKind) -> None:
    """Raise an error for instances of a kind that a backbone does not take."""
    if pool.kind != expected:
        raise MIVError(
            f"The instances are {KINDS[pool.kind].words}s, but the backbone takes {KINDS[expected].words}s. Use a set "
            f"of these, or a verifier with the backbone {_BACKBONES_FOR[pool.kind]}."
        )


def check_images(values: NDArray[Any], colour: bool | None = None) -> Tensor:
    """``(U, H, W)`` or ``(U, H, W, 3)`` uint8 to ``(U, 1 or 3, H, W)``; ``colour`` allows only one of the two."""
    shape = values.shape
    is_colour = len(shape) == 4 and shape[3] == 3
    if values.dtype != np.uint8 or not (is_colour or len(shape) == 3) or colour not in (None, is_colour):
        wanted = {None: "(U, H, W) or (U, H, W, 3)", False: "grey (U, H, W)", True: "colour (U, H, W, 3)"}[colour]
        remedy = " Convert them: `miv data from-folder --grey`." if is_colour and colour is False else ""
        raise MIVError(f"The images are {values.dtype} {shape}. Expected uint8 {wanted}.{remedy}")
    images = torch.from_numpy(np.require(values, requirements=["C", "W"]))
    return images.permute(0, 3, 1, 2) if is_colour else images[:, None]


def is_being_loaded() -> bool:
    """Whether a saved verifier is being loaded on the meta device; its file must not trigger downloads."""
    return torch.get_default_device().type == "meta"


def whole_number(backbone: str, name: str, number: object, least: int, most: int) -> int:
    """Return an option that must be a whole number from ``least`` to ``most``; it may come from a file."""
    if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
        raise MIVError(f"{name} of {backbone} is {number!r}. Expected a whole number from {least} to {most}.")
    return number


def embed(backbone: Backbone, instances: Tensor, bucket: int) -> Tensor:
    """Embed ``(U, ...)`` to ``(U, C)``, with the batch padded to a multiple of ``bucket``.

    A CPU rebuilds its convolutions for each new batch size. The padding repeats the first instance: some backbones
    return NaN for an empty one. If BatchNorm learns from the batch, nothing is padded.
    """
    missing = -len(instances) % bucket
    if not missing or any(isinstance(part, _BatchNorm) and part.training for part in backbone.modules()):
        return backbone(instances)
    filling = instances[:1].expand(missing, *instances.shape[1:])
    return backbone(torch.cat([instances, filling]))[: len(instances)]


MOST_MODULES = 10_000
"""Maximum number of modules of a network; a transformer has about 20 per layer."""


@contextmanager
def counting_modules(what: str) -> Iterator[None]:
    """Raise an error in this block once a network has more than ``MOST_MODULES`` parts, which would take minutes."""
    thread, count = threading.get_ident(), 0

    def one_more(*_: Any) -> None:
        nonlocal count
        if threading.get_ident() != thread:  # the hook sees the modules of all threads
            return
        count += 1
        if count > MOST_MODULES:
            raise MIVError(f"{what} describes a network with more than {MOST_MODULES:,} parts. It is damaged.")

    handle = register_module_module_registration_hook(one_more)
    try:
        yield
    finally:
        handle.remove()
