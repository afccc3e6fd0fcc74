"""Run a verifier batch by batch, on its device and in its dtype, in evaluation mode, with progress."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from miv.bags import Bags
from miv.data import csr
from miv.decisions.reference_pairs import Pairs
from miv.explain import contributions, explain_features
from miv.files.json import Floats
from miv.runtime import Progress, SilentProgress, evaluating

if TYPE_CHECKING:
    from miv.models.verifier import Verifier

# Targets pooled together: 8 MB with 512 channels; more is not faster.
_TOGETHER = 4096

# Returns the features of the queries (B, C), or of their references (R, C), and of the targets (T, C) of the exemplars
# start to stop - 1.
FeatureLookup = Callable[[int, int], tuple[NDArray[np.float32], NDArray[np.float32]]]
Found = TypeVar("Found")


@dataclass(frozen=True, eq=False)
class EmbeddedExemplars:
    """``E`` exemplars with ``T`` targets in total; the instances are already features.

    Args:
        lookup: returns the features of consecutive exemplars.
        ptr: ``(E + 1,)``, the borders between the bags.
        reference_ptr: ``(E + 1,)``, the borders between the references; ``None`` if every query is one instance.
    """

    lookup: FeatureLookup
    ptr: NDArray[np.int64]
    reference_ptr: NDArray[np.int64] | None = None

    @classmethod
    def among(
        cls,
        features: NDArray[np.float32],
        query: NDArray[np.int64],
        bag: NDArray[np.int64],
        ptr: NDArray[np.int64],
        reference_ptr: NDArray[np.int64] | None = None,
    ) -> "EmbeddedExemplars":
        """Look up queries ``(E,)`` or references ``(R,)``, and targets ``(T,)``, in the features of their instances."""
        asked = np.arange(len(ptr)) if reference_ptr is None else reference_ptr

        def lookup(first: int, last: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
            return features[query[asked[first] : asked[last]]], features[bag[ptr[first] : ptr[last]]]

        return cls(lookup, ptr, reference_ptr)

    def __len__(self) -> int:
        return len(self.ptr) - 1

    def part(self, first: int, last: int) -> "EmbeddedExemplars":
        """The exemplars start to stop - 1."""
        ptr, reference_ptr = (_part(borders, first, last) for borders in (self.ptr, self.reference_ptr))
        assert ptr is not None  # noqa: S101 - for the type checker
        return EmbeddedExemplars(lambda start, end: self.lookup(first + start, first + end), ptr, reference_ptr)

    def of_references(self, exemplar: int) -> "EmbeddedExemplars":
        """One exemplar per reference of an exemplar, all with its bag."""
        references, targets = self.lookup(exemplar, exemplar + 1)
        ptr = np.arange(len(references) + 1) * len(targets)

        def lookup(first: int, last: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
            return references[first:last], np.tile(targets, (last - first, 1))

        return EmbeddedExemplars(lookup, ptr)

    def batches(self) -> Iterator[tuple[int, int]]:
        """The start and stop of each batch of exemplars."""
        pooled = self.ptr
        if self.reference_ptr is not None:  # a bag is pooled once per reference, and once for their mean
            pooled = csr.borders(np.diff(self.ptr) * (1 + np.diff(self.reference_ptr)))
        first = 0
        while first < len(self):
            last = max(first + 1, int(np.searchsorted(pooled, pooled[first] + _TOGETHER, side="right")) - 1)
            yield first, last
            first = last

    def batch(self, first: int, last: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor | Bags, Bags]:
        """Queries ``(B, C)`` or references ``(R, C)``, and bags ``(T, C)``, in the form that a verifier takes."""
        writable = (np.require(rows, requirements=["C", "W"]) for rows in self.lookup(first, last))
        query, targets = (torch.from_numpy(rows).to(device, dtype) for rows in writable)
        bags = Bags(targets, torch.from_numpy(_part(self.ptr, first, last)).to(device))
        between = _part(self.reference_ptr, first, last)
        if between is None or len(query) == len(bags):
            return query, bags
        return Bags(query, torch.from_numpy(between).to(device)), bags


def _part(borders: NDArray[np.int64] | None, first: int, last: int) -> NDArray[np.int64] | None:
    """The borders of the exemplars first to last - 1, from 0."""
    return None if borders is None else borders[first : last + 1] - borders[first]


class Answers(NamedTuple):
    """A verifier's output for ``E`` exemplars: logits ``(E,)``, attention and score ``(T,)`` if there are any."""

    logit: Floats
    attention: Floats | None
    score: Floats | None


def verify_embedded(verifier: "Verifier", exemplars: EmbeddedExemplars, progress: Progress | None = None) -> Answers:
    """Verify all exemplars."""

    def answer(query: Tensor | Bags, bags: Bags) -> tuple[Tensor, Tensor | None, Tensor | None]:
        found = verifier.verify_features(query, bags)
        return found.logit, found.attention, found.score

    answers = _in_batches(verifier, exemplars, answer, "Verifying", progress)
    attention = [of_targets for _, of_targets, _ in answers if of_targets is not None]
    score = [of_targets for _, _, of_targets in answers if of_targets is not None]
    return Answers(
        _joined([logit for logit, _, _ in answers]),
        _joined(attention) if attention else None,
        _joined(score) if score else None,
    )


def attention_by_head(verifier: "Verifier", exemplars: EmbeddedExemplars) -> Floats | None:
    """The attention ``(T, h)`` of each head; ``None`` if the pooling has none."""
    parts = _in_batches(
        verifier,
        exemplars,
        lambda query, bags: verifier.verify_features(query, bags).attention_by_head,
        "Verifying by head",
        None,
    )
    known = [part for part in parts if part is not None]
    return _joined(known) if known else None


def reference_logits(
    verifier: "Verifier", exemplars: EmbeddedExemplars, progress: Progress | None = None
) -> tuple[Floats, Floats]:
    """The logits ``(R,)`` of all references and ``(E,)`` of the mean feature of each query's references."""

    def answer(query: Tensor | Bags, bags: Bags) -> tuple[Tensor, Tensor]:
        asked = query if isinstance(query, Bags) else Bags(query, torch.arange(len(query) + 1, device=query.device))
        pairs = Pairs.of(asked, bags)
        return pairs.logits(verifier.verify_features(pairs.query, pairs.bags).logit)

    answers = _in_batches(verifier, exemplars, answer, "Verifying references", progress)
    return _joined([logit for logit, _ in answers]), _joined([of_mean for _, of_mean in answers])


def explain_embedded(
    verifier: "Verifier", exemplars: EmbeddedExemplars, method: str, progress: Progress | None = None, **options: Any
) -> Floats:
    """Scores ``(T,)`` of all targets; method and options as in ``miv.explain.explain_features``."""

    def scores(query: Tensor | Bags, bags: Bags) -> Tensor:
        return explain_features(verifier, query, bags, method, **options)

    return _joined(_in_batches(verifier, exemplars, scores, f"Explaining by {method}", progress))


def contributions_embedded(
    verifier: "Verifier", exemplars: EmbeddedExemplars, progress: Progress | None = None
) -> Floats | None:
    """What each target adds to its bag's logit, ``(T,)``; ``None`` if the logit is no sum over attention."""
    parts = _in_batches(
        verifier, exemplars, lambda query, bags: contributions(verifier, query, bags), "Dividing the logits", progress
    )
    known = [part for part in parts if part is not None]
    return _joined(known) if known else None


def _in_batches(
    verifier: "Verifier",
    exemplars: EmbeddedExemplars,
    compute: Callable[[Tensor | Bags, Bags], Found],
    text: str,
    progress: Progress | None,
) -> list[Found]:
    """Compute something for every batch. Each part of ``verifier`` keeps its training or evaluation mode."""
    found = []
    device, dtype = verifier.device, verifier.dtype
    step = (progress or SilentProgress()).step(text, total=len(exemplars))
    with evaluating(verifier), torch.inference_mode(), step as advance:
        for first, last in exemplars.batches():
            found.append(compute(*exemplars.batch(first, last, device, dtype)))
            advance(last - first)
    return found


def _joined(parts: list[Tensor]) -> Floats:
    return torch.cat(parts).double().cpu().numpy() if parts else np.zeros(0)
