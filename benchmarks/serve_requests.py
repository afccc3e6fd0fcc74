"""Requests that cost a client little, so that a measurement shows the service: for ``serve.py`` and for tests."""

import json
import socket
import time
from typing import Any


def request_bytes(method: str, path: str, body: Any = None) -> bytes:
    """A whole HTTP request, so that a client only has to send it."""
    content = b"" if body is None else json.dumps(body).encode()
    kind = "Content-Type: application/json\r\n" if body is not None else ""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{kind}Content-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


class RawClient:
    """One connection that stays open. ``send`` returns status, headers and body."""

    def __init__(self, host: str, port: int, timeout: float = 60) -> None:
        self._socket = socket.create_connection((host, port), timeout=timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._left = b""

    def __enter__(self) -> "RawClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, request: bytes) -> tuple[int, bytes, bytes]:
        self._socket.sendall(request)
        data = self._left
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._more()
        head = data[:end].lower()
        status = int(head[9:12])
        place = head.find(b"content-length:")
        length = int(head[place + 15 :].split(b"\r\n", 1)[0]) if place >= 0 else 0
        while len(data) < end + 4 + length:
            data += self._more()
        self._left = data[end + 4 + length :]
        return status, head, data[end + 4 : end + 4 + length]

    def answered(self, request: bytes) -> Any:
        """The JSON of the answer; a worker that is still loading its models, or is busy, is asked again."""
        for _ in range(300):
            status, _, body = self.send(request)
            if status != 503:
                break
            time.sleep(0.2)
        assert 200 <= status < 300, body
        return json.loads(body)

    def _more(self) -> bytes:
        got = self._socket.recv(1 << 16)
        if not got:
            raise ConnectionResetError("The service closed the connection.")
        return got
