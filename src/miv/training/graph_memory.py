"""Embed a batch in chunks, and keep only as much of the graph as fits in memory."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

# Padded tokens embedded together. More would not be faster, and a chunk is the least memory that a step needs.
TOKENS_TOGETHER = 2048


@dataclass
class GraphMemory:
    r"""Decides which chunks of a batch keep the graph of their forward pass.

    The gradient of the features is exact however they are computed: with :math:`L` a function of all features,

    .. math:: \frac{\partial L}{\partial \theta} = \sum_c \Big(\frac{\partial f_\theta(x_c)}{\partial \theta}\Big)^\top
        \frac{\partial L}{\partial f_\theta(x_c)}

    is a sum over chunks :math:`c`. A chunk that keeps its graph costs one forward and one backward pass. A chunk that
    does not is embedded without a graph, and again with one when the gradient of its features is known (GradCache, Gao
    et al. 2021), with the same random numbers. So memory is bounded whatever the batch, and only what does not fit
    costs a second forward pass. Chunks of texts do not depend on the memory, so the weights do not either.

    Args:
        most_bytes: bytes for the graph of a step.
        per_unit: bytes per padded token, or per instance of another kind; measured on the first chunk.
        units: tokens or instances of the last step, and ``recomputed``, how many of them are embedded twice.
    """

    most_bytes: int
    per_unit: float | None = None
    units: int = 0
    recomputed: int = 0
    _used: float = field(default=0.0, repr=False)
    _largest: int = field(default=0, repr=False)

    def begin(self) -> None:
        """Begin a step."""
        self._used, self.recomputed, self.units = 0.0, 0, 0

    def run(self, embed: Callable[[Tensor], Tensor], chunk: Tensor, units: int) -> Tensor:
        """Embed a chunk of so many units, with or without its graph."""
        self.units += units
        self._largest = max(self._largest, units)
        if self.per_unit is None:
            features = self.measure(embed, chunk, units)
            self._used += (self.per_unit or 0.0) * units
            return features
        if self.fits(units + self._largest):  # one chunk at a time is computed again, beside all that is kept
            self._used += self.per_unit * units
            return embed(chunk)
        self.recomputed += units
        return checkpoint(embed, chunk, use_reentrant=False)

    def measure(self, embed: Callable[[Tensor], Tensor], chunk: Tensor, units: int) -> Tensor:
        """Embed a chunk, and measure the bytes per unit that its graph keeps."""
        features, saved = _measured(embed, chunk)
        self.per_unit = saved / units
        return features

    def fits(self, units: int) -> bool:
        """Whether the graph of so many further units fits."""
        return self._used + (self.per_unit or 0.0) * units <= self.most_bytes


def _measured(embed: Callable[[Tensor], Tensor], chunk: Tensor) -> tuple[Tensor, int]:
    """Embed, and count the bytes that the graph keeps; weights are kept anyway."""
    storages: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        base = tensor if tensor._base is None else tensor._base  # a layer saves the transpose of its weight
        if not isinstance(base, nn.Parameter):
            storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        features = embed(chunk)
    return features, sum(storages.values())


def chunks_by_length(lengths: Tensor, most: int = TOKENS_TOGETHER) -> list[Tensor]:
    """Rows of texts of similar length, the longest first; a chunk padded to its longest has at most ``most`` tokens.

    The longest first, because attention may keep more per token the longer the text is, and the first is measured.

    >>> [rows.tolist() for rows in chunks_by_length(torch.tensor([3, 9, 4, 8]), most=18)]
    [[1, 3], [2, 0]]
    """
    order = torch.argsort(lengths, descending=True, stable=True)
    chunks, first = [], 0
    while first < len(order):
        together = max(1, most // int(lengths[order[first]]))
        chunks.append(order[first : first + together])
        first += together
    return chunks
