"""The outline of a verifier: its modules and shapes on the meta device, without memory and without values."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

_STARTS = frozenset({"normal_", "uniform_", "fill_", "zero_", "copy_", "mul_"})


@contextmanager
def outlining() -> Iterator[None]:
    """Make modules on the meta device and skip their starting weights.

    There are no values to set there, and some of these functions would import torch's compiler first, which takes
    longer than loading the verifier.
    """
    with torch.device("meta"), _NoStartingWeights():
        yield


class _NoStartingWeights(TorchFunctionMode):
    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        options = kwargs or {}
        target = options.get("out", options.get("tensor", args[0] if args else None))
        is_init = getattr(func, "__module__", None) == "torch.nn.init"
        sets_values = is_init or func is torch.eye or getattr(func, "__name__", None) in _STARTS
        if sets_values and isinstance(target, Tensor) and target.is_meta:
            return target
        if func is torch.eye and "out" not in options:
            return torch.empty(args if len(args) == 2 else args * 2, **options)
        return func(*args, **options)
