"""Busy services, lost connections and other servers: real sockets, and a tiny server that misbehaves on purpose."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from miv import MIVError
from miv.service import Client, RemoteGallery, ServiceError

Answer = tuple[int, dict[str, str], bytes] | None  # None closes the connection


@contextmanager
def answering(*answers: Answer) -> Iterator[tuple[str, list[str]]]:
    """A server that gives these answers in order; yields its address and its requests."""
    left, got = list(answers), []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            got.append(f"{self.command} {self.path}")
            length = int(self.headers.get("Content-Length", 0))
            self.rfile.read(length)
            answer = left.pop(0)
            if answer is None:
                self.close_connection = True
                return
            status, headers, content = answer
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_DELETE = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", got
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def busy(seconds: str) -> Answer:
    return 503, {"Retry-After": seconds}, json.dumps({"error": {"status": 503, "message": "Busy."}}).encode()


MODELS: Answer = (200, {}, b'{"models": []}')


def test_a_busy_service_is_asked_again_after_the_time_it_names() -> None:
    with answering(busy("0"), busy("1"), MODELS, busy("20")) as (url, got), Client(f"{url}/miv/", patience=5) as client:
        start = time.monotonic()
        assert client.models() == []
        assert 1 <= time.monotonic() - start < 5
        with pytest.raises(ServiceError, match="503"):  # its patience ends
            client.models()
    assert got == ["GET /miv/v1/models"] * 4


def test_a_lost_connection_is_opened_again_a_few_times() -> None:
    with answering(None, MODELS, None, None, None) as (url, got), Client(url) as client:
        assert client.models() == []
        assert len(got) == 2
        with Client(url) as other, pytest.raises(MIVError, match="Could not"):
            other.models()
    assert len(got) == 5


@pytest.mark.parametrize(("answer", "words"), [(None, "Could not reach"), (busy("0"), "HTTP 503")])
def test_what_may_not_be_done_twice_is_sent_once(answer: Answer, words: str) -> None:
    models: Answer = (200, {}, b'{"models": [{"name": "m", "kind": "features"}]}')
    with answering(models, answer) as (url, got), Client(url) as client, pytest.raises(MIVError, match=words):
        client.create_gallery("archive")
    assert got == ["GET /v1/models", "POST /v1/galleries"]


def test_what_a_busy_service_has_deleted_after_all_is_no_error() -> None:
    gone: Answer = (404, {}, b'{"error": {"status": 404, "message": "There is no such bag."}}')
    with answering(busy("0"), gone, gone) as (url, got), Client(url) as client:
        gallery = RemoteGallery(client, "archive", "features")
        gallery.remove("5f0c")
        with pytest.raises(ServiceError, match="There is no such bag"):
            gallery.remove("5f0c")
    assert got == ["DELETE /v1/galleries/archive/bags/5f0c"] * 3


@pytest.mark.parametrize("content", [b"<html>", b"", b"[1]", b'{"detail": "x"}', b"\xff" * 10])
def test_another_server_is_an_error_not_a_traceback(content: bytes) -> None:
    with answering((404, {}, content)) as (url, _), Client(url) as client, pytest.raises(ServiceError, match="as `miv"):
        client.models()


def test_a_slow_service_is_an_error() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = Client(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=0.2)
        with pytest.raises(MIVError, match=r"did not answer within 0.2 seconds"):
            client.models()
