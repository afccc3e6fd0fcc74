"""What a frozen encoder says of every text, token by token, computed once and kept in a folder."""

import json
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from miv.backbones.hf_text import token_vectors
from miv.backbones.tokens import TokenEncoder

_TOGETHER = 64  # texts embedded together
_IN_A_FILE = 1024


class TokenStates:
    """Token vectors and token ids of texts, padded when they are looked up.

    Args:
        backbone: its encoder computes the vectors.
        texts: the texts; a file of the same texts is read instead of computed.
        folder: where the files are.

    Its ``fingerprint`` is that of the encoder and of all texts.
    """

    def __init__(self, backbone: TokenEncoder, texts: list[str], folder: Path) -> None:
        self._of: dict[str, tuple[NDArray[np.float16], NDArray[np.int64]]] = {}
        texts = sorted(set(texts), key=lambda text: (len(text), text))  # texts of one length together
        names = []
        folder.mkdir(parents=True, exist_ok=True)
        for start in range(0, len(texts), _IN_A_FILE):
            some = texts[start : start + _IN_A_FILE]
            name = sha256(json.dumps([backbone.encoder_sha256, backbone.max_tokens, some]).encode()).hexdigest()
            names.append(name)
            path = folder / f"{name}.npz"
            if not path.is_file():
                _compute(backbone, some, path)
                print(f"{start + len(some):,} of {len(texts):,} texts embedded", flush=True)
            with np.load(path) as found:
                hidden, ids, ptr = found["hidden"], found["ids"], found["ptr"]
            for number, text in enumerate(some):
                part = slice(ptr[number], ptr[number + 1])
                self._of[text] = hidden[part], ids[part]
        self.fingerprint = sha256(json.dumps(names).encode()).hexdigest()

    def padded(self, texts: list[str]) -> tuple[Tensor, Tensor, Tensor]:
        """Token vectors ``(u, L, H)``, token ids ``(u, L)`` and a mask ``(u, L)``, without special tokens."""
        found = [self._of[text] for text in texts]
        sizes = [len(ids) for _, ids in found]
        hidden = np.zeros((len(texts), max(sizes), found[0][0].shape[1]), np.float32)
        ids = np.zeros((len(texts), max(sizes)), np.int64)
        for row, (vectors, tokens) in enumerate(found):
            hidden[row, : sizes[row]], ids[row, : sizes[row]] = vectors, tokens
        mask = np.arange(max(sizes)) < np.array(sizes)[:, None]
        return torch.from_numpy(hidden), torch.from_numpy(ids), torch.from_numpy(mask).float()

    def some_tokens(self, count: int) -> tuple[Tensor, Tensor]:
        """Vectors ``(1, count, H)`` and ids ``(1, count)`` of tokens spread over all texts."""
        vectors, ids = (np.concatenate(parts) for parts in zip(*self._of.values(), strict=True))
        rows = np.linspace(0, len(ids) - 1, count).astype(np.int64)
        return torch.from_numpy(vectors[rows].astype(np.float32))[None], torch.from_numpy(ids[rows])[None]


def _compute(backbone: TokenEncoder, texts: list[str], path: Path) -> None:
    hidden, ids = [], []
    for start in range(0, len(texts), _TOGETHER):
        tokens = backbone.prepare(np.array(texts[start : start + _TOGETHER], dtype=object))
        sizes = tokens[:, 1].sum(dim=1)
        with torch.inference_mode():
            vectors, _ = token_vectors(backbone.encoder, tokens[:, :, : int(sizes.max())])
        for row, size in enumerate(sizes.tolist()):
            hidden.append(vectors[row, 1 : size - 1].half().numpy())
            ids.append(tokens[row, 0, 1 : size - 1].numpy())
    ptr = np.cumsum([0, *map(len, ids)])
    temporary = path.with_suffix(".part.npz")
    np.savez(temporary, hidden=np.concatenate(hidden), ids=np.concatenate(ids), ptr=ptr)
    temporary.replace(path)
