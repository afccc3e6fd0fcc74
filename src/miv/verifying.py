"""From what people have to verdicts: gather the instances, embed each distinct one once, pool, decide."""

from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from miv.bags import Bags
from miv.errors import MivError
from miv.feature_cache import embed_instances
from miv.gathering import Gathering
from miv.given import Places, as_vector, as_vectors, check_bags, check_finite, is_finite, with_folders
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
    places: Places | None = None,
) -> Verdicts:
    """Verify exemplars given as instances; see ``Verifier.verify_many``. ``places`` is what errors call them."""
    by = witnesses_by(verifier, witnesses)
    kind, places = verifier.backbone.kind, places or Places()
    gathering = Gathering(kind, verifier.instances, resize)
    bags = with_folders(bags, kind)
    if kind == "features":
        check_bags(queries, bags, kind, places)
        ptr = np.cumsum([0, *map(len, bags)])
        lookup = _vectors(verifier.backbone.channels, queries, bags, places)
        return decide(verifier, lookup, ptr, by, progress, places=places)
    query, bag, ptr = gather(gathering, queries, bags, places)
    pool = gathering.take_new()
    assert pool is not None  # noqa: S101 - there is a query
    features = embed_instances(verifier.backbone, pool, np.arange(len(pool)), progress)  # (P, C)
    shown = Shown(pool, query, bag, *_names(kind, queries, bags))
    return decide(verifier, among(features, query, bag, ptr), ptr, by, progress, shown, places)


def _names(kind: str, queries: Any, bags: Any) -> tuple[list[str], list[str]]:
    """What the queries and targets are called: images by their files, all else not at all."""
    if kind != "image":
        return [], []
    members = [one for bag in bags for one in bag]
    query, bag = ([str(one) if isinstance(one, str | PathLike) else "" for one in some] for some in (queries, members))
    return query, bag


def gather(
    gathering: Gathering, queries: Any, bags: Any, places: Places
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Collect images or texts: the rows of the queries ``(E,)`` and the targets ``(T,)``, and the borders."""
    check_bags(queries, bags, gathering.kind, places)
    query = np.array([gathering.add(one, places.query(number)) for number, one in enumerate(queries)])
    bag = np.array(
        [
            gathering.add(one, places.member(number, place))
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


def _vectors(channels: int, queries: Any, bags: Sequence[Any], places: Places) -> Lookup:
    """Look up vectors that were given; only those of one batch are joined, as all may be many."""
    if places.are_named:
        query = np.stack([as_vector(one, channels, places.query(row)) for row, one in enumerate(queries)])
    else:
        query = as_vectors(queries, channels, "The list of queries")
    members = [as_vectors(bag, channels, places.bag(number)) for number, bag in enumerate(bags)]

    def lookup(first: int, last: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        targets = members[first] if last == first + 1 else np.concatenate(members[first:last])
        if not (is_finite(query[first:last]) and is_finite(targets)):
            for number in range(first, last):
                check_finite(query[number : number + 1], places.query(number))
                check_finite(members[number], places.bag(number))
        return query[first:last], targets

    return lookup


def decide(
    verifier: "Verifier",
    lookup: Lookup,
    ptr: NDArray[np.int64],
    by: Asked,
    progress: Progress | None = None,
    shown: Shown | None = None,
    places: Places | None = None,
) -> Verdicts:
    """Pool batch by batch, and decide by the verifier's operating point."""
    logits, attentions = [], []
    places = places or Places()
    attention = shares = None
    with evaluating(verifier), torch.inference_mode():
        for first, last in _batches(ptr):
            answer = verifier.verify_features(*_batch(verifier, lookup, ptr, first, last))
            logits.append(answer.logit)
            if answer.attention is not None:
                attentions.append(answer.attention)
        logit = torch.cat(logits).double().cpu().numpy()
        _check_answers("logit", logit, np.arange(len(ptr)), places)
        if attentions:
            attention = torch.cat(attentions).double().cpu().numpy()
            _check_answers("attention", attention, ptr, places)
        if by == "attention":
            shares = attention
        elif by != "none":
            shares = _shares(verifier, lookup, ptr, by, logit, progress or SilentProgress(), places)
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
    places: Places,
) -> NDArray[np.float64]:
    """``(T,)`` what stands for attention, from the features that are there already."""
    from miv.explaining import as_shares, explain_features

    scores = np.zeros(ptr[-1])
    with progress.step(f"Witnesses by {by}", total=len(logit)) as advance:
        for first, last in _batches(ptr):
            found = explain_features(verifier, *_batch(verifier, lookup, ptr, first, last), by)
            scores[ptr[first] : ptr[last]] = found.double().cpu().numpy()
            advance(last - first)
    _check_answers(by, scores, ptr, places)
    return as_shares(scores, by, logit, ptr, verifier.pooling.norm.weight.dtype)


def _check_answers(what: str, numbers: NDArray[np.float64], ptr: NDArray[np.int64], places: Places) -> None:
    """Refuse answers that are none: a comparison with NaN is false, and would read as a verdict of no."""
    if np.isfinite(numbers.sum()):  # only where all of them are; and they are far from overflowing
        return
    number = int(np.searchsorted(ptr, (~np.isfinite(numbers)).argmax(), side="right")) - 1
    raise MivError(
        f"The verifier's {what} for {places.exemplar(number)} is NaN or infinite, so there is no verdict. Either its "
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
