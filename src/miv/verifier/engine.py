"""Run a verifier batch by batch, on its device and in its dtype, in evaluation mode, with progress."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from miv.bags import Bags
from miv.data import csr
from miv.errors import MIVError, MIVWarning
from miv.files.arrays import Floats
from miv.runtime import Progress, SilentProgress, evaluating, pause
from miv.verifier.decisions import OperatingPoint, StatedRule
from miv.verifier.explain import as_shares, check_method, explain_features
from miv.verifier.network import Verifier
from miv.verifier.out_of_distribution import OutOfDistribution
from miv.verifier.reading import ErrorLocations
from miv.verifier.references import Pairs
from miv.verifier.verdict import DisplayedInstances, Lazy, Verdicts, WitnessMethod

# Targets pooled together: 8 MB with 512 channels; more is not faster.
_TOGETHER = 4096

# Returns the features of the queries (B, C), or of their references (R, C), and of the targets (T, C) of the exemplars
# start to stop - 1.
FeatureLookup = Callable[[int, int], tuple[NDArray[np.float32], NDArray[np.float32]]]
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class EmbeddedExemplars:
    """``E`` exemplars with ``T`` targets in total; the instances are already features."""

    lookup: FeatureLookup
    ptr: NDArray[np.int64]  # (E + 1,) borders between the bags
    reference_ptr: NDArray[np.int64] | None = None  # (E + 1,) between references; None if every query is one instance

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
        return csr.batches(pooled, _TOGETHER)

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
    verifier: Verifier, exemplars: EmbeddedExemplars, method: str, progress: Progress | None = None, **options: Any
) -> Floats:
    """Scores ``(T,)`` of all targets; method and options as in ``miv.verifier.explain.explain_features``."""
    scores = partial(explain_features, verifier, method=method, **options)
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


# A warning about bags, or numbers of references, far from those that a verifier was calibrated on.

_FAR = 2  # times as large, or as small


def warn_of_other_sizes(
    point: OperatingPoint, ptr: NDArray[np.int64], reference_ptr: NDArray[np.int64] | None, stacklevel: int = 4
) -> bool:
    """Warn, and return true, if rates may not hold, because exemplars are not like those they were measured on."""
    data = point.measured.get("data")
    calibrated = data if isinstance(data, dict) else {}
    counts = np.ones(1, np.int64) if reference_ptr is None else np.diff(reference_ptr)
    differences = []
    for numbers, key, factor, words in (
        (np.diff(ptr), "bag_sizes", _FAR, "bags of {}"),
        (counts, "references", 1, "queries with {} references"),
    ):
        least, most, span = int(numbers.min()), int(numbers.max()), _span(calibrated.get(key))
        if span is not None and (least * factor < span[0] or most > factor * span[1]):
            differences.append(f"{words.format(_between(least, most))} (calibrated on {_between(*span)})")
    if differences:
        warnings.warn(
            f"The verifier was calibrated for {point.goal}, and its rates may not hold here: there are "
            f"{'; '.join(differences)}. Calibrate it on exemplars like yours.",
            MIVWarning,
            stacklevel,
        )
    return bool(differences)


def _span(entry: Any) -> tuple[int, int] | None:
    """The least and the greatest number, from a file; ``None`` for anything else."""
    is_span = isinstance(entry, list) and len(entry) == 2 and all(isinstance(number, int) for number in entry)
    return (entry[0], entry[1]) if is_span else None


def _between(least: int, most: int) -> str:
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def out_of_distribution(verifier: Verifier, exemplars: EmbeddedExemplars) -> OutOfDistribution | None:
    """Compare the features of all exemplars with the verifier's limit; ``None`` if it has none."""
    limit = verifier.unlike
    if limit is None:
        return None
    batches = [
        [limit.is_beyond(rows[:, : limit.channels]) for rows in exemplars.lookup(*batch)]
        for batch in exemplars.batches()
    ]
    query, bag = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    if exemplars.reference_ptr is not None:
        query = ~csr.bag_any(~query, exemplars.reference_ptr)
    return OutOfDistribution(query, bag, exemplars.ptr)


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
        nearly_whole_sets=None if witness is None else point.nearly_whole_sets,
        lower_threshold=point.lower_threshold,
        lazy_matches=None if by == "none" or exemplars.reference_ptr is None else Lazy(matched, 0, len(logit)),
        unlike=unlike,
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
