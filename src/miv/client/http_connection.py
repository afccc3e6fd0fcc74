"""Requests to a service over connections that stay open, for several threads; waits when the service asks to."""

import json
import time
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from miv.errors import MIVError

_PAUSE = 1.0  # seconds, if a busy service does not say how long to wait
_LOST = 2  # times that a request whose connection was lost is sent again


class ServiceError(MIVError):
    """The service refused a request.

    Args:
        status: the HTTP status, such as 422.
        message: what was given, what was expected, what to do.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{message} (HTTP {status})")
        self.status = status


class ServiceConnection:
    """Sends JSON and returns the JSON of the answer.

    Args:
        url: address of the service, such as ``http://localhost:8000``.
        token: the bearer token, if the service asks for one.
        timeout: seconds to wait for an answer.
        patience: seconds to go on trying while the service is busy (HTTP 503 or 429).
    """

    def __init__(self, url: str, token: str | None, timeout: float, patience: float) -> None:
        wrong = f"The address of the service is {url!r}. Expected one such as http://localhost:8000."
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as error:  # an unclosed bracket, or a port that is no port
            raise MIVError(wrong) from error
        if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
            raise MIVError(wrong)
        self.url, self._timeout, self._patience = url.rstrip("/"), timeout, patience
        self._address, self._base = (host, port), parts.path.rstrip("/")
        self._kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._headers = {"Accept": "application/json"}
        if token is not None:
            if not token.isascii() or not token.isprintable():
                raise MIVError("The token has odd characters. Expected printable ASCII ones.")
            self._headers["Authorization"] = f"Bearer {token}"
        self._idle: list[HTTPConnection] = []  # as many as requests have run at once

    def request(
        self, method: str, path: str, body: Any = None, *, repeatable: bool = True, again_when_busy: bool = True
    ) -> Any:
        """Send a request and return the document of the answer, ``None`` if it is empty.

        Args:
            method: such as GET.
            path: with a leading slash.
            body: plain values, sent as JSON.
            repeatable: whether sending it twice does no harm, so that it is sent again if the connection is lost.
            again_when_busy: whether it is sent again after HTTP 503. A service that is too slow answers so, and may
                still carry the request out.
        """
        content, headers = None, self._headers
        if body is not None:
            content, headers = _as_json(body), {**headers, "Content-Type": "application/json"}
        until, is_first = time.monotonic() + self._patience, True
        busy = (429, 503) if again_when_busy else (429,)
        while True:
            status, answer, pause = self._sent(method, path, content, headers, repeatable)
            if method == "DELETE" and status == 404 and not is_first:
                return None  # the earlier request was carried out after all
            if status not in busy or time.monotonic() + pause > until:
                return _document(status, answer, self.url)
            time.sleep(pause)
            is_first = False

    def close(self) -> None:
        """Close the connections; the next request opens one again."""
        while self._idle:
            self._idle.pop().close()

    def _sent(
        self, method: str, path: str, content: bytes | None, headers: dict[str, str], repeatable: bool
    ) -> tuple[int, bytes, float]:
        for attempt in range(_LOST + 1):
            connection = self._free_connection()
            is_new = connection.sock is None
            try:
                connection.request(method, f"{self._base}{path}", content, headers)
                response = connection.getresponse()
                answer = response.read()
            except (OSError, HTTPException) as error:
                connection.close()
                # A service closes connections that were idle; nothing was done then.
                if (
                    attempt == _LOST
                    or isinstance(error, ConnectionRefusedError | TimeoutError)
                    or (is_new and not repeatable)
                ):
                    raise self._unreachable(error) from error
                continue
            self._idle.append(connection)
            return response.status, answer, _pause(response)
        raise AssertionError  # the last attempt returns or raises

    def _free_connection(self) -> HTTPConnection:
        try:
            return self._idle.pop()  # one step, so that two threads never get the same one
        except IndexError:
            return self._kind(*self._address, timeout=self._timeout)

    def _unreachable(self, error: Exception) -> MIVError:
        if isinstance(error, TimeoutError):
            return MIVError(f"{self.url} did not answer within {self._timeout:g} seconds. Send less, or wait longer.")
        return MIVError(f"Could not reach {self.url}: {error or type(error).__name__}. Is `miv serve` running there?")


def _as_json(body: Any) -> bytes:
    try:
        return json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
    except ValueError as error:
        raise MIVError("The request contains NaN or infinity. Expected finite numbers.") from error


def _pause(response: HTTPResponse) -> float:
    given = response.headers.get("Retry-After", "")
    return float(given) if given.isascii() and given.isdigit() else _PAUSE


def _document(status: int, answer: bytes, url: str) -> Any:
    if 200 <= status < 300 and not answer:
        return None
    try:
        document = json.loads(answer)
    except (ValueError, RecursionError):
        document = None
    if 200 <= status < 300 and document is not None:
        return document
    error = document.get("error") if isinstance(document, dict) else None
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        raise ServiceError(status, error["message"])
    raise ServiceError(status, f"{url} did not answer as `miv serve` does. Check the address.")
