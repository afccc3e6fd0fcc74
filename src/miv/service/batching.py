"""One thread per model: requests that wait while it works are batched.

LitServe batches by the number of requests and a timeout, not by their instances, in processes of its own that a queue
feeds with pickled requests.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from miv.backbones.cache import embed_instances
from miv.data import InstancePool, csr
from miv.runtime import Advance, Progress
from miv.service.errors import RefusedRequest
from miv.verifier.engine import EmbeddedExemplars, attention_by_head, decide
from miv.verifier.reading import ALONE, GivenPlaces
from miv.verifier.verdict import Asked

if TYPE_CHECKING:
    from miv.verifier.network import Verifier


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


def verify_batch(
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


Work = ReadRequest | Callable[[], Any]


@dataclass(eq=False)
class _Job:
    work: Work
    size: int  # bytes
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Any]"


class RequestBatcher:
    """Runs the work of one model, in the order of arrival, in one thread.

    Args:
        verify: verifies the requests of a batch; returns one answer each. It reports its progress, which ends the work
            if no client of the batch waits any more.
        name: name of the thread.
        waiting_requests: maximum number of requests that wait; more are refused with 503.
        waiting_bytes: maximum size of the requests that wait.
        together: maximum number of instances in a batch of several requests.
        start: called in the thread before anything else.
        waits: told how many requests wait, whenever that changes.
        taken: told how many requests are taken together.
    """

    def __init__(
        self,
        verify: Callable[[Sequence[ReadRequest], Progress], list[Any]],
        name: str,
        *,
        waiting_requests: int,
        waiting_bytes: int,
        together: int,
        start: Callable[[], None] = lambda: None,
        waits: Callable[[int], None] = lambda count: None,
        taken: Callable[[int], None] = lambda count: None,
    ) -> None:
        self._verify, self._start, self._waits, self._taken = verify, start, waits, taken
        self._most, self._most_bytes, self._together = waiting_requests, waiting_bytes, together
        self._jobs: deque[_Job] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._work, name=f"model {name}", daemon=True)
        self._thread.start()

    async def run(self, work: Work, size: int = 0) -> Any:
        """Do the work in the model's thread; its answer or its error is this call's.

        Args:
            work: a request, which may be verified together with others, or a function, which is called alone.
            size: bytes that the work holds in memory.

        If the caller is cancelled while the work waits, it is dropped.
        """
        loop = asyncio.get_running_loop()
        job = _Job(work, size, loop, loop.create_future())
        with self._changed:
            if self._stopped:
                raise RefusedRequest(503, "The service is stopping. Try again later.")
            if size > self._most_bytes:
                raise RefusedRequest(
                    413,
                    f"The request needs {size:,} bytes of memory. Expected at most {self._most_bytes:,}: divide it.",
                )
            if len(self._jobs) >= self._most or self._bytes + size > self._most_bytes:
                raise RefusedRequest(503, f"The service is busy: {len(self._jobs)} requests wait. Try again later.")
            self._jobs.append(job)
            self._bytes += size
            self._waits(len(self._jobs))
            self._changed.notify()
        return await job.future

    def stop(self, seconds: float = 10.0) -> None:
        """End the thread after the work that waits; it has so many seconds."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join(seconds)

    def _work(self) -> None:
        self._start()
        while True:
            with self._changed:
                while not self._jobs and not self._stopped:
                    self._changed.wait()
                if not self._jobs:
                    return
                batch = self._next_batch()
                self._waits(len(self._jobs))
            if batch:
                self._answer(batch)

    def _next_batch(self) -> list[_Job]:
        """The first job, and the requests behind it as long as they fit; jobs whose callers are gone are dropped."""
        batch: list[_Job] = []
        instances = 0
        while self._jobs:
            job = self._jobs[0]
            if not job.future.cancelled():
                size = len(job.work) if isinstance(job.work, ReadRequest) else self._together
                if batch and instances + size > self._together:
                    break
                batch.append(job)
                instances += size
            self._jobs.popleft()
            self._bytes -= job.size
        return batch

    def _answer(self, batch: list[_Job]) -> None:
        self._taken(len(batch))
        try:
            first = batch[0].work
            if isinstance(first, ReadRequest):
                requests = [job.work for job in batch if isinstance(job.work, ReadRequest)]
                answers = self._verify(requests, _WhileWanted(batch))
            else:
                answers = [first()]
        except _NobodyWaits:
            return
        except Exception as error:
            if len(batch) > 1:
                for job in batch:  # one of them is at fault: only that one shall fail
                    self._answer([job])
                return
            _deliver(batch, [error] * len(batch))
        else:
            _deliver(batch, answers)


class _NobodyWaits(Exception):  # noqa: N818 - named after what happened
    """All clients of a batch have left, or their time is over."""


class _WhileWanted:
    """Progress that ends the work of a batch when nobody waits for it any more."""

    def __init__(self, batch: list[_Job]) -> None:
        self._batch = batch

    @contextmanager
    def step(self, text: str, total: int | None = None) -> Iterator[Advance]:
        """Check after every part of a step."""
        yield self._check

    def _check(self, units: int) -> None:
        if all(job.future.cancelled() for job in self._batch):
            raise _NobodyWaits


def _deliver(batch: list[_Job], answers: Sequence[Any]) -> None:
    def settle() -> None:
        for job, answer in zip(batch, answers, strict=True):
            if job.future.done():  # cancelled
                continue
            if isinstance(answer, Exception):
                job.future.set_exception(answer)
            else:
                job.future.set_result(answer)

    with suppress(RuntimeError):  # the loop is closed: nobody waits
        batch[0].loop.call_soon_threadsafe(settle)
