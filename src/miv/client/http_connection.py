"""Requests to a service over connections that stay open, one per thread; waits when the service asks to."""

import json
import threading
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
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise MIVError(f"The address of the service is {url!r}. Expected one such as http://localhost:8000.")
        self.url, self._timeout, self._patience = url.rstrip("/"), timeout, patience
        self._address, self._base = (parts.hostname, parts.port), parts.path.rstrip("/")
        self._kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._headers = {"Accept": "application/json"}
        if token is not None:
            if not token.isascii() or not token.isprintable():
                raise MIVError("The token has odd characters. Expected printable ASCII ones.")
            self._headers["Authorization"] = f"Bearer {token}"
        self._of_thread = threading.local()
        self._all: list[HTTPConnection] = []

    def request(self, method: str, path: str, body: Any = None, *, repeatable: bool = True) -> Any:
        """Send a request and return the document of the answer, ``None`` if it is empty.

        Args:
            method: such as GET.
            path: with a leading slash.
            body: plain values, sent as JSON.
            repeatable: whether sending it twice does no harm, so that it is sent again if the connection is lost.
        """
        content, headers = None, self._headers
        if body is not None:
            content, headers = _as_json(body), {**headers, "Content-Type": "application/json"}
        until = time.monotonic() + self._patience
        while True:
            status, answer, pause = self._sent(method, path, content, headers, repeatable)
            if status not in (429, 503) or time.monotonic() + pause > until:
                return _document(status, answer, self.url)
            time.sleep(pause)

    def close(self) -> None:
        """Close the connections of all threads."""
        while self._all:
            self._all.pop().close()

    def _sent(
        self, method: str, path: str, content: bytes | None, headers: dict[str, str], repeatable: bool
    ) -> tuple[int, bytes, float]:
        for attempt in range(_LOST + 1):
            connection, is_new = self._connection()
            try:
                connection.request(method, f"{self._base}{path}", content, headers)
                response = connection.getresponse()
                answer = response.read()
            except (OSError, HTTPException) as error:
                connection.close()  # opened again by the next request
                # A service closes connections that were idle; nothing was done then.
                if (
                    attempt == _LOST
                    or isinstance(error, ConnectionRefusedError | TimeoutError)
                    or (is_new and not repeatable)
                ):
                    raise self._unreachable(error) from error
                continue
            return response.status, answer, _pause(response)
        raise AssertionError  # the last attempt returns or raises

    def _connection(self) -> tuple[HTTPConnection, bool]:
        connection: HTTPConnection | None = getattr(self._of_thread, "connection", None)
        if connection is None:
            connection = self._kind(*self._address, timeout=self._timeout)
            self._of_thread.connection = connection
            self._all.append(connection)
        return connection, connection.sock is None

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
