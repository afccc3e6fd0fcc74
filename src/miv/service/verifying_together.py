"""Verify the exemplars of several requests in one go.

The steps are those of ``Verifier.verify_many``; here the requests are converted before, each in its own thread, and a
bag may also be features that the service keeps.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from miv.backbones.feature_cache import embed_instances
from miv.data import InstancePool, csr
from miv.inference.deciding import decide
from miv.inference.engine import EmbeddedExemplars, attention_by_head
from miv.inference.given_instances import ALONE, GivenPlaces
from miv.inference.verdict import Asked
from miv.runtime.progress import Progress

if TYPE_CHECKING:
    from miv.models.verifier import Verifier

Rows = NDArray[np.int64]
Features = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class ReadExemplar:
    """One exemplar of a request.

    Args:
        query: ``(R,)`` rows of the request's pool.
        several: whether the query was given as a list of references.
        bag: ``(N,)`` rows of the pool, or features ``(N, C)`` that were embedded before.
    """

    query: Rows
    several: bool
    bag: Rows | Features

    def __len__(self) -> int:
        return len(self.query) + len(self.bag)


@dataclass(frozen=True, eq=False)
class ReadRequest:
    """What one request asks, converted and checked.

    Args:
        pool: its distinct instances.
        exemplars: its exemplars.
        by: how to choose witnesses.
        heads: whether to return the attention of each head.
    """

    pool: InstancePool
    exemplars: Sequence[ReadExemplar]
    by: Asked
    heads: bool = False

    def __len__(self) -> int:
        return sum(map(len, self.exemplars))

    @property
    def bytes(self) -> int:
        """Size in memory, nearly; a bag that several exemplars share counts once."""
        bags = {id(one.bag): one.bag.nbytes for one in self.exemplars}
        return bytes_of(self.pool) + sum(bags.values())


def bytes_of(pool: InstancePool) -> int:
    """Size of a pool in memory, nearly."""
    return int(sum(map(len, pool.values)) if pool.kind == "text" else pool.values.nbytes)


def embedded(verifier: "Verifier", pools: Sequence[InstancePool], progress: Progress | None = None) -> list[Features]:
    """The features of several pools, embedded in one go."""
    values = pools[0].values if len(pools) == 1 else np.concatenate([pool.values for pool in pools])
    if verifier.backbone.is_identity:
        features = values
    else:
        pool = pools[0] if len(pools) == 1 else InstancePool(pools[0].kind, values)
        features = embed_instances(verifier.backbone, pool, np.arange(len(pool)), progress)
    borders = csr.borders([len(pool) for pool in pools])
    return [features[first:last] for first, last in pairwise(borders)]


def verify_together(
    verifier: "Verifier", requests: Sequence[ReadRequest], progress: Progress | None = None
) -> list[list[dict[str, Any]]]:
    """The documents of the verdicts, one list per request; ``progress`` may raise to end the work early."""
    features = embedded(verifier, [request.pool for request in requests], progress)
    answers: list[list[dict[str, Any]]] = [[{} for _ in request.exemplars] for request in requests]
    kinds = {(request.by, one.several) for request in requests for one in request.exemplars}
    for by, several in sorted(kinds):
        places = [
            (number, place)
            for number, request in enumerate(requests)
            if request.by == by
            for place, one in enumerate(request.exemplars)
            if one.several == several
        ]
        chosen = [_features_of(requests[number].exemplars[place], features[number]) for number, place in places]
        exemplars = _together(chosen, several=several)
        named = ALONE if len(requests) == 1 and len(requests[0].exemplars) == 1 else GivenPlaces()
        verdicts = decide(verifier, exemplars, by, progress, places=named)
        if by != "none":
            _ = verdicts.scores  # computed at once for all
        for (number, place), verdict in zip(places, verdicts, strict=True):
            answers[number][place] = {**verdict.document(), "size": verdict.size}
        _add_heads(verifier, exemplars, [(requests[number].heads, answers[number][place]) for number, place in places])
    return answers


def _features_of(one: ReadExemplar, features: Features) -> tuple[Features, Features]:
    return features[one.query], one.bag if is_features(one.bag) else features[one.bag]


def is_features(bag: Rows | Features) -> TypeGuard[Features]:
    """Whether a bag is features ``(N, C)``, not rows ``(N,)`` of a pool."""
    return bag.ndim == 2


def _together(chosen: list[tuple[Features, Features]], *, several: bool) -> EmbeddedExemplars:
    def lookup(first: int, last: int) -> tuple[Features, Features]:
        if last == first + 1:
            return chosen[first]
        return np.concatenate([q for q, _ in chosen[first:last]]), np.concatenate([b for _, b in chosen[first:last]])

    reference_ptr = csr.borders([len(query) for query, _ in chosen]) if several else None
    return EmbeddedExemplars(lookup, csr.borders([len(bag) for _, bag in chosen]), reference_ptr)


def _add_heads(verifier: "Verifier", exemplars: EmbeddedExemplars, answers: list[tuple[bool, dict[str, Any]]]) -> None:
    """Add the attention of each head, ``(h, N)``, to the answers that asked for it."""
    for first, last in _runs([wanted for wanted, _ in answers]):
        part = exemplars.part(first, last)
        by_head = attention_by_head(verifier, part)
        for number, (_, answer) in enumerate(answers[first:last]):
            of_bag = None if by_head is None else by_head[part.ptr[number] : part.ptr[number + 1]].T.tolist()
            answer["attention_by_head"] = of_bag


def _runs(wanted: list[bool]) -> Iterator[tuple[int, int]]:
    """The start and stop of each run of true values."""
    first = None
    for place, one in enumerate([*wanted, False]):
        if one and first is None:
            first = place
        elif not one and first is not None:
            yield first, place
            first = None
