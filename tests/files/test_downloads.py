"""Downloads from a server of our own."""

import hashlib
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from miv.errors import MIVError
from miv.files.cache import RemoteFile, fetch
from miv.runtime import SilentProgress

CONTENT = bytes(range(256)) * 1000


class Server(ThreadingHTTPServer):
    """Serves ``content``, at most ``cut`` bytes of it."""

    cut: int | None = None
    content = CONTENT
    status: int | None = None


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        if self.server.status:
            self.send_error(self.server.status)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.server.content)))
        self.end_headers()
        self.wfile.write(self.server.content[: self.server.cut])  # then the connection closes, whatever was promised

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 - the name of the base class


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def remote(server: Server) -> RemoteFile:
    address = f"http://127.0.0.1:{server.server_port}/digits.gz"
    return RemoteFile(address, len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


def test_whole(server: Server, tmp_path: Path) -> None:
    path = fetch(remote(server), tmp_path / "new folder", SilentProgress())
    assert path.name == "digits.gz"
    assert path.read_bytes() == CONTENT
    assert [file.name for file in path.parent.iterdir()] == ["digits.gz"]


@pytest.mark.parametrize(
    "change",
    [{"cut": 100_000}, {"content": CONTENT[:-1]}, {"content": CONTENT + b"!"}, {"content": bytes(256_000)}],
    ids=["cut", "short", "long", "other"],
)
def test_another_content_is_refused_and_the_older_file_kept(
    server: Server, tmp_path: Path, change: dict[str, Any]
) -> None:
    vars(server).update(change)
    (tmp_path / "digits.gz").write_bytes(b"older")
    with pytest.raises(MIVError, match="Could not download"):
        fetch(remote(server), tmp_path, SilentProgress())
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"older"]


def test_a_server_that_refuses(server: Server, tmp_path: Path) -> None:
    server.status = 503
    with pytest.raises(MIVError, match="503"):
        fetch(remote(server), tmp_path, SilentProgress())


def test_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("miv.files.cache._TIMEOUT_S", 1.0)
    nowhere = RemoteFile("http://127.0.0.1:9/digits.gz", 5, "0" * 64)
    with pytest.raises(MIVError, match=re.escape(f"put the file in {tmp_path}")):
        fetch(nowhere, tmp_path, SilentProgress())


def test_a_folder_that_is_a_file(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MIVError, match="Could not write"):
        fetch(remote(server), tmp_path / "file", SilentProgress())
