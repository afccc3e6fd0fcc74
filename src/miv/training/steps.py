"""Batches of an epoch, their augmentation, and embedding the instances of a step in bounded memory."""

import math
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from miv.backbones import Backbone
from miv.backbones.base import embed
from miv.backbones.hf import HuggingFace
from miv.backbones.hf_text import TextReader, chunks_by_length, token_counts
from miv.backbones.precision import lower_precision
from miv.data import ExemplarSet

Batches = list[NDArray[np.int64]]  # the exemplars of each batch of an epoch


def draw_batches(exemplars: ExemplarSet, size: int, random: Generator) -> Batches:
    """Batches of ``size`` with every exemplar once; the last may be smaller."""
    order = random.permutation(len(exemplars))
    return [order[start : start + size] for start in range(0, len(order), size)]


def draw_positives(exemplars: ExemplarSet, size: int, random: Generator) -> Batches:
    """Batches of at most ``size`` positive exemplars of one group each, every one of them once."""
    group = np.zeros(len(exemplars)) if exemplars.group is None else exemplars.group
    batches: Batches = []
    for one in np.unique(group):
        order = random.permutation(np.flatnonzero((group == one) & (exemplars.label == 1)))
        batches += np.array_split(order, max(1, -(-len(order) // size))) if len(order) else []
    return [batches[number] for number in random.permutation(len(batches))]


def one_number(*numbers: int) -> int:
    """Derive one seed from several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0]) >> 1


_TURN = math.radians(5)
_SIZE = 0.08  # a side grows or shrinks by at most this share, and moves by at most this share of the image's side
DRAWS = 5  # random numbers for one image


def affine(images: Tensor, draws: Tensor) -> Tensor:
    """Shift, turn and scale images ``(U, channels, H, W)`` by ``draws`` ``(U, 5)``, uniform in 0 to 1.

    0.5 changes nothing; 0 and 1 are the extremes.
    """
    turn, wide, high, right, down = ((draws.to(images) - 0.5) * 2).unbind(1)
    cosine, sine = (turn * _TURN).cos(), (turn * _TURN).sin()
    wide, high = 1 + wide * _SIZE, 1 + high * _SIZE
    rows = [cosine * wide, -sine * high, right * 2 * _SIZE, sine * wide, cosine * high, down * 2 * _SIZE]
    maps = torch.stack(rows, dim=1).unflatten(1, (2, 3))  # (U, 2, 3)
    grid = functional.affine_grid(maps, list(images.shape), align_corners=False)  # (U, H, W, 2)
    return functional.grid_sample(images, grid, padding_mode="border", align_corners=False)


class StepEmbedding:
    """Embeds the distinct instances of training steps in bounded memory; the gradients do not depend on the limit.

    Texts are embedded in chunks of similar length, other instances together if their graph fits in ``most_bytes``, else
    ``bucket`` at a time. Chunks whose graph does not fit are recomputed in the backward pass with the same random
    numbers. A batch that BatchNorm learns from stays whole, because recomputing would update its statistics twice.
    """

    def __init__(self, backbone: Backbone, most_bytes: int, bucket: int = 128, *, lower: bool = False) -> None:
        self.backbone, self.bucket, self.most_bytes = backbone, bucket, most_bytes
        self.lower = lower  # whether encoders of texts compute in bfloat16
        self.recomputed = 0  # chunks of the last step
        self._per_unit: float | None = None  # bytes of the graph per padded token, or per instance of another kind

    def __call__(self, instances: Tensor) -> Tensor:
        """Embed ``(U, ...)`` to ``(U, C)``."""
        backbone, reader = self.backbone, getattr(self.backbone, "reader", None)
        is_encoder = isinstance(backbone, HuggingFace) and type(backbone).forward is HuggingFace.forward
        if is_encoder and isinstance(reader, TextReader) and len(instances):
            lengths = token_counts(instances)
            rows = chunks_by_length(lengths)
            texts = [instances[some, :, : int(lengths[some[0]])] for some in rows]  # (u, 2, L) each
            sizes = [len(tokens) * tokens.shape[2] for tokens in texts]
            features = self._in_chunks(partial(reader.vectors, backbone.get_submodule("model")), texts, sizes)
            return features[torch.cat(rows).argsort()]
        run = partial(embed, backbone, bucket=self.bucket)
        chunks = list(instances.split(self.bucket))
        learns_from_batch = any(isinstance(part, _BatchNorm) and part.training for part in backbone.modules())
        if learns_from_batch or len(chunks) == 1 or self._measured(run, chunks[0]) * len(instances) <= self.most_bytes:
            self.recomputed = 0
            return run(instances)
        return self._in_chunks(run, chunks, [len(chunk) for chunk in chunks])

    def _in_chunks(self, embed_chunk: Callable[[Tensor], Tensor], chunks: list[Tensor], sizes: list[int]) -> Tensor:
        def run(chunk: Tensor) -> Tensor:  # again in the backward pass, with the same precision
            with lower_precision() if self.lower else nullcontext():
                return embed_chunk(chunk)

        per_unit = self._measured(run, chunks[0], sizes[0])
        left = self.most_bytes - per_unit * max(sizes)  # one chunk at a time is recomputed, beside all that are kept
        self.recomputed, features = 0, []
        for chunk, size in zip(chunks, sizes, strict=True):
            left -= per_unit * size
            features.append(run(chunk) if left >= 0 else checkpoint(run, chunk, use_reentrant=False))
            self.recomputed += left < 0
        return torch.cat(features)

    def _measured(self, run: Callable[[Tensor], Tensor], chunk: Tensor, size: int | None = None) -> float:
        """Bytes per unit that the graph of a chunk keeps besides weights; measured once."""
        if self._per_unit is not None:
            return self._per_unit
        storages: dict[int, int] = {}

        def count(tensor: Tensor) -> Tensor:
            base = tensor if tensor._base is None else tensor._base  # a layer saves the transpose of its weight
            if not isinstance(base, nn.Parameter):
                storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        # Draws no random number that a resumed run would not draw.
        drawn = torch.random.fork_rng([chunk.device] if chunk.is_cuda else [])
        with drawn, torch.enable_grad(), saved_tensors_hooks(count, lambda tensor: tensor):
            features = run(chunk.clone())  # not a view; alive until counted, as freed memory would be used again
        self._per_unit = sum(storages.values()) / (size or len(chunk))
        del features
        return self._per_unit
