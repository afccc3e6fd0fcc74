"""Run a transformer in two halves: the frozen lower layers, and the upper layers that learn."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from miv.backbones.hf_text import token_vectors


class LayerStack:
    """A text encoder cut below its first layer that learns.

    The encoder's own ``forward`` runs both times, so that masks and positions are as it makes them. For the lower half
    it stops at the cut; for the upper half, the lower layers return at once, and the layer at the cut is given the
    hidden vectors that the lower half gave.

    Args:
        model: the encoder.
        layers: its layers in order.
        learning: number of last layers that learn.
    """

    def __init__(self, model: nn.Module, layers: nn.ModuleList, learning: int) -> None:
        self.model = model
        self.below, self.cut = list(layers)[:-learning], layers[len(layers) - learning]

    def lower(self, tokens: Tensor) -> Tensor:
        """Tokens ``(u, 2, L)`` to the hidden vectors ``(u, L, C)`` at the cut, without a graph."""

        def stop(layer: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
            raise _Reached(given[0] if given else named["hidden_states"])

        handle = self.cut.register_forward_pre_hook(stop, with_kwargs=True)
        try:
            with torch.no_grad():
                token_vectors(self.model, tokens)
        except _Reached as reached:
            return reached.hidden
        finally:
            handle.remove()
        raise RuntimeError("the encoder does not run its layers")

    def upper(self, tokens: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens ``(u, 2, L)`` and hidden vectors at the cut to the encoder's token vectors and the mask ``(u, L)``."""

        def replace(
            layer: nn.Module, given: tuple[Any, ...], named: dict[str, Any]
        ) -> tuple[tuple[Any, ...], dict[str, Any]]:
            return ((hidden, *given[1:]), named) if given else ((), {**named, "hidden_states": hidden})

        handle = self.cut.register_forward_pre_hook(replace, with_kwargs=True)
        try:
            with _passing(self.below):
                return token_vectors(self.model, tokens)
        finally:
            handle.remove()


class _Reached(Exception):  # noqa: N818 - leaves a forward pass, nothing is wrong
    def __init__(self, hidden: Tensor) -> None:
        super().__init__()
        self.hidden = hidden


@contextmanager
def _passing(layers: list[nn.Module]) -> Iterator[None]:
    """Let layers return their input."""

    def same(hidden_states: Tensor, *given: Any, **named: Any) -> Tensor:
        return hidden_states

    for layer in layers:
        layer.forward = same  # hides the method of the class; a submodule keeps its attributes, which encoders read
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward
