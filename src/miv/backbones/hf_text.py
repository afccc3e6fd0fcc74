"""Texts for an encoder from ``transformers``: from strings to tokens to one vector per text."""

import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from miv.backbones.hf_files import TokenPooling, first_line
from miv.backbones.precision import precision_of
from miv.data.columns import as_strings
from miv.errors import MIVError
from miv.files.instances import InstanceKind
from miv.runtime import pause

Span = tuple[int, int]  # first character, and the one after the last

_WORD = re.compile(r"\S+")
_UNKNOWN = ("[UNK]", "<unk>")  # tokens
_HAN = "CJK"
_FEW_WORDS = 0.05  # of the words of a tokenizer: those of a script that it knows, if it has a small vocabulary


def text_windows(text: str, tokens: Sequence[Span], most: int) -> list[str]:
    """Overlapping parts of a text that together hold every word, each of at most ``most`` tokens.

    A window begins in the middle of the one before it. A word with more than ``most`` tokens is cut between tokens.

    >>> text_windows("one two three four five", [(0, 3), (4, 7), (8, 13), (14, 18), (19, 23)], 4)
    ['one two three four', 'three four five']
    """
    pieces = list(_pieces(text, tokens, most))
    sizes = [size for _, size in pieces]
    windows, first = [], 0
    while True:
        last, size = first, 0  # the window holds the pieces from first to before last
        while last < len(pieces) and (last == first or size + sizes[last] <= most):
            size += sizes[last]
            last += 1
        windows.append(text[pieces[first][0][0] : pieces[last - 1][0][1]])
        if last == len(pieces):
            return windows
        shared = 0
        first, before = last, first
        while first - 1 > before and shared + sizes[first - 1] <= most // 2:
            first -= 1
            shared += sizes[first]


def _pieces(text: str, tokens: Sequence[Span], most: int) -> Iterator[tuple[Span, int]]:
    """Words with their number of tokens; a word with too many is several pieces."""
    words = [word.span() for word in _WORD.finditer(text)]
    ends = [end for _, end in words]
    inside: list[list[int]] = [[] for _ in words]  # where the tokens of each word end
    for _, end in tokens:
        inside[min(bisect_left(ends, end), len(words) - 1)].append(end)
    for (start, end), stops in zip(words, inside, strict=True):
        if len(stops) <= most:
            yield (start, end), len(stops)
            continue
        borders = [start, *stops[most - 1 : -1 : most], end]
        for number, border in enumerate(pairwise(borders)):
            yield border, min(most, len(stops) - number * most)


TOKENIZER_NAME = "tokenizer.json"
_TOGETHER = 1024  # texts counted together
_MOST_TOKENIZER_BYTES = 100_000_000
TOKENS_TOGETHER = 2048  # padded tokens per chunk: more would not be faster, and a chunk is the least memory of a step
_SIMILAR = 0.75  # shortest to longest text of a chunk, as padding costs as much as words


class TextReader:
    """Tokenises texts to ``(2, max_tokens)`` int64, their ids and the mask, and pools the encoder's token vectors."""

    kind: InstanceKind = "text"
    instance_dtype = torch.int64
    fields: tuple[str, ...] = ("ids", "attention_mask")  # of the tokenizer, one row of a text each

    def __init__(self, config: Any, source: str | None, pooling: TokenPooling, max_tokens: int) -> None:
        longest = getattr(config, "max_position_embeddings", None) or 100_000
        if not isinstance(max_tokens, int) or not 3 <= max_tokens <= longest:
            raise MIVError(f"max_tokens is {max_tokens}. Expected 3 to {longest}, the maximum of the encoder.")
        self.pooling, self.max_tokens = pooling, max_tokens
        if not isinstance(getattr(config, "vocab_size", None), int) or not hasattr(config, "hidden_size"):
            raise MIVError(f"A {config.model_type} is neither a text encoder nor an image encoder.")
        self.channels: int = config.hidden_size
        self.instance_shape = (len(self.fields), max_tokens)
        self.vocabulary: int = config.vocab_size
        self.padding: int = getattr(config, "pad_token_id", None) or 0
        self._tokenizer: Any = None
        if source is not None:
            self._tokenizer = self._set_up(_pretrained_tokenizer(source))

    def options(self) -> dict[str, Any]:
        return {"pooling": self.pooling, "max_tokens": self.max_tokens}

    def prepare(self, values: NDArray[Any]) -> Tensor:
        """``U`` strings to ``(U, 2, max_tokens)`` int64."""
        encoded = self._encode(values)
        tokens = np.array([[getattr(text, field) for field in self.fields] for text in encoded], dtype=np.int64)
        return torch.from_numpy(tokens.reshape(len(encoded), *self.instance_shape))

    def count_cut(self, values: NDArray[Any]) -> int:
        """Number of strings with more than ``max_tokens`` tokens."""
        parts = (values[start : start + _TOGETHER] for start in range(0, len(values), _TOGETHER))
        return sum(bool(text.overflowing) for part in parts for text in self._encode(part))

    def windows(self, values: NDArray[Any]) -> list[list[str]]:
        """Each string in overlapping windows of whole words that fit ``max_tokens``; itself if it fits."""
        windows = []
        for start in range(0, len(values), _TOGETHER):
            part = values[start : start + _TOGETHER]
            for text, encoded in zip(part, self._encode(part), strict=True):
                windows.append(self._windows(str(text)) if encoded.overflowing else [str(text)])
        return windows

    def is_unreadable(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Which strings are mostly in scripts, or mostly of tokens, that the tokenizer does not know."""
        unknown = {self._ready().token_to_id(name) for name in _UNKNOWN} - {None}
        unreadable = np.zeros(len(values), bool)
        for start in range(0, len(values), _TOGETHER):
            part = values[start : start + _TOGETHER]
            for row, (text, encoded) in enumerate(zip(part, self._encode(part), strict=True), start):
                letters = [] if str(text).isascii() else [letter for letter in str(text) if letter.isalpha()]
                foreign = sum(script_of(letter) not in self._scripts for letter in letters)
                ids = np.array(encoded.ids)[np.array(encoded.special_tokens_mask) == 0]
                unreadable[row] = 2 * foreign > len(letters) or 2 * np.isin(ids, [*unknown]).sum() > len(ids)
        return unreadable

    @cached_property
    def _scripts(self) -> set[str]:
        """The scripts of enough words, or parts of words, of the tokenizer; a Chinese word may be one character."""
        tokenizer, count = self._ready(), Counter[str]()
        for token in tokenizer.get_vocab().values():
            scripts = [script_of(letter) for letter in tokenizer.decode([token]) if letter.isalpha()]
            if len(scripts) > 1 or scripts == [_HAN]:
                count[scripts[0]] += 1
        few = _FEW_WORDS * count.total()
        return {script for script, words in count.items() if words > min(few, 1000 if script == _HAN else 200)}

    def _windows(self, text: str) -> list[str]:
        text = valid_text(text)
        first = self._ready().encode(text)
        parts = []
        for part in (first, *first.overflowing):
            spans = zip(part.offsets, part.special_tokens_mask, strict=True)
            parts.append([span for span, is_special in spans if not is_special])  # padding is special too
        return text_windows(text, [span for part in parts for span in part], len(parts[0]))

    def _encode(self, values: NDArray[Any]) -> list[Any]:
        texts = [valid_text(text) for text in as_strings("texts", values)]
        encoded: list[Any] = self._ready().encode_batch_fast(texts)
        return encoded

    def embed(self, model: nn.Module, instances: Tensor) -> Tensor:
        """``(U, 2, max_tokens)`` to ``(U, C)``."""
        if not len(instances):
            return next(model.parameters()).new_zeros(0, self.channels)
        return by_length(instances, lambda some: self.vectors(model, some))

    def vectors(self, model: nn.Module, instances: Tensor) -> Tensor:
        """The same for texts of similar length, ``(u, 2, L)``, in one pass."""
        hidden, mask = token_vectors(model, instances)  # (u, L, C), (u, L)
        if self.pooling == "cls":
            return hidden[:, 0]
        weights = mask.to(hidden.dtype).unsqueeze(2)  # (u, L, 1)
        return (hidden * weights).sum(dim=1) / weights.sum(dim=1)

    def tokenizer_json(self) -> str:
        json: str = self._ready().to_str()
        return json

    def save_tokenizer(self, path: Path) -> None:
        path.write_text(self.tokenizer_json(), encoding="utf-8")

    def load_tokenizer(self, path: Path) -> None:
        """Read the output of ``save_tokenizer``: plain JSON without code."""
        from tokenizers import Tokenizer

        if not path.is_file():
            raise MIVError(f"{path} is missing. A verifier of texts has a tokenizer; copy the whole folder.")
        if path.stat().st_size > _MOST_TOKENIZER_BYTES:
            raise MIVError(f"{path} has {path.stat().st_size} bytes. Expected at most {_MOST_TOKENIZER_BYTES}.")
        try:
            tokenizer = self._set_up(Tokenizer.from_file(str(path)))
        except MIVError:
            raise
        except Exception as error:  # the library raises plain Exception
            raise MIVError(f"{path} is not a tokenizer ({error}). The file is damaged; copy it again.") from error
        self._tokenizer = tokenizer
        self.__dict__.pop("_scripts", None)

    def _ready(self) -> Any:
        if self._tokenizer is None:
            raise MIVError("This backbone was created without its tokenizer. Load it with load_files().")
        return self._tokenizer

    def _set_up(self, tokenizer: Any) -> Any:
        greatest = max(tokenizer.get_vocab().values(), default=0)
        if max(greatest, self.padding) >= self.vocabulary:
            ids = max(greatest, self.padding)
            raise MIVError(f"The tokenizer has ids up to {ids}, but the encoder a vocabulary of {self.vocabulary}.")
        tokenizer.enable_truncation(self.max_tokens)
        tokenizer.enable_padding(length=self.max_tokens, pad_id=self.padding)
        return tokenizer


def script_of(letter: str) -> str:
    """The script of a letter.

    >>> script_of("a"), script_of("კ"), script_of("京")
    ('LATIN', 'GEORGIAN', 'CJK')
    """
    return unicodedata.name(letter, "?").partition(" ")[0]


def valid_text(text: str) -> str:
    """A text without lone surrogates, which Python strings may contain and a tokenizer cannot handle."""
    return text.encode("utf-8", "replace").decode("utf-8")


def by_length(instances: Tensor, embed: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply ``embed`` to ``(u, 2, L)`` texts of similar length, and return its rows in order of ``(U, 2, max)``."""
    lengths = token_counts(instances)
    rows = chunks_by_length(lengths)
    features = []
    for some in rows:
        pause()
        features.append(embed(instances[some, :, : int(lengths[some[0]])]))
    return torch.cat(features)[torch.cat(rows).argsort()]


def chunks_by_length(lengths: Tensor, most: int = TOKENS_TOGETHER) -> list[Tensor]:
    """Rows of texts of similar length, the longest first; a chunk padded to its longest has at most ``most`` tokens.

    >>> [rows.tolist() for rows in chunks_by_length(torch.tensor([3, 9, 4, 8]), most=18)]
    [[1, 3], [2, 0]]
    """
    order = torch.argsort(lengths, descending=True, stable=True)
    ordered = -lengths[order].double()  # ascending
    chunks, first = [], 0
    while first < len(order):
        longest = int(lengths[order[first]])
        similar = int(torch.searchsorted(ordered, -_SIMILAR * longest, right=True))  # the first that is too short
        last = min(first + max(1, most // longest), similar)
        chunks.append(order[first:last])
        first = last
    return chunks


def token_counts(instances: Tensor) -> Tensor:
    """Number of tokens of each text of ``(U, 2, max)``, ``(U,)``; at least 1."""
    return instances[:, 1].sum(dim=1).clamp(min=1)


def token_vectors(model: nn.Module, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Texts ``(u, 2, L)`` or pairs ``(u, 3, L)`` to token vectors ``(u, L, C)`` and the mask ``(u, L)``."""
    ids, mask, *segments = token_parts(tokens)
    config: Any = model.config
    more = {"token_type_ids": segments[0]} if segments and getattr(config, "type_vocab_size", 0) > 1 else {}
    with precision_of(ids.device):
        hidden: Tensor = model(input_ids=ids, attention_mask=mask, **more).last_hidden_state
    return hidden.to(next(model.parameters()).dtype), mask


def token_parts(tokens: Tensor) -> tuple[Tensor, ...]:
    """Ids, mask, and segments of pairs, ``(u, L)`` each.

    A row without tokens is padding of the batch. It keeps one, lest it give NaN, which would spoil every gradient.
    """
    ids, mask, *segments = tokens.unbind(dim=1)
    return ids, torch.cat([torch.ones_like(mask[:, :1]), mask[:, 1:]], dim=1), *segments


def _pretrained_tokenizer(name: str) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(name, trust_remote_code=False).backend_tokenizer
    except Exception as error:  # missing files, or a tokenizer without a fast version
        raise MIVError(f"hf:{name} has no readable tokenizer: {first_line(error)}.") from error
