"""The judge as a network: query and target in one text for the encoder, and three logits from its first token."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from miv.backbones.hf_files import MINILM, find_model, read_pretrained
from miv.backbones.hf_text import TOKENIZER_NAME, chunks_by_length, valid_text
from miv.backbones.pairs import LABELS

Tokens = tuple[NDArray[np.int32], NDArray[np.int8]]  # ids and segments of a pair

MAX_TOKENS = 128
_TOGETHER = 512  # pairs tokenised together


class Judge(nn.Module):
    """A cross-encoder whose lower layers stay those of the installed encoder.

    Args:
        trained: number of upper layers that differ from the encoder's.
    """

    def __init__(self, trained: int = 4) -> None:
        super().__init__()
        encoder: Any = read_pretrained(find_model(MINILM), 0.0).eval().requires_grad_(False)
        self.encoder = encoder
        self.first = len(self.layers) - trained
        for layer in self.layers[self.first :]:
            layer.requires_grad_(True)
        self.head = nn.Linear(encoder.config.hidden_size, len(LABELS))
        nn.init.normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)

    @property
    def layers(self) -> Any:
        """The layers of the encoder, the lowest first."""
        layers: Any = self.encoder.get_submodule("encoder.layer")
        return layers

    def changed(self) -> dict[str, Tensor]:
        """The weights that training changes."""
        return {name: value for name, value in self.state_dict().items() if self.is_changed(name)}

    def is_changed(self, name: str) -> bool:
        """Whether a weight belongs to the upper layers or the head."""
        parts = name.split(".")
        return parts[0] == "head" or (parts[1:3] == ["encoder", "layer"] and int(parts[3]) >= self.first)

    def forward(self, tokens: Tensor) -> Tensor:
        """Ids, mask and segments of pairs ``(P, 3, L)`` to logits ``(P, 3)``."""
        ids, mask, segments = tokens.unbind(dim=1)
        allowed = mask[:, None, None, :].bool()  # (P, 1, 1, L)
        with torch.no_grad():
            hidden = self.encoder.get_submodule("embeddings")(input_ids=ids, token_type_ids=segments)  # (P, L, H)
            for layer in self.layers[: self.first]:
                hidden = _output(layer(hidden, allowed))
        for layer in self.layers[self.first : -1]:
            hidden = _output(layer(hidden, allowed))
        return self.head(_first_token(self.layers[-1], hidden, allowed))

    @torch.inference_mode()
    def probabilities(self, queries: Sequence[str], targets: Sequence[str]) -> NDArray[np.float64]:
        """Probabilities of supports, contradicts and neither, ``(P, 3)``."""
        pairs = PairReader()(queries, targets)
        lengths = torch.tensor([len(ids) for ids, _ in pairs])
        found = torch.zeros(len(pairs), len(LABELS))
        for rows in chunks_by_length(lengths):
            found[rows] = self(padded([pairs[row] for row in rows.tolist()])).softmax(dim=1)
        return found.double().numpy()


def _output(value: Tensor | tuple[Tensor, ...]) -> Tensor:
    return value[0] if isinstance(value, tuple) else value


def _first_token(layer: Any, hidden: Tensor, allowed: Tensor) -> Tensor:
    """What a layer says of the first token alone ``(P, H)``, at a sixth of its cost."""
    attention = layer.attention.self
    heads = (attention.num_attention_heads, attention.attention_head_size)

    def split(values: Tensor) -> Tensor:
        return values.unflatten(2, heads).transpose(1, 2)  # (P, heads, L, H / heads)

    first = hidden[:, :1]
    context = functional.scaled_dot_product_attention(
        split(attention.query(first)), split(attention.key(hidden)), split(attention.value(hidden)), allowed
    )
    attended = layer.attention.output(context.transpose(1, 2).flatten(2), first)
    return layer.output(layer.intermediate(attended), attended)[:, 0]


class PairReader:
    """Tokenises pairs: query, then target, as two segments; the longer one is cut to ``MAX_TOKENS`` in all."""

    def __init__(self) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(f"{find_model(MINILM)}/{TOKENIZER_NAME}")
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_TOKENS, strategy="longest_first")

    def __call__(self, queries: Sequence[str], targets: Sequence[str]) -> list[Tokens]:
        """Ids and segments of every pair."""
        found = []
        both = [(valid_text(query), valid_text(target)) for query, target in zip(queries, targets, strict=True)]
        for start in range(0, len(both), _TOGETHER):
            for encoded in self._tokenizer.encode_batch(both[start : start + _TOGETHER]):
                found.append((np.array(encoded.ids, np.int32), np.array(encoded.type_ids, np.int8)))
        return found


def padded(pairs: Sequence[Tokens]) -> Tensor:
    """Ids, mask and segments ``(P, 3, L)``."""
    longest = max(len(ids) for ids, _ in pairs)
    tokens = np.zeros((len(pairs), 3, longest), np.int64)
    for row, (ids, segments) in enumerate(pairs):
        tokens[row, 0, : len(ids)], tokens[row, 1, : len(ids)], tokens[row, 2, : len(ids)] = ids, 1, segments
    return torch.from_numpy(tokens)
