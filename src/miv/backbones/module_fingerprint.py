"""A fingerprint of any module: its classes, their code, and everything that its objects hold."""

import hashlib
import inspect
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

_BY_NAME = ("torch.", "builtins")  # code that changes only with the version of torch or Python
# What changes without changing the features, and the inner modules, which are visited on their own.
_SKIPPED = {"training", "_modules"}


def module_fingerprint(module: nn.Module, token: str) -> str:
    """SHA-256 of a module and all modules inside it.

    It covers, for each of them, the source code of its class and base classes, its weights and buffers, and its other
    attributes. Functions that this code calls are not followed. ``token`` stands for anything that cannot be read, such
    as a class typed into an interpreter or an attribute of an unknown type.
    """
    digest = hashlib.sha256()
    seen: set[type] = set()
    for name, one in module.named_modules():
        for part in (name, _name(type(one)), *_codes(type(one), seen, token)):
            _add(digest, part)
        for key, value in sorted(vars(one).items()):
            if key not in _SKIPPED:
                _add(digest, key)
                _describe(digest, value, token)
    return digest.hexdigest()


def _codes(made: type, seen: set[type], token: str) -> Iterator[str]:
    """The code of a class and its base classes, each once."""
    for one in made.__mro__:
        if one not in seen:
            seen.add(one)
            yield _code(one, token)


def _code(made: type | FunctionType, token: str) -> str:
    if made.__module__.startswith(_BY_NAME) or made.__module__ == "torch":
        return _name(made)
    try:
        return inspect.getsource(made)
    except (OSError, TypeError):
        return token


def _describe(digest: "hashlib._Hash", value: Any, token: str) -> None:
    _add(digest, type(value).__qualname__)
    if isinstance(value, Tensor):
        value = value.detach().cpu().contiguous()
        _add(digest, f"{value.dtype} {tuple(value.shape)}")
        digest.update(value.flatten().view(torch.uint8).numpy().data)
    elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
        _add(digest, f"{value.dtype} {value.shape}")
        digest.update(np.ascontiguousarray(value).data)
    elif isinstance(value, Mapping):
        for key, one in value.items():
            _describe(digest, key, token)
            _describe(digest, one, token)
        _add(digest, "end")
    elif isinstance(value, list | tuple):
        for one in value:
            _describe(digest, one, token)
        _add(digest, "end")
    elif isinstance(value, set | frozenset) and all(isinstance(one, str | int) for one in value):
        _add(digest, repr(sorted(value, key=repr)))
    elif isinstance(value, None | bool | int | float | complex | str | bytes | np.generic | torch.dtype | torch.device):
        _add(digest, repr(value))
    elif isinstance(value, BuiltinFunctionType):
        _add(digest, _name(value))
    elif isinstance(value, type) or (isinstance(value, FunctionType) and not value.__closure__):
        _add(digest, _name(value))
        _add(digest, _code(value, token))
    else:
        _add(digest, token)


def _name(made: Any) -> str:
    return f"{made.__module__}.{made.__qualname__}"


def _add(digest: "hashlib._Hash", text: str) -> None:
    encoded = text.encode()
    digest.update(f"{len(encoded)} ".encode() + encoded)
