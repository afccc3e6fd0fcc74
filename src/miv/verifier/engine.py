"""Run a verifier batch by batch, on its device and in its dtype, in evaluation mode, with progress."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from miv.bags import Bags
from miv.data import InstancePool, csr
from miv.data.kinds import KINDS
from miv.errors import MIVError, MIVWarning
from miv.files.arrays import Floats, Mask
from miv.runtime import Progress, SilentProgress, evaluating, pause
from miv.verifier.decisions import StatedRule
from miv.verifier.explain import as_shares, check_method, explain_features
from miv.verifier.network import Verifier
from miv.verifier.out_of_distribution import OutOfDistribution, flags_of
from miv.verifier.reading import ErrorLocations
from miv.verifier.references import Pairs
from miv.verifier.verdict import DisplayedInstances, Lazy, Verdicts, WitnessMethod

# Targets pooled together: 8 MB with 512 channels; more is not faster.
_TOGETHER = 4096

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class EmbeddedExemplars:
    """``E`` exemplars with ``T`` targets in total, as places in the features of their instances."""

    features: NDArray[np.float32]  # (P, C)
    query: NDArray[np.int64]  # (E,), or (R,) if there are references
    bag: NDArray[np.int64]  # (T,)
    ptr: NDArray[np.int64]  # (E + 1,) borders between the bags
    reference_ptr: NDArray[np.int64] | None = None  # (E + 1,) between references; None if every query is one instance
    foreign: Mask | None = None  # (P,): ``OutOfDistributionLimit.is_foreign``

    def __len__(self) -> int:
        return len(self.ptr) - 1

    def part(self, first: int, last: int) -> "EmbeddedExemplars":
        """The exemplars first to last - 1."""
        targets, references, asked = slice(*self.ptr[[first, last]]), self.reference_ptr, slice(first, last)
        if references is not None:
            asked = slice(*references[[first, last]])
            references = references[first : last + 1] - references[first]
        ptr = self.ptr[first : last + 1] - self.ptr[first]
        return replace(self, query=self.query[asked], bag=self.bag[targets], ptr=ptr, reference_ptr=references)

    def of_references(self, exemplar: int) -> "EmbeddedExemplars":
        """One exemplar per reference of an exemplar, all with its bag."""
        part = self.part(exemplar, exemplar + 1)
        count = len(part.query)
        bags = np.tile(part.bag, count)
        return EmbeddedExemplars(self.features, part.query, bags, np.arange(count + 1) * len(part.bag))

    def batches(self) -> Iterator[tuple[int, int]]:
        """The start and stop of each batch of exemplars."""
        pooled = self.ptr
        if self.reference_ptr is not None:  # a bag is pooled once per reference, and once for their mean
            pooled = csr.borders(np.diff(self.ptr) * (1 + np.diff(self.reference_ptr)))
        return csr.batches(pooled, _TOGETHER)

    def _rows(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        """The features at some places; without a copy of a large bag if they follow one another."""
        if len(places) and (np.diff(places) == 1).all():
            return self.features[places[0] : places[-1] + 1]
        return self.features[places]

    def batch(self, first: int, last: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor | Bags, Bags]:
        """Queries ``(B, C)`` or references ``(R, C)``, and bags ``(T, C)``, in the form that a verifier takes."""
        part = self.part(first, last)
        query, targets = (
            torch.from_numpy(np.require(self._rows(rows), requirements=["C", "W"])).to(device, dtype)
            for rows in (part.query, part.bag)
        )
        bags = Bags(targets, torch.from_numpy(part.ptr).to(device))
        if part.reference_ptr is None or len(query) == len(bags):
            return query, bags
        return Bags(query, torch.from_numpy(part.reference_ptr).to(device)), bags


class Answers(NamedTuple):
    """A verifier's output for ``E`` exemplars: logits ``(E,)``, attention and score ``(T,)`` if there are any."""

    logit: Floats
    attention: Floats | None
    score: Floats | None


def verify_embedded(verifier: Verifier, exemplars: EmbeddedExemplars, progress: Progress | None = None) -> Answers:
    """Verify all exemplars."""

    def answer(query: Tensor | Bags, bags: Bags) -> tuple[Tensor, Tensor | None, Tensor | None]:
        verification = verifier.verify_features(query, bags)
        return verification.logit, verification.attention, verification.score

    answers = _in_batches(verifier, exemplars, answer, "Verifying", progress)
    logit, attention, score = zip(*answers, strict=True) if answers else ((), (), ())
    return Answers(_joined(logit), _joined_if_any(attention), _joined_if_any(score))


def attention_by_head(verifier: Verifier, exemplars: EmbeddedExemplars) -> Floats | None:
    """The attention ``(T, h)`` of each head; ``None`` if the pooling has none."""

    def by_head(*batch: Any) -> Tensor | None:
        return verifier.verify_features(*batch).attention_by_head

    return _joined_if_any(_in_batches(verifier, exemplars, by_head, "Verifying by head", None))


def reference_logits(
    verifier: Verifier, exemplars: EmbeddedExemplars, progress: Progress | None = None
) -> tuple[Floats, Floats]:
    """The logits ``(R,)`` of all references and ``(E,)`` of the mean feature of each query's references."""

    def answer(query: Tensor | Bags, bags: Bags) -> tuple[Tensor, Tensor]:
        asked = query if isinstance(query, Bags) else Bags(query, torch.arange(len(query) + 1, device=query.device))
        pairs = Pairs.of(asked, bags)
        return pairs.logits(verifier.verify_features(pairs.query, pairs.bags).logit)

    answers = _in_batches(verifier, exemplars, answer, "Verifying references", progress)
    return _joined([logit for logit, _ in answers]), _joined([of_mean for _, of_mean in answers])


def explain_embedded(
    verifier: Verifier, exemplars: EmbeddedExemplars, method: str, progress: Progress | None = None
) -> Floats:
    """Scores ``(T,)`` of all targets; method as in ``miv.verifier.explain.explain_features``."""
    scores = partial(explain_features, verifier, method=method)
    return _joined(_in_batches(verifier, exemplars, scores, f"Explaining by {method}", progress))


def _in_batches(
    verifier: Verifier,
    exemplars: EmbeddedExemplars,
    compute: Callable[[Tensor | Bags, Bags], Result],
    text: str,
    progress: Progress | None,
) -> list[Result]:
    """Compute something for every batch. Each part of ``verifier`` keeps its training or evaluation mode."""
    results = []
    step = (progress or SilentProgress()).step(text, total=len(exemplars))
    with evaluating(verifier), torch.inference_mode(), step as advance:
        for first, last in exemplars.batches():
            pause()
            results.append(compute(*exemplars.batch(first, last, verifier.device, verifier.dtype)))
            advance(last - first)
    return results


def _joined(parts: Sequence[Tensor]) -> Floats:
    return torch.cat(list(parts)).double().cpu().numpy() if parts else np.zeros(0)


def _joined_if_any(parts: Iterable[Tensor | None]) -> Floats | None:
    known = [part for part in parts if part is not None]
    return _joined(known) if known else None


def foreign_of(verifier: Verifier, pool: InstancePool, rows: NDArray[np.int64] | None = None) -> Mask:
    """``(P,)`` bool: which instances of a pool, or which of its ``rows``, have statistics unlike those of train.

    Those of vectors are of their features, which ``flags_of`` sees.
    """
    is_foreign = np.zeros(len(pool), bool)
    if verifier.unlike is not None and not KINDS[pool.kind].is_vector:
        chosen = slice(None) if rows is None else rows
        is_foreign[chosen] = verifier.unlike.is_foreign(pool.kind, pool.values[chosen])
    return is_foreign


def out_of_distribution(verifier: Verifier, exemplars: EmbeddedExemplars) -> OutOfDistribution | None:
    """Flag the instances of all exemplars; ``None`` if the verifier has no limit, and all have content."""
    limit, kind = verifier.unlike, verifier.backbone.kind
    used = np.unique(np.append(exemplars.query, exemplars.bag))
    flags = np.zeros(len(exemplars.features), np.int8)
    for start in range(0, len(used), _TOGETHER):
        rows = used[start : start + _TOGETHER]
        flags[rows] = flags_of(limit, exemplars.features[rows], kind)
    if exemplars.foreign is not None:
        flags[used] = np.maximum(flags[used], exemplars.foreign[used])
    query, bag = flags[exemplars.query], flags[exemplars.bag]
    if exemplars.reference_ptr is not None:
        query = -csr.bag_maxima(-query, exemplars.reference_ptr).astype(np.int8)
    has_any = limit is not None or query.any() or bag.any()
    return OutOfDistribution(query, bag, exemplars.ptr) if has_any else None


def decide(
    verifier: Verifier,
    exemplars: EmbeddedExemplars,
    by: WitnessMethod,
    progress: Progress | None = None,
    shown: DisplayedInstances | None = None,
    places: ErrorLocations | None = None,
) -> Verdicts:
    """Verify exemplars and decide by the verifier's operating point; ``places`` names them in errors."""
    places, ptr, shares = places or ErrorLocations(), exemplars.ptr, None
    logit, attention, score = verify_embedded(verifier, exemplars, progress)
    _check_answers("logit", logit, np.arange(len(ptr)), places)
    if attention is not None:
        _check_answers("attention", attention, ptr, places)
    if by == "attention":
        shares = attention
    elif by != "none":
        scores = explain_embedded(verifier, exemplars, by, progress)
        _check_answers(by, scores, ptr, places)
        shares = as_shares(scores, by, logit, ptr, verifier.dtype)
    point = verifier.operating_point.for_witnesses_by(by)
    probability = point.probability(logit)
    witness = None if shares is None else point.witnesses(probability, shares, ptr)
    verdict = point.verdict(probability)
    unlike = out_of_distribution(verifier, exemplars)
    if unlike is not None:
        verdict = verdict & ~unlike.withheld

    def alone(first: int, last: int) -> NDArray[np.float64]:
        part = exemplars.part(first, last)
        # Scores of several references are combined with the weights of the whole bag, not of the instance alone.
        if score is not None and verifier.pooling.score_is_logit and exemplars.reference_ptr is None:
            logits = score[ptr[first] : ptr[last]]
        else:
            logits = explain_embedded(verifier, part, "alone")
        _check_answers("score", logits, part.ptr, places, first)
        return point.probability(logits)

    def matched(first: int, last: int) -> list[Floats]:
        matrices = []
        for exemplar in range(first, last):
            each = exemplars.of_references(exemplar)
            logits = explain_embedded(verifier, each, "alone")
            _check_answers("score", logits, np.array([0, len(logits)]), places, exemplar)
            matrices.append(point.probability(logits).reshape(len(each), -1))
        return matrices

    return Verdicts(
        verdict=verdict,
        probability=probability,
        threshold=point.threshold,
        logit=logit,
        ptr=ptr,
        witnesses_by=by,
        shares=shares,
        witness=witness,
        attention=attention,
        shown=shown,
        lazy_scores=None if by == "none" else Lazy(alone, 0, len(logit)),
        lower_threshold=point.lower_threshold,
        lazy_matches=None if by == "none" or exemplars.reference_ptr is None else Lazy(matched, 0, len(logit)),
        unlike=unlike,
        point=point,
        references=None if exemplars.reference_ptr is None else np.diff(exemplars.reference_ptr),
    )


def witnesses_by(verifier: Verifier, asked: WitnessMethod | None) -> WitnessMethod:
    """How to choose witnesses: as requested, else as the witness rule was calibrated, else as the pooling allows.

    Warns if the rule was calibrated on another method: the threshold of one kind of shares means nothing for another.
    """
    calibrated = verifier.operating_point.witnesses_by
    by = asked or calibrated or ("attention" if verifier.pooling.has_attention else "leave_one_out")
    if by == "none":
        return by
    check_method(verifier.pooling, by)
    if calibrated not in (None, by):
        warnings.warn(
            f"The verifier's witness rule was calibrated on {calibrated} and is not applied to {by}. Witnesses are the "
            f"instances with {StatedRule().factor:g} times an even share, without a guarantee; `miv calibrate "
            f"--witnesses {by}` fits a rule.",
            MIVWarning,
            stacklevel=4,
        )
    return by


def _check_answers(
    what: str, numbers: NDArray[np.float64], ptr: NDArray[np.int64], places: ErrorLocations, before: int = 0
) -> None:
    """Raise an error for NaN or infinity: a comparison with NaN is false and would look like a verdict of no."""
    if np.isfinite(numbers.sum()):  # true only if all are finite; these sums do not overflow
        return
    number = before + int(np.searchsorted(ptr, (~np.isfinite(numbers)).argmax(), side="right")) - 1
    raise not_finite(what, places.exemplar(number))


def not_finite(what: str, place: str) -> MIVError:
    """An error for a number that is NaN or infinite."""
    return MIVError(
        f"The verifier's {what} for {place} is NaN or infinite, so there is no verdict. The instances contain numbers "
        "far outside the range of the training data, or the verifier's weights are damaged. Scale the vectors as in "
        "training, or train again."
    )
