"""A body is counted while it arrives, and work ends if its client leaves."""

import asyncio

import pytest
from starlette.types import Message

from miv.service.errors import RefusedRequest
from miv.service.security import ByteBudget, ClientGone, LimitedBody


def body_of(*messages: Message, most: int = 100, total: int = 1_000) -> tuple[LimitedBody, ByteBudget]:
    coming = list(messages)

    async def receive() -> Message:
        await asyncio.sleep(0.01)
        return coming.pop(0) if coming else await asyncio.Event().wait()  # type: ignore[return-value]

    counted = ByteBudget(total)
    return LimitedBody(receive, most, counted), counted


def part(size: int, *, more: bool = False) -> Message:
    return {"type": "http.request", "body": b"x" * size, "more_body": more}


GONE: Message = {"type": "http.disconnect"}
pytestmark = pytest.mark.anyio


async def test_work_is_cancelled_when_the_client_leaves() -> None:
    body, _ = body_of(part(10), GONE)
    was_cancelled = False

    async def work() -> None:
        nonlocal was_cancelled
        await body.receive()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            was_cancelled = True
            raise

    with pytest.raises(ClientGone):
        await body.answering(work())
    assert was_cancelled
    await asyncio.sleep(0)  # the task itself goes on


async def _read(body: LimitedBody) -> None:
    while (await body.receive()).get("more_body"):
        pass


@pytest.mark.parametrize(("total", "words", "status", "read"), [(1_000, "100 bytes", 413, 90), (70, "busy", 503, 60)])
async def test_too_much_is_refused_as_it_arrives(total: int, words: str, status: int, read: int) -> None:
    body, budget = body_of(*[part(30, more=True)] * 4, total=total)
    with pytest.raises(RefusedRequest, match=words) as refused:
        await body.answering(_read(body))
    assert (refused.value.status, body.bytes) == (status, read)
    budget.add(total)  # the bytes of the refused request are free again
