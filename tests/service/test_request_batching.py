"""Requests that wait are verified together; what one does wrong does not reach the others."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from miv.data import InstancePool
from miv.errors import MIVError
from miv.runtime import pause
from miv.service import Limits
from miv.service.batching import ReadExemplar, ReadRequest, RequestBatcher, verify_batch
from miv.service.bodies import VerifyRequest
from miv.service.errors import RefusedRequest
from miv.service.reading import read_exemplars
from miv.verifier.network import Verifier
from tests.service.serving import CHANNELS, vector_exemplars

pytestmark = pytest.mark.anyio


def asked(number: int, size: int = 1) -> ReadRequest:
    pool = InstancePool("features", np.full((1, 2), number, np.float32))
    return ReadRequest(pool, [ReadExemplar(np.array([0]), False, np.zeros(size, int))], "none")


class Recorded:
    """Verifies by returning the number of each request, once it may; a negative number is an error."""

    def __init__(self, error: type[Exception] = MIVError, **options: Any) -> None:
        self.error = error
        self.may_run, self.batches = threading.Event(), list[list[int]]()
        limits = Limits(**{"waiting_requests": 100, "waiting_bytes": 1_000, "together": 100, **options})
        self.batcher = RequestBatcher(self.verify, "test", limits)

    def verify(self, requests: Sequence[ReadRequest]) -> list[int]:
        numbers = [int(one.pool.values[0, 0]) for one in requests]
        self.may_run.wait(10)
        pause()
        self.batches.append(numbers)
        if min(numbers) < 0:
            raise self.error("A number is negative.")
        return numbers

    async def start(self, *works: Any, size: int = 1, is_long: bool = False) -> list["asyncio.Task[Any]"]:
        """Start the first work alone, so that the others wait behind it."""
        tasks = []
        for work in works:
            tasks.append(asyncio.create_task(self.batcher.run(work, size, is_long=is_long)))
            await asyncio.sleep(0.05 if len(tasks) == 1 else 0)
        return tasks


async def test_batches_are_bounded_and_functions_run_alone_in_order() -> None:
    recorded = Recorded(together=6)  # a request counts its query and its bag
    tasks = await recorded.start(
        asked(0), asked(1), asked(2), asked(3), asked(4), lambda: "done", asked(5), asked(6, size=50)
    )
    recorded.may_run.set()
    assert await asyncio.gather(*tasks) == [0, 1, 2, 3, 4, "done", 5, 6]
    assert recorded.batches == [[0], [1, 2, 3], [4], [5], [6]]


@pytest.mark.parametrize("error", [MIVError, RuntimeError])
async def test_only_the_request_at_fault_fails(error: type[Exception]) -> None:
    recorded = Recorded(error)
    tasks = await recorded.start(asked(0), asked(1), asked(-1), asked(2))
    recorded.may_run.set()
    first, second, bad, third = await asyncio.gather(*tasks, return_exceptions=True)
    assert (first, second, third) == (0, 1, 2)
    assert isinstance(bad, error)


async def test_a_full_queue_refuses_and_then_recovers() -> None:
    recorded = Recorded(waiting_requests=2, waiting_bytes=100)
    with pytest.raises(RefusedRequest, match="101 bytes"):  # never fits
        await recorded.batcher.run(asked(0), size=101)
    tasks = await recorded.start(asked(0), asked(1), asked(2))
    with pytest.raises(RefusedRequest, match="busy") as refused:
        await recorded.batcher.run(asked(3))
    assert refused.value.status == 503
    recorded.may_run.set()
    assert await asyncio.gather(*tasks) == [0, 1, 2]
    recorded.may_run.clear()
    tasks = await recorded.start(asked(4), asked(5), size=90)
    with pytest.raises(RefusedRequest):
        await recorded.batcher.run(asked(6), size=20)
    recorded.may_run.set()
    assert await asyncio.gather(*tasks) == [4, 5]
    recorded.batcher.stop()
    with pytest.raises(RefusedRequest, match="stopping"):
        await recorded.batcher.run(asked(7))


async def test_work_of_clients_that_left_ends_or_is_dropped() -> None:
    recorded = Recorded()
    tasks = await recorded.start(asked(0), asked(1), asked(2))
    tasks[0].cancel()  # it runs
    tasks[1].cancel()  # it waits
    await asyncio.sleep(0)
    recorded.may_run.set()
    assert await tasks[2] == 2
    assert recorded.batches == [[2]]


async def test_short_requests_are_answered_between_the_steps_of_long_work() -> None:
    recorded = Recorded()
    recorded.may_run.set()
    done: list[str] = []
    go_on = [threading.Event() for _ in range(2)]

    def long_work() -> str:
        for event in go_on:
            event.wait(10)
            pause()
        done.append("long")
        return "long"

    [task, second, third] = await recorded.start(long_work, long_work, lambda: "third", is_long=True)
    short = [asyncio.create_task(recorded.batcher.run(asked(number))) for number in range(3)]
    await asyncio.sleep(0.05)
    go_on[0].set()
    assert await asyncio.gather(*short) == [0, 1, 2]
    assert (done, recorded.batches) == ([], [[0, 1, 2]])  # the first goes on, and the second waits
    task.cancel()
    await asyncio.sleep(0)
    go_on[1].set()
    assert (await second, await third) == ("long", "third")
    assert done == ["long"]  # the first ended at its next step


async def test_long_work_leaves_room_for_short_requests() -> None:
    recorded = Recorded(waiting_requests=4)  # one of them long
    tasks = await recorded.start(asked(0), lambda: "first", is_long=True)
    with pytest.raises(RefusedRequest, match="busy"):
        await recorded.batcher.run(lambda: "second", is_long=True)
    short = await recorded.start(asked(1), asked(2))
    recorded.may_run.set()
    assert await asyncio.gather(*tasks, *short) == [0, "first", 1, 2]


def test_together_means_the_same_as_alone() -> None:
    torch.manual_seed(0)
    verifier = Verifier("cap_dba_l2", channels=CHANNELS, pooling_options={"heads": 2}).eval()
    requests, every = [], [("heads", False), ("heads", True), ("witnesses", "none"), ("witnesses", "leave_one_out")]
    for seed, (option, value) in enumerate(every * 2):
        exemplars = vector_exemplars(2, size=3 + seed, seed=seed)
        if seed > 3:
            exemplars[0] = {**exemplars[0], "query": [one["query"] for one in exemplars]}  # references
        body = VerifyRequest.model_validate({"exemplars": exemplars, option: value})
        requests.append(read_exemplars(verifier, Limits(), body))
    together = verify_batch(verifier, requests)
    for answers, request in zip(together, requests, strict=True):
        alone = verify_batch(verifier, [request])[0]
        for one, other in zip(answers, alone, strict=True):
            assert one.keys() == other.keys()
            for key in ("probability", "shares", "attention", "scores", "matches", "attention_by_head"):
                if one.get(key) is not None:
                    assert np.allclose(one[key], other[key], atol=1e-6), key
            assert (one["decision"], one["size"]) == (other["decision"], other["size"])
