"""One thread per model: requests that wait while it works are batched."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.backbones.cache import embed_instances
from miv.data import InstancePool, csr
from miv.runtime import Advance, Progress
from miv.service.errors import RefusedRequest
from miv.service.settings import Limits
from miv.verifier.engine import EmbeddedExemplars, attention_by_head, decide
from miv.verifier.network import Verifier
from miv.verifier.reading import ALONE, ErrorLocations
from miv.verifier.verdict import WitnessMethod

Rows = NDArray[np.int64]
Features = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class ReadExemplar:
    """One exemplar of a request."""

    query: Rows  # (R,) of the request's pool
    several: bool  # whether the query was given as a list of references
    bag: Rows | Features  # (N,) rows of the pool, or features (N, C) that were embedded before

    def __len__(self) -> int:
        return len(self.query) + len(self.bag)


@dataclass(frozen=True, eq=False)
class ReadRequest:
    """A verify request, converted and checked: its distinct instances, and its exemplars as rows of them."""

    pool: InstancePool
    exemplars: Sequence[ReadExemplar]
    by: WitnessMethod
    heads: bool = False

    def __len__(self) -> int:
        return sum(map(len, self.exemplars))

    @property
    def bytes(self) -> int:
        """Approximate size in memory; a bag that several exemplars share counts once."""
        bags = {id(exemplar.bag): exemplar.bag.nbytes for exemplar in self.exemplars}
        return bytes_of(self.pool) + sum(bags.values())


def bytes_of(pool: InstancePool) -> int:
    """Approximate size of a pool in memory."""
    return int(sum(map(len, pool.values)) if pool.kind == "text" else pool.values.nbytes)


def embedded(verifier: Verifier, pools: Sequence[InstancePool], progress: Progress | None = None) -> list[Features]:
    """The features of each pool, computed in one batch."""
    pool = InstancePool(pools[0].kind, np.concatenate([pool.values for pool in pools]))
    is_identity = verifier.backbone.is_identity
    features = pool.values if is_identity else embed_instances(verifier.backbone, pool, np.arange(len(pool)), progress)
    return [features[first:last] for first, last in pairwise(csr.borders([len(pool) for pool in pools]))]


def verify_batch(
    verifier: Verifier, requests: Sequence[ReadRequest], progress: Progress | None = None
) -> list[list[dict[str, Any]]]:
    """The documents of the verdicts, one list per request; ``progress`` may raise to end the work early."""
    features = embedded(verifier, [request.pool for request in requests], progress)
    answers: list[list[dict[str, Any]]] = [[{} for _ in request.exemplars] for request in requests]
    locations = ALONE if len(requests) == 1 and len(requests[0].exemplars) == 1 else ErrorLocations()
    groups: dict[tuple[WitnessMethod, bool], list[tuple[int, int]]] = {}  # what can be decided in one call
    for number, request in enumerate(requests):
        for place, exemplar in enumerate(request.exemplars):
            groups.setdefault((request.by, exemplar.several), []).append((number, place))
    for (by, several), members in sorted(groups.items()):
        chosen = [(requests[number].exemplars[place], features[number]) for number, place in members]
        bags: list[Any] = [one.bag if one.bag.ndim == 2 else pool[one.bag] for one, pool in chosen]
        exemplars = _joined([pool[one.query] for one, pool in chosen], bags, several)
        verdicts = decide(verifier, exemplars, by, progress, places=locations)
        if by != "none":
            _ = verdicts.scores  # computed at once for all
        for (number, place), verdict in zip(members, verdicts, strict=True):
            answers[number][place] = {**verdict.document(), "size": verdict.size}
        if any(requests[number].heads for number, _ in members):
            by_head = attention_by_head(verifier, exemplars)
            for (number, place), (first, last) in zip(members, pairwise(exemplars.ptr), strict=True):
                if requests[number].heads:
                    heads = None if by_head is None else by_head[first:last].T.tolist()  # (h, N)
                    answers[number][place]["attention_by_head"] = heads
    return answers


def _joined(queries: list[Features], bags: list[Features], several: bool) -> EmbeddedExemplars:
    query_ptr, ptr = (csr.borders([len(part) for part in parts]) for parts in (queries, bags))
    places = np.arange(query_ptr[-1]), query_ptr[-1] + np.arange(ptr[-1])
    return EmbeddedExemplars.among(np.concatenate([*queries, *bags]), *places, ptr, query_ptr if several else None)


Work = ReadRequest | Callable[[], Any]


@dataclass(eq=False)
class _Job:
    work: Work
    size: int  # bytes
    future: "Future[Any]" = field(default_factory=Future)  # never "running", so that it can always be cancelled

    def finish(self, answer: Any) -> None:
        with suppress(InvalidStateError):  # its client left
            if isinstance(answer, Exception):
                self.future.set_exception(answer)
            else:
                self.future.set_result(answer)


class RequestBatcher:
    """Runs the work of one model, in the order of arrival, in one thread; the limits are those of ``Limits``.

    ``verify`` answers the requests of a batch. ``start`` is called first in the thread, ``waits`` with the number of
    waiting requests whenever it changes, and ``taken`` with the number of requests of each batch.
    """

    def __init__(
        self,
        verify: Callable[[Sequence[ReadRequest], Progress], list[Any]],
        name: str,
        limits: Limits,
        start: Callable[[], None] = lambda: None,
        waits: Callable[[int], None] = lambda count: None,
        taken: Callable[[int], None] = lambda count: None,
    ) -> None:
        self._verify, self._start, self._waits, self._taken = verify, start, waits, taken
        self._most, self._most_bytes, self._together = limits.waiting_requests, limits.waiting_bytes, limits.together
        self._jobs: deque[_Job] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._work, name=f"model {name}", daemon=True)
        self._thread.start()

    async def run(self, work: Work, size: int = 0) -> Any:
        """Run work of ``size`` bytes in the model's thread: a request, perhaps with others, or a function alone."""
        job = _Job(work, size)
        with self._changed:
            if self._stopped:
                raise RefusedRequest(503, "The service is stopping. Try again later.")
            if size > self._most_bytes:
                most = self._most_bytes
                raise RefusedRequest(413, f"The request needs {size:,} bytes of memory. Expected at most {most:,}.")
            if len(self._jobs) >= self._most or self._bytes + size > self._most_bytes:
                raise RefusedRequest(503, f"The service is busy: {len(self._jobs)} requests wait. Try again later.")
            self._jobs.append(job)
            self._bytes += size
            self._waits(len(self._jobs))
            self._changed.notify()
        return await asyncio.wrap_future(job.future)

    def stop(self, seconds: float = 10.0) -> None:
        """End the thread after the waiting work, which has this many seconds."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join(seconds)

    def _work(self) -> None:
        self._start()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs or self._stopped)
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
            requests = [job.work for job in batch if isinstance(job.work, ReadRequest)]
            work = batch[0].work
            answers = [work()] if callable(work) else self._verify(requests, _WhileClientsWait(batch))
        except _NobodyWaits:
            return
        except Exception as error:
            if len(batch) > 1:
                for job in batch:  # one of them is at fault: only that one shall fail
                    self._answer([job])
                return
            answers = [error]
        for job, answer in zip(batch, answers, strict=True):
            job.finish(answer)


class _NobodyWaits(Exception):  # noqa: N818 - named after what happened
    """All clients of a batch have left."""


class _WhileClientsWait:
    """Progress that ends the work of a batch when no client waits for it any more."""

    def __init__(self, batch: list[_Job]) -> None:
        self._batch = batch

    @contextmanager
    def step(self, text: str, total: int | None = None) -> Iterator[Advance]:
        """Check after every part of a step."""
        yield self._check

    def _check(self, units: int) -> None:
        if all(job.future.cancelled() for job in self._batch):
            raise _NobodyWaits
