"""The body of a request while it arrives: its size is limited, and the work ends if the client leaves."""

import asyncio
from collections.abc import Awaitable

from starlette.datastructures import Headers
from starlette.types import Message, Receive

from miv.service.refusals import RefusedRequest


class ClientGone(Exception):  # noqa: N818 - named after what happened
    """The client closed the connection before the answer."""


class ArrivingBytes:
    """The bytes of all requests that are not answered yet.

    Args:
        most: maximum number; requests beyond it are refused with 503.
    """

    def __init__(self, most: int) -> None:
        self._most, self._now = most, 0

    def add(self, count: int) -> None:
        """Count bytes that arrived."""
        if count > 0 and self._now + count > self._most:
            raise RefusedRequest(503, "The service is busy with other requests. Try again later.")
        self._now += count


class ArrivingBody:
    """Counts bytes, also of a body without a length, and watches the connection once the body has arrived.

    Args:
        receive: receives the parts of the body.
        most: maximum size in bytes.
        total: the bytes of all requests.
    """

    def __init__(self, receive: Receive, most: int, total: ArrivingBytes) -> None:
        self._receive, self._most, self._total = receive, most, total
        self.bytes = 0
        self._watcher: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_gone = False

    def check_length(self, headers: Headers) -> None:
        """Refuse a body whose stated length is too large, before it is read."""
        for length in headers.getlist("content-length"):
            if not (length.isascii() and length.isdigit()) or len(length) > 15 or int(length) > self._most:
                raise self._too_large()

    async def receive(self) -> Message:
        """The next part of the body."""
        if self._watcher is not None:  # a second reader would take the message away from the watcher
            await self._watcher
            return {"type": "http.disconnect"}
        message = await self._receive()
        count = len(message.get("body", b""))
        if self.bytes + count > self._most:
            raise self._too_large()
        self._total.add(count)
        self.bytes += count
        if message["type"] == "http.disconnect":
            raise ClientGone
        if not message.get("more_body", False) and self.bytes:
            self._watcher = asyncio.create_task(self._watch())
        return message

    async def answering(self, work: Awaitable[None]) -> None:
        """Wait for the work, but end it if the client leaves."""
        self._task = asyncio.current_task()
        try:
            await work
        except asyncio.CancelledError:
            if self._is_gone and self._task is not None:
                self._task.uncancel()
                raise ClientGone from None
            raise
        finally:
            self._task = None
            if self._watcher is not None:
                self._watcher.cancel()

    def close(self) -> None:
        """Forget the body: the request is answered."""
        self._total.add(-self.bytes)

    async def _watch(self) -> None:
        message = await self._receive()
        if message["type"] == "http.disconnect" and self._task is not None:
            self._is_gone = True
            self._task.cancel()

    def _too_large(self) -> RefusedRequest:
        return RefusedRequest(413, f"The request is larger than {self._most:,} bytes. Send less at once.")
