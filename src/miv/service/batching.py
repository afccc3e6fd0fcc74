"""One thread per model: requests that wait while it works are batched, and short ones do not wait for long ones."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from miv.data import InstancePool, csr
from miv.runtime import pausing
from miv.service.errors import RefusedRequest
from miv.service.settings import Limits
from miv.verifier.engine import EmbeddedExemplars, attention_by_head, decide, foreign_of
from miv.verifier.network import Verifier
from miv.verifier.reading import ALONE, ErrorLocations
from miv.verifier.verdict import WitnessMethod
from miv.verifier.verifying import embedded

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ReadExemplar:
    """One exemplar of a request."""

    query: Rows  # (R,) of the request's pool
    several: bool  # whether the query was given as a list of references
    bag: Rows  # (N,)

    def __len__(self) -> int:
        return len(self.query) + len(self.bag)


@dataclass(frozen=True, eq=False)
class ReadRequest:
    """A verify request, converted and checked: its distinct instances, and its exemplars as rows of them."""

    pool: InstancePool
    exemplars: Sequence[ReadExemplar]
    by: WitnessMethod
    heads: bool = False
    is_long: bool = False  # whether it takes more than some tenths of a second

    def __len__(self) -> int:
        return sum(map(len, self.exemplars))

    @property
    def bytes(self) -> int:
        return bytes_of(self.pool) + sum(exemplar.bag.nbytes for exemplar in self.exemplars)


def bytes_of(pool: InstancePool) -> int:
    """Approximate size of a pool in memory."""
    return int(sum(map(len, pool.values)) if pool.kind == "text" else pool.values.nbytes)


def verify_batch(verifier: Verifier, requests: Sequence[ReadRequest]) -> list[list[dict[str, Any]]]:
    """The documents of the verdicts, one list per request; all instances are embedded together."""
    pool = InstancePool(requests[0].pool.kind, np.concatenate([request.pool.values for request in requests]))
    features, foreign = embedded(verifier.backbone, pool), foreign_of(verifier, pool)
    first_row = csr.borders([len(request.pool) for request in requests])
    answers: list[list[dict[str, Any]]] = [[{} for _ in request.exemplars] for request in requests]
    locations = ALONE if len(requests) == 1 and len(requests[0].exemplars) == 1 else ErrorLocations()
    groups: dict[tuple[WitnessMethod, bool], list[tuple[int, int]]] = {}  # what can be decided in one call
    for number, request in enumerate(requests):
        for place, exemplar in enumerate(request.exemplars):
            groups.setdefault((request.by, exemplar.several), []).append((number, place))
    for (by, several), members in sorted(groups.items()):
        chosen = [(requests[number].exemplars[place], first_row[number]) for number, place in members]
        queries, bags = [one.query + row for one, row in chosen], [one.bag + row for one, row in chosen]
        ptr, query_ptr = csr.borders(list(map(len, bags))), csr.borders(list(map(len, queries))) if several else None
        rows = np.concatenate(queries), np.concatenate(bags)
        exemplars = EmbeddedExemplars(features, *rows, ptr, query_ptr, foreign)
        verdicts = decide(verifier, exemplars, by, places=locations)
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


Work = ReadRequest | Callable[[], Any]
_LONG_SHARE = 4  # of the waiting requests, one in so many may be long


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


class _Queue:
    """Jobs that wait: at most so many, with so many bytes; ``together`` instances make a batch, or 0 for one job."""

    def __init__(self, most: int, most_bytes: int, together: int) -> None:
        self.jobs: deque[_Job] = deque()
        self.most, self.most_bytes, self.together, self.bytes = most, most_bytes, together, 0

    def add(self, job: _Job) -> None:
        if job.size > self.most_bytes:
            most = f"Expected at most {self.most_bytes:,}"
            raise RefusedRequest(413, f"The request needs {job.size:,} bytes of memory. {most}.")
        if len(self.jobs) >= self.most or self.bytes + job.size > self.most_bytes:
            raise RefusedRequest(503, f"The service is busy: {len(self.jobs)} requests wait. Try again later.")
        self.jobs.append(job)
        self.bytes += job.size

    def next_batch(self) -> list[_Job]:
        """The first job, and the requests behind it as long as they fit; jobs whose callers are gone are dropped."""
        batch: list[_Job] = []
        instances = 0
        while self.jobs:
            job = self.jobs[0]
            if not job.future.cancelled():
                size = len(job.work) if isinstance(job.work, ReadRequest) else self.together
                if batch and (instances + size > self.together or not self.together):
                    break
                batch.append(job)
                instances += size
            self.jobs.popleft()
            self.bytes -= job.size
        return batch


class RequestBatcher:
    """Runs the work of one model in one thread; the limits are those of ``Limits``.

    Short work runs in the order of arrival, batched. Long work runs one by one; short work that waits is done between
    its steps, so that one request cannot stop the others. Work that nobody waits for any more ends at its next step.

    ``verify`` answers the requests of a batch. ``waits`` is called with the number of waiting requests whenever it
    changes, and ``taken`` with the number of requests of each batch.
    """

    def __init__(
        self,
        verify: Callable[[Sequence[ReadRequest]], list[Any]],
        name: str,
        limits: Limits,
        threads: int = 1,
        waits: Callable[[int], None] = lambda count: None,
        taken: Callable[[int], None] = lambda count: None,
    ) -> None:
        self._verify, self._threads, self._waits, self._taken = verify, threads, waits, taken
        most, most_bytes = limits.waiting_requests, limits.waiting_bytes
        self._short = _Queue(most, most_bytes, limits.together)
        self._long = _Queue(max(1, most // _LONG_SHARE), most_bytes, 0)
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._work, name=f"model {name}", daemon=True)
        self._thread.start()

    async def run(self, work: Work, size: int = 0, *, is_long: bool = False) -> Any:
        """Run work of ``size`` bytes in the model's thread: a request, perhaps with others, or a function alone.

        A function that writes is long: it must not run between the steps of another.
        """
        job = _Job(work, size)
        with self._changed:
            if self._stopped:
                raise RefusedRequest(503, "The service is stopping. Try again later.")
            (self._long if is_long or (isinstance(work, ReadRequest) and work.is_long) else self._short).add(job)
            self._count_waiting()
            self._changed.notify()
        return await asyncio.wrap_future(job.future)

    def stop(self, seconds: float = 10.0) -> None:
        """End the thread after the waiting work, which has this many seconds."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join(seconds)

    def _work(self) -> None:
        torch.set_num_threads(self._threads)
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._short.jobs or self._long.jobs or self._stopped)
                if not (self._short.jobs or self._long.jobs):
                    return
            for queue in (self._short, self._long):  # in turn, so that neither waits for ever
                self._answer(self._next_batch(queue), is_long=queue is self._long)

    def _count_waiting(self) -> None:
        self._waits(len(self._short.jobs) + len(self._long.jobs))

    def _next_batch(self, queue: _Queue) -> list[_Job]:
        with self._changed:
            batch = queue.next_batch()
            self._count_waiting()
        return batch

    def _answer(self, batch: list[_Job], *, is_long: bool = False) -> None:
        if not batch:
            return
        self._taken(len(batch))

        def between_steps() -> None:
            if all(job.future.cancelled() for job in batch):
                raise NobodyWaits
            if is_long:
                self._answer(self._next_batch(self._short))

        try:
            requests = [job.work for job in batch if isinstance(job.work, ReadRequest)]
            work = batch[0].work
            with pausing(between_steps):
                answers = [work()] if callable(work) else self._verify(requests)
        except NobodyWaits:
            return
        except Exception as error:
            if len(batch) > 1:
                for job in batch:  # one of them is at fault: only that one shall fail
                    self._answer([job])
                return
            answers = [error]
        for job, answer in zip(batch, answers, strict=True):
            job.finish(answer)


class NobodyWaits(Exception):  # noqa: N818 - named after what happened
    """All clients that work was done for have left."""
