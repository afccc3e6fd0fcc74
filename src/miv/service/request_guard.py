"""What every request passes: Host, Origin, token, size and time; and what every answer carries."""

import asyncio
import logging
import time
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from miv.service.access_rules import AccessRules
from miv.service.arriving_body import ArrivingBody, ClientGone
from miv.service.refusals import RefusedRequest, error_page, error_response
from miv.service.request_log import log_request
from miv.service.running_service import RunningService

logger = logging.getLogger(__name__)
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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, whatever happens."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = _Answer(send)
        start, headers = time.perf_counter(), Headers(scope=scope)
        body = ArrivingBody(receive, self.service.limits.bytes, self.service.arriving)
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
