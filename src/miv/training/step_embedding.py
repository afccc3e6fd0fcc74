"""How a training step embeds its distinct instances: in chunks that fit in memory, with frozen layers passed once."""

from functools import partial

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from miv.backbones import Backbone
from miv.backbones.embedding import embed
from miv.backbones.hf import HuggingFace
from miv.backbones.hf_text import TextReader, token_counts, token_vectors
from miv.backbones.layer_stack import LayerStack
from miv.training.graph_memory import GraphMemory, chunks_by_length
from miv.training.lower_layers import LowerLayers

_LOWER_SHARE = 0.5  # of the memory, for what the frozen layers give


class StepEmbedding:
    """Embeds the distinct instances of training steps, with exact gradients in bounded memory.

    Texts are embedded in chunks of similar length. Other instances are embedded together, as a processor has to build
    its convolutions anew for each batch size, unless their graph does not fit.

    Args:
        backbone: the backbone, set to learn.
        bucket: pad batches of other instances than texts to a multiple of this number.
        most_bytes: bytes for the graph of a step and for what frozen layers give.
    """

    def __init__(self, backbone: Backbone, bucket: int, most_bytes: int) -> None:
        self.backbone, self.bucket = backbone, bucket
        stack = backbone.lower_half() if isinstance(backbone, HuggingFace) else None
        self.lower = None if stack is None else LowerLayers(stack, int(most_bytes * _LOWER_SHARE))
        self.graph = GraphMemory(most_bytes - (0 if self.lower is None else self.lower.most_bytes))

    def __call__(self, instances: Tensor, instance: Tensor) -> Tensor:
        """Embed ``(U, ...)``, whose positions in the pool are ``(U,)``, to ``(U, C)``."""
        self.graph.begin()
        reader = getattr(self.backbone, "reader", None)
        if isinstance(self.backbone, HuggingFace) and isinstance(reader, TextReader) and len(instances):
            return self._texts(self.backbone, reader, instances, instance)
        return self._together(instances)

    def _texts(self, backbone: HuggingFace, reader: TextReader, instances: Tensor, instance: Tensor) -> Tensor:
        lengths = token_counts(instances)
        chunks = chunks_by_length(lengths)
        found = []
        for rows in chunks:
            longest = int(lengths[rows[0]])
            tokens = instances[rows, :, :longest]  # (u, 2, L)
            padded = len(rows) * longest
            if self.lower is None:
                found.append(
                    self.graph.run(lambda some: reader.pooled(*token_vectors(backbone.model, some)), tokens, padded)
                )
                continue
            hidden = self.lower.hidden(instance[rows].tolist(), tokens, lengths[rows].tolist())

            upper = partial(_upper, reader, self.lower.stack, tokens)
            found.append(self.graph.run(upper, hidden, padded))
        return torch.cat(found)[torch.cat(chunks).argsort()]

    def _together(self, instances: Tensor) -> Tensor:
        """Embed all at once if the graph fits, else ``bucket`` at a time; a batch that BatchNorm learns from is one."""
        backbone, count = self.backbone, len(instances)
        learns_from_batch = any(isinstance(part, _BatchNorm) and part.training for part in backbone.modules())
        few = min(count, self.bucket)
        if learns_from_batch or count <= few or not torch.is_grad_enabled():
            return embed(backbone, instances, self.bucket)
        if self.graph.per_unit is None:
            # Draws no random number that a resumed run would not draw.
            with torch.random.fork_rng([instances.device] if instances.is_cuda else []):
                self.graph.measure(lambda some: embed(backbone, some, self.bucket), instances[:few], few)
        if self.graph.fits(count):
            return embed(backbone, instances, self.bucket)
        found = []
        for first in range(0, count, self.bucket):
            some = instances[first : first + self.bucket]
            found.append(self.graph.run(lambda chunk: embed(backbone, chunk, self.bucket), some, len(some)))
        return torch.cat(found)


def _upper(reader: TextReader, stack: LayerStack, tokens: Tensor, hidden: Tensor) -> Tensor:
    return reader.pooled(*stack.upper(tokens, hidden))
