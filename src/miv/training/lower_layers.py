"""Keep what the frozen lower layers of an encoder give, so that each text passes through them once."""

import torch
from torch import Tensor

from miv.backbones.layer_stack import LayerStack


class LowerLayers:
    """Hidden vectors below the layers that learn, by instance, as many as fit in memory.

    Args:
        stack: the encoder.
        most_bytes: bytes for the kept vectors; texts that no longer fit pass through the lower layers each time.
    """

    def __init__(self, stack: LayerStack, most_bytes: int) -> None:
        self.stack = stack
        self.most_bytes = most_bytes
        self.bytes = 0
        self.computed = 0  # texts that passed through the lower layers
        self._kept: dict[int, Tensor] = {}

    def hidden(self, instance: list[int], tokens: Tensor, lengths: list[int]) -> Tensor:
        """Hidden vectors ``(u, L, C)`` of texts; zeros behind the last token of each.

        Args:
            instance: ``u`` positions in the pool.
            tokens: their tokens ``(u, 2, L)``.
            lengths: their number of tokens.
        """
        missing = [row for row, one in enumerate(instance) if one not in self._kept]
        found: dict[int, Tensor] = {}
        if missing:
            self.computed += len(missing)
            longest = max(lengths[row] for row in missing)
            passed = self.stack.lower(tokens[missing, :, :longest]).float()  # (m, l, C)
            for row, vectors in zip(missing, passed, strict=True):
                found[row] = vectors[: lengths[row]]
                self._keep(instance[row], found[row])
        rows = [found.get(row, self._kept.get(one)) for row, one in enumerate(instance)]
        joined = torch.nn.utils.rnn.pad_sequence([row for row in rows if row is not None], batch_first=True)
        return torch.nn.functional.pad(joined, (0, 0, 0, tokens.shape[2] - joined.shape[1]))

    def _keep(self, instance: int, vectors: Tensor) -> None:
        size = vectors.numel() * vectors.element_size()
        if self.bytes + size <= self.most_bytes:
            self._kept[instance] = vectors.clone()  # a view would keep the padding of its chunk
            self.bytes += size
