"""What every request passes: Host, Origin, token, size and time; and what every answer carries."""

import asyncio
import hmac
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from miv.service.refusals import RefusedRequest, error_response
from miv.service.running_service import RunningService

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_NO_TOKEN = frozenset({"/", "/healthz", "/readyz", "/openapi.json", "/favicon.ico"})  # and /page/…
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
        service: the service, for its settings.
    """

    def __init__(self, app: ASGIApp, service: RunningService) -> None:
        self.app, self.service = app, service
        self.hosts, self.token = service.settings.hosts, service.settings.token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def send_guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                if "cache-control" not in headers:
                    headers["Cache-Control"] = "no-store"
            await send(message)

        try:
            self._check(scope)
            body = _Body(receive, self.service.limits.bytes, Headers(scope=scope))
            async with asyncio.timeout(self.service.limits.seconds):
                await self.app(scope, body.receive, send_guarded)
        except RefusedRequest as error:
            if not started:
                await error_response(error.status, str(error))(scope, receive, send_guarded)
        except TimeoutError:
            if not started:
                seconds = self.service.limits.seconds
                message = f"The request took longer than {seconds:g} seconds. Send less, or try again later."
                await error_response(503, message)(scope, receive, send_guarded)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host = _host_name(headers.get("host", ""))
        if host not in self.hosts:
            raise RefusedRequest(
                400, "The header Host has an unknown name. Start the service with --allowed-host NAME to be reached so."
            )
        origin = headers.get("origin")
        if scope["method"] not in _SAFE and (
            (origin is not None and _same_host(origin) != headers.get("host", "").lower())
            or headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}
        ):
            raise RefusedRequest(403, "The request comes from a page of another site, which is not allowed.")
        path = scope["path"]
        if self.token is None or path in _NO_TOKEN or path.startswith("/page/"):
            return
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), self.token.encode()):
            raise RefusedRequest(401, "The token is missing or wrong. Send the header Authorization: Bearer TOKEN.")


class _Body:
    """Counts the bytes of a body while they arrive."""

    def __init__(self, receive: Receive, most: int, headers: Headers) -> None:
        self._receive, self._most, self._bytes = receive, most, 0
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or int(length[:20]) > most:
            raise self._too_large()

    async def receive(self) -> Any:
        message = await self._receive()
        self._bytes += len(message.get("body", b""))
        if self._bytes > self._most:
            raise self._too_large()
        return message

    def _too_large(self) -> RefusedRequest:
        return RefusedRequest(413, f"The request is larger than {self._most:,} bytes. Send less at once.")


def _host_name(host: str) -> str:
    """The name in a header Host, without its port.

    >>> _host_name("LocalHost:8000"), _host_name("[::1]:80"), _host_name("a@b")
    ('localhost', '::1', '')
    """
    try:
        parts = urlsplit(f"//{host}")
        return "" if parts.username is not None or parts.path or parts.query else (parts.hostname or "")
    except ValueError:
        return ""


def _same_host(origin: str) -> str:
    """Host and port of an origin of the web; empty for ``null`` and other schemes."""
    scheme, _, rest = origin.partition("://")
    return rest.lower() if scheme.lower() in {"http", "https"} else ""
