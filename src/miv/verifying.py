"""From what people have to verdicts: gather the instances, embed each distinct one once, pool, decide."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from miv.bags import Bags
from miv.errors import MivError
from miv.feature_cache import embed_instances
from miv.given import Gathering, as_vectors, check_bags, check_finite
from miv.images import Fit
from miv.modes import evaluating
from miv.progress import Progress, SilentProgress
from miv.verdict import Asked, Shown, Verdicts
from miv.witness_sets import ConformalRule, WitnessesBy

if TYPE_CHECKING:
    from miv.verifier import Verifier

# Targets that are pooled together: of 512 channels 8 MB, more gains nothing.
_TOGETHER = 4096

# Gives the queries (B, C) and the targets (T, C) of the exemplars from one to before another.
Lookup = Callable[[int, int], tuple[NDArray[np.float32], NDArray[np.float32]]]


def verify_many(
    verifier: "Verifier",
    queries: Any,
    bags: Any,
    resize: Fit | None,
    witnesses: Asked | None,
    progress: Progress | None,
) -> Verdicts:
    """Verify exemplars given as instances; see ``Verifier.verify_many``."""
    by = witnesses_by(verifier, witnesses)
    kind = verifier.backbone.kind
    if kind == "features":
        check_bags(queries, bags, kind)
        ptr = np.cumsum([0, *map(len, bags)])
        return decide(verifier, _vectors(verifier.backbone.channels, queries, bags), ptr, by, progress)
    gathering = Gathering(kind, verifier.instances, resize)
    query, bag, ptr = gather(gathering, queries, bags)
    pool = gathering.take_new()
    assert pool is not None  # noqa: S101 - there is a query
    features = embed_instances(verifier.backbone, pool, np.arange(len(pool)), progress)  # (P, C)
    return decide(verifier, among(features, query, bag, ptr), ptr, by, progress, Shown(pool, query, bag))


def gather(
    gathering: Gathering, queries: Any, bags: Any
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Collect images or texts: the rows of the queries ``(E,)`` and the targets ``(T,)``, and the borders."""
    check_bags(queries, bags, gathering.kind)
    query = np.array([gathering.add(one, f"query {number}") for number, one in enumerate(queries)])
    bag = np.array(
        [
            gathering.add(one, f"bag {number}, instance {place}")
            for number, members in enumerate(bags)
            for place, one in enumerate(members)
        ]
    )
    return query, bag, np.cumsum([0, *map(len, bags)])


def among(
    features: NDArray[np.float32], query: NDArray[np.int64], bag: NDArray[np.int64], ptr: NDArray[np.int64]
) -> Lookup:
    """Look exemplars up among the features ``(P, C)`` of their instances."""
    return lambda first, last: (features[query[first:last]], features[bag[ptr[first] : ptr[last]]])


def witnesses_by(verifier: "Verifier", asked: Asked | None) -> Asked:
    """By what witnesses are chosen: as asked, else as the witness rule was calibrated, else as the pooling allows."""
    rule = verifier.operating_point.witness_rule
    calibrated = rule.by if isinstance(rule, ConformalRule) else None
    by = asked or calibrated or ("attention" if verifier.pooling.has_attention else "leave_one_out")
    if by == "none":
        return by
    if by != "attention" or not verifier.pooling.has_attention:
        from miv.explaining import check_method

        check_method(verifier, by)
    if calibrated not in (None, by):
        raise MivError(
            f"Witnesses by {by} were asked for, but the verifier's witness rule was calibrated on {calibrated}, and "
            f"its promise holds for nothing else. Leave the choice out, or calibrate with --witnesses {by}."
        )
    return by


def _vectors(channels: int, queries: Any, bags: Sequence[Any]) -> Lookup:
    """Look up vectors that were given; only those of one batch are joined, as all may be many."""
    query = as_vectors(queries, channels, "The queries")
    members = [as_vectors(bag, channels, f"Bag {number}") for number, bag in enumerate(bags)]

    def lookup(first: int, last: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        targets = members[first] if last == first + 1 else np.concatenate(members[first:last])
        what = f"Bag {first}" if last == first + 1 else f"Bags {first} to {last - 1}"
        check_finite(query[first:last], f"The queries from {first}")
        check_finite(targets, what)
        return query[first:last], targets

    return lookup


def decide(
    verifier: "Verifier",
    lookup: Lookup,
    ptr: NDArray[np.int64],
    by: Asked,
    progress: Progress | None = None,
    shown: Shown | None = None,
) -> Verdicts:
    """Pool batch by batch, and decide by the verifier's operating point."""
    logits, attentions = [], []
    attention = shares = None
    with evaluating(verifier), torch.inference_mode():
        for first, last in _batches(ptr):
            answer = verifier.verify_features(*_batch(verifier, lookup, ptr, first, last))
            logits.append(answer.logit)
            if answer.attention is not None:
                attentions.append(answer.attention)
        logit = torch.cat(logits).double().cpu().numpy()
        _check_answers("logit", logit, np.arange(len(ptr)))
        if attentions:
            attention = torch.cat(attentions).double().cpu().numpy()
            _check_answers("attention", attention, ptr)
        if by == "attention":
            shares = attention
        elif by != "none":
            shares = _shares(verifier, lookup, ptr, by, logit, progress or SilentProgress())
    point = verifier.operating_point
    probability = point.probability(logit)
    witness = None if shares is None else point.witnesses(probability, shares, ptr)
    verdict = point.verdict(probability)
    return Verdicts(verdict, probability, point.threshold, logit, ptr, by, shares, witness, attention, shown)


def _shares(
    verifier: "Verifier",
    lookup: Lookup,
    ptr: NDArray[np.int64],
    by: WitnessesBy,
    logit: NDArray[np.float64],
    progress: Progress,
) -> NDArray[np.float64]:
    """``(T,)`` what stands for attention, from the features that are there already."""
    from miv.explaining import as_shares, explain_features

    scores = np.zeros(ptr[-1])
    with progress.step(f"Witnesses by {by}", total=len(logit)) as advance:
        for first, last in _batches(ptr):
            found = explain_features(verifier, *_batch(verifier, lookup, ptr, first, last), by)
            scores[ptr[first] : ptr[last]] = found.double().cpu().numpy()
            advance(last - first)
    _check_answers(by, scores, ptr)
    return as_shares(scores, by, logit, ptr, verifier.pooling.norm.weight.dtype)


def _check_answers(what: str, numbers: NDArray[np.float64], ptr: NDArray[np.int64]) -> None:
    """Refuse answers that are none: a comparison with NaN is false, and would read as a verdict of no."""
    if np.isfinite(numbers.sum()):  # only where all of them are; and they are far from overflowing
        return
    number = int(np.searchsorted(ptr, (~np.isfinite(numbers)).argmax(), side="right")) - 1
    raise MivError(
        f"The verifier's {what} for exemplar {number} (from 0) is NaN or infinite, so there is no verdict. Either its "
        "instances hold numbers far beyond those of the training, which overflow, or the verifier's weights are "
        "damaged. Scale the vectors as in the training, or train again."
    )


def _batches(ptr: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """The first exemplar of each batch, and the one after its last."""
    first, exemplars = 0, len(ptr) - 1
    while first < exemplars:
        last = max(first + 1, int(np.searchsorted(ptr, ptr[first] + _TOGETHER, side="right")) - 1)
        yield first, last
        first = last


def _batch(verifier: "Verifier", lookup: Lookup, ptr: NDArray[np.int64], first: int, last: int) -> tuple[Tensor, Bags]:
    query, targets = (_as_tensor(rows, verifier.pooling.norm.weight) for rows in lookup(first, last))
    return query, Bags(targets, torch.from_numpy(ptr[first : last + 1] - ptr[first]).to(targets.device))


def _as_tensor(rows: NDArray[np.float32], like: Tensor) -> Tensor:
    return torch.from_numpy(np.require(rows, requirements=["C", "W"])).to(like)
