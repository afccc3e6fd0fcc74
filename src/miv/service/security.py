"""What every request passes: Host, Origin, token, size and time; and what every answer carries.

Starlette's ``TrustedHostMiddleware`` cannot allow all IP addresses of a machine, and neither Starlette nor uvicorn
limits the size of bodies, the bytes of all requests or the time of one.
"""

import asyncio
import hmac
import logging
import re
import time
from collections.abc import Awaitable
from contextlib import suppress
from ipaddress import ip_address
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from miv.service.errors import RefusedRequest, error_response
from miv.service.metrics import REQUESTS, ServiceMetrics
from miv.service.settings import ServiceSettings

logger = logging.getLogger(__name__)
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_METHODS = _SAFE | {"POST", "PUT", "DELETE", "PATCH"}
_NO_TOKEN = frozenset({"/", "/healthz", "/readyz", "/openapi.json"})  # and /page/…
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::[0-9]{0,5})?")
_CLIENT_GONE = 499  # in the log: the client left before the answer, as nginx counts it
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "media-src 'self' blob:; font-src 'self'; connect-src 'self'; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "camera=(self), microphone=(), geolocation=(), payment=(), usb=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class AccessRules:
    """Who may ask: Host against DNS rebinding, Origin against pages of other sites, and the token."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._hosts, self._any_address = settings.hosts, settings.listens_everywhere
        self._token = None if settings.token is None else settings.token.encode()

    def check(self, method: str, path: str, headers: Headers) -> None:
        hosts = headers.getlist("host")
        name = host_name(hosts[0]) if len(hosts) == 1 else ""
        # An address needs no DNS, so nobody can rebind it.
        if name not in self._hosts and not (self._any_address and _is_address(name)):
            remedy = f"Start the service with --allowed-host {name} to allow it." if name else "Expected one name."
            shown = ", ".join(hosts)[:100]
            raise RefusedRequest(400, f"The header Host is {shown!r}, which is not a name of this service. {remedy}")
        is_read_by_others = path.startswith("/v1/") and headers.get("sec-fetch-site") == "cross-site"
        if is_read_by_others or (method not in _SAFE and not _is_same_site(headers, hosts[0].lower())):
            raise RefusedRequest(403, "The request comes from a page of another site, which is not allowed.")
        if self._token is None or path in _NO_TOKEN or path.startswith("/page/"):
            return
        values = headers.getlist("authorization")
        scheme, _, token = (values[0] if len(values) == 1 else "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(token.strip().encode("latin-1"), self._token):
            raise RefusedRequest(401, "The token is missing or wrong. Send the header Authorization: Bearer TOKEN.")


def host_name(host: str) -> str:
    """The name in a header Host, without its port; empty if it is anything else."""
    match = _HOST.fullmatch(host)
    return (match[1] or match[2]).lower() if match else ""


def _is_address(name: str) -> bool:
    with suppress(ValueError):
        return bool(ip_address(name).version)
    return False


def _is_same_site(headers: Headers, host: str) -> bool:
    """Whether a request that changes something comes from our own page, or not from a browser."""
    if headers.get("sec-fetch-site", "none") not in {"same-origin", "none"}:
        return False
    return all(origin.lower() in {f"http://{host}", f"https://{host}"} for origin in headers.getlist("origin"))


class ClientGone(Exception):  # noqa: N818 - named after what happened
    """The client closed the connection before the answer."""


class ByteBudget:
    """The bytes of all requests that are not answered yet; requests beyond ``most`` are refused with 503."""

    def __init__(self, most: int) -> None:
        self._most, self._now = most, 0

    def add(self, count: int) -> None:
        """Count bytes that arrived, or with a negative number those that are free again."""
        if count > 0 and self._now + count > self._most:
            raise RefusedRequest(503, "The service is busy with other requests. Try again later.")
        self._now += count


class LimitedBody:
    """Receives at most ``most`` bytes, also of a body without a length, and ends the work if the client leaves."""

    def __init__(self, receive: Receive, most: int, total: ByteBudget) -> None:
        self._receive, self._most, self._total = receive, most, total
        self.bytes = 0
        self._watcher: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_gone = False

    def check_length(self, headers: Headers) -> None:
        """Refuse a body whose stated length is too large, before it is read; uvicorn requires a number."""
        if int(headers.get("content-length", 0)) > self._most:
            raise self._too_large()

    async def receive(self) -> Message:
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
        """Wait for the work, but end it if the client leaves; free the bytes of the body."""
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
            self._total.add(-self.bytes)
            if self._watcher is not None:
                self._watcher.cancel()

    async def _watch(self) -> None:
        message = await self._receive()
        if message["type"] == "http.disconnect" and self._task is not None:
            self._is_gone = True
            self._task.cancel()

    def _too_large(self) -> RefusedRequest:
        return RefusedRequest(413, f"The request is larger than {self._most:,} bytes. Send less at once.")


class RequestGuard:
    """ASGI middleware around all routes."""

    def __init__(self, app: ASGIApp, settings: ServiceSettings, metrics: ServiceMetrics) -> None:
        self.app, self._limits, self._metrics = app, settings.limits, metrics
        self._rules = AccessRules(settings)
        self._arriving = ByteBudget(settings.limits.bytes_in_all)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = _Answer(send)
        start, headers = time.perf_counter(), Headers(scope=scope)
        body = LimitedBody(receive, self._limits.bytes, self._arriving)
        try:
            self._rules.check(scope["method"], scope["path"], headers)
            body.check_length(headers)
            async with asyncio.timeout(self._limits.seconds):
                await body.answering(self.app(scope, body.receive, answer.send))
        except ClientGone:
            answer.status = _CLIENT_GONE
        except RefusedRequest as error:
            await answer.refuse(scope, error.status, str(error))
        except TimeoutError:
            message = f"The request took longer than {self._limits.seconds:g} seconds. Send less, or try again later."
            if scope["method"] in {"PUT", "DELETE"} or scope["path"] == "/v1/galleries":
                message += " The change may have been applied anyway. Check before retrying."
            await answer.refuse(scope, 503, message)
        except Exception:
            logger.exception("failure", extra={"fields": {"request": answer.id}})
            await answer.refuse(scope, 500, "The service failed. Its log says where; please report it.")
        finally:
            self._record(scope, answer, body.bytes, time.perf_counter() - start)

    def _record(self, scope: Scope, answer: "_Answer", received: int, seconds: float) -> None:
        """Log and count the request, by the template of its route: the address itself may name things."""
        route = getattr(scope.get("route"), "path", "unknown")
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._metrics.requests.labels(method, route, str(answer.status)).inc()
        self._metrics.seconds.labels(route).observe(seconds)
        self._metrics.received.labels(route).inc(received)
        fields = {"request": answer.id, "method": method, "route": route, "status": answer.status}
        fields |= {"ms": round(1000 * seconds, 2), "received": received, "sent": answer.bytes}
        REQUESTS.info("request", extra={"fields": {**fields, "model": scope.get("state", {}).get("model")}})


class _Answer:
    """Sends an answer with the headers of all answers, and remembers what was sent."""

    def __init__(self, send: Send) -> None:
        self._send, self.id = send, uuid4().hex[:16]
        self.status, self.bytes, self._has_started = 0, 0, False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._has_started, self.status = True, message["status"]
            headers = MutableHeaders(scope=message)
            headers.update({**_HEADERS, "X-Request-Id": self.id})
            headers.setdefault("Cache-Control", "no-store")
        self.bytes += len(message.get("body", b""))
        await self._send(message)

    async def refuse(self, scope: Scope, status: int, message: str) -> None:
        """Answer with an error, if nothing was sent yet."""
        if self._has_started:
            self.status = status  # for the log; the connection is cut
            return
        response = error_response(status, message)
        if status != 401 and scope["method"] not in {"GET", "HEAD"}:
            response.headers["Connection"] = "close"  # the rest of the body is not read
        await response(scope, _no_more, self.send)


async def _no_more() -> Message:
    return {"type": "http.disconnect"}
