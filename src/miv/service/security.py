"""What every request passes: Host, Origin, token, size and time; and what every answer carries."""

import asyncio
import hmac
import logging
import time
from collections.abc import Awaitable
from ipaddress import ip_address
from urllib.parse import urlsplit
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from miv.service.errors import RefusedRequest, error_page, error_response
from miv.service.metrics import log_request
from miv.service.settings import ServiceSettings
from miv.service.state import RunningService

logger = logging.getLogger(__name__)


_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_LONGEST_HOST = 100  # characters that are shown
_NO_TOKEN = frozenset({"/", "/healthz", "/readyz", "/openapi.json", "/favicon.ico"})  # and /page/…


class UnknownHost(RefusedRequest):
    """A request for a name that is not one of this service."""

    def __init__(self, hosts: list[str]) -> None:
        name = host_name(hosts[0]) if len(hosts) == 1 else ""
        given = ", ".join(hosts)[:_LONGEST_HOST]
        todo = f"To be reached so, start the service with --allowed-host {name}." if name else "Expected one name."
        super().__init__(400, f"The header Host is {given!r}, which is not a name of this service. {todo}")


class AccessRules:
    """The rules of one service.

    Args:
        settings: its settings, for the names it is reached by and its token.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self._hosts, self._any_address = settings.hosts, settings.listens_everywhere
        self._token = None if settings.token is None else settings.token.encode()

    def check(self, method: str, path: str, headers: Headers) -> None:
        """Refuse a request that is not allowed."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_known(host_name(hosts[0])):
            raise UnknownHost(hosts)
        is_read_by_others = path.startswith("/v1/") and headers.get("sec-fetch-site") == "cross-site"
        if is_read_by_others or (method not in _SAFE and not _is_same_site(headers, hosts[0])):
            raise RefusedRequest(403, "The request comes from a page of another site, which is not allowed.")
        if self._token is None or path in _NO_TOKEN or path.startswith("/page/"):
            return
        given = headers.getlist("authorization")
        kind, _, token = (given[0] if len(given) == 1 else "").partition(" ")
        if kind.lower() != "bearer" or not hmac.compare_digest(token.strip().encode("latin-1"), self._token):
            raise RefusedRequest(401, "The token is missing or wrong. Send the header Authorization: Bearer TOKEN.")

    def _is_known(self, name: str) -> bool:
        """Whether the service is reached by a name. An address needs no DNS, so nobody can rebind it."""
        return name in self._hosts or (self._any_address and _is_address(name))


def _is_address(name: str) -> bool:
    """Whether a name is an IP address.

    >>> _is_address("192.0.2.2"), _is_address("2001:db8::1"), _is_address("192.0.2.2.example.org")
    (True, True, False)
    """
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _is_same_site(headers: Headers, host: str) -> bool:
    """Whether a request that changes something comes from our own page, or not from a browser."""
    if headers.get("sec-fetch-site", "none") not in {"same-origin", "none"}:
        return False
    return all(_host_of(origin) == host.lower() for origin in headers.getlist("origin"))


def host_name(host: str) -> str:
    """The name in a header Host, without its port; empty if it is anything else.

    >>> host_name("LocalHost:8000"), host_name("[::1]:80"), host_name("localhost@evil.org"), host_name("a/b")
    ('localhost', '::1', '', '')
    """
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # raises for one that is no number
    except ValueError:
        return ""
    is_plain = parts.username is None and not (parts.path or parts.query or parts.fragment) and host.isprintable()
    return parts.hostname or "" if is_plain else ""


def _host_of(origin: str) -> str:
    """Host and port of an origin of the web; empty for ``null`` and other schemes.

    >>> _host_of("https://miv.example.org"), _host_of("null"), _host_of("file://localhost")
    ('miv.example.org', '', '')
    """
    scheme, _, rest = origin.partition("://")
    return rest.lower() if scheme.lower() in {"http", "https"} else ""


class ClientGone(Exception):  # noqa: N818 - named after what happened
    """The client closed the connection before the answer."""


class ByteBudget:
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


class LimitedBody:
    """Counts bytes, also of a body without a length, and watches the connection once the body has arrived.

    Args:
        receive: receives the parts of the body.
        most: maximum size in bytes.
        total: the bytes of all requests.
    """

    def __init__(self, receive: Receive, most: int, total: ByteBudget) -> None:
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


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
_CHANGING = frozenset({"/v1/bags", "/v1/galleries"})  # by POST
_GONE = 499  # in the log: the client left before the answer, as nginx counts it
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


class RequestGuard:
    """ASGI middleware around all routes.

    Args:
        app: the routes.
        service: the service, for its settings and metrics.
    """

    def __init__(self, app: ASGIApp, service: RunningService) -> None:
        self.app, self.service = app, service
        self.rules = AccessRules(service.settings)
        self._arriving = ByteBudget(service.limits.bytes_in_all)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, whatever happens."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = _Answer(send)
        start, headers = time.perf_counter(), Headers(scope=scope)
        body = LimitedBody(receive, self.service.limits.bytes, self._arriving)
        try:
            self.rules.check(scope["method"], scope["path"], headers)
            body.check_length(headers)
            async with asyncio.timeout(self.service.limits.seconds):
                await body.answering(self.app(scope, body.receive, answer.send))
        except ClientGone:
            answer.status = _GONE
        except RefusedRequest as error:
            await answer.refuse(scope, error.status, str(error))
        except TimeoutError:
            seconds = self.service.limits.seconds
            words = f"The request took longer than {seconds:g} seconds. Send less, or try again later."
            if scope["method"] in {"PUT", "DELETE"} or scope["path"] in _CHANGING:
                words += " What it asked to change may be changed all the same: look before you ask again."
            await answer.refuse(scope, 503, words)
        except Exception:
            logger.exception("failure", extra={"fields": {"request": answer.id}})
            await answer.refuse(scope, 500, "The service failed. Its log says where; please report it.")
        finally:
            body.close()
            self._note(scope, answer, body.bytes, time.perf_counter() - start)

    def _note(self, scope: Scope, answer: "_Answer", received: int, seconds: float) -> None:
        """Log and count the request, by the template of its route: the address itself may name things."""
        route = getattr(scope.get("route"), "path", "unknown")
        method = scope["method"] if scope["method"] in _METHODS else "other"
        metrics = self.service.metrics
        metrics.requests.labels(method, route, str(answer.status)).inc()
        metrics.seconds.labels(route).observe(seconds)
        metrics.received.labels(route).inc(received)
        log_request(
            {
                "request": answer.id,
                "method": method,
                "route": route,
                "status": answer.status,
                "ms": round(1000 * seconds, 2),
                "received": received,
                "sent": answer.bytes,
                "model": scope.get("state", {}).get("model"),
            }
        )


class _Answer:
    """Sends an answer with the headers of all answers, and remembers what was sent."""

    def __init__(self, send: Send) -> None:
        self._send, self.id = send, uuid4().hex[:16]
        self.status, self.bytes, self._started = 0, 0, False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._started, self.status = True, message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
            headers["X-Request-Id"] = self.id
            headers.setdefault("Cache-Control", "no-store")
        self.bytes += len(message.get("body", b""))
        await self._send(message)

    async def refuse(self, scope: Scope, status: int, message: str) -> None:
        """Answer with an error, if nothing was sent yet."""
        if self._started:
            self.status = status  # for the log; the connection is cut
            return
        is_page = scope["method"] == "GET" and scope["path"] == "/"
        wants_page = is_page and "text/html" in Headers(scope=scope).get("accept", "")
        response = error_page(status, message) if wants_page else error_response(status, message)
        if status != 401 and scope["method"] not in {"GET", "HEAD"}:
            response.headers["Connection"] = "close"  # the rest of the body is not read
        await response(scope, _no_more, self.send)


async def _no_more() -> Message:
    return {"type": "http.disconnect"}
