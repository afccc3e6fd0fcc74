"""Downloads against a server of our own: with ranges, without, and one that cuts the connection half-way."""

import hashlib
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from miv.errors import MIVError
from miv.files.cache import RemoteFile, fetch
from miv.runtime import SilentProgress

CONTENT = bytes(range(256)) * 1000


class Server(ThreadingHTTPServer):
    """Serves CONTENT, at most ``cut`` bytes an answer; ``ranges``: whether parts can be asked for."""

    cut: int | None = None
    ranges = True
    content = CONTENT
    asked: list[str | None]
    status: int | None = None


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.server.asked.append(asked)
        if self.server.status:
            self.send_error(self.server.status)
            return
        start = int(re.findall(r"\d+", asked)[0]) if asked and self.server.ranges else 0
        content = self.server.content
        if start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        end = len(content) if self.server.cut is None else start + self.server.cut
        self.wfile.write(content[start:end])  # the connection closes here, whatever was promised

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 - the name of the base class


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as server:
        server.asked = []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def remote(server: Server, sha256: str = hashlib.sha256(CONTENT).hexdigest()) -> RemoteFile:
    return RemoteFile(f"http://127.0.0.1:{server.server_port}/digits.gz", len(CONTENT), sha256)


def test_whole(server: Server, tmp_path: Path) -> None:
    path = fetch(remote(server), tmp_path / "new folder", SilentProgress())
    assert path.name == "digits.gz"
    assert path.read_bytes() == CONTENT
    assert [file.name for file in path.parent.iterdir()] == ["digits.gz"]


def test_a_cut_connection_is_taken_up_where_it_broke(server: Server, tmp_path: Path) -> None:
    server.cut = 100_000
    assert fetch(remote(server), tmp_path, SilentProgress()).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=100000-", "bytes=200000-"]


@pytest.mark.parametrize(
    ("part", "asked"), [(CONTENT[:250_000], ["bytes=250000-"]), (CONTENT, []), (CONTENT + b"!", [None])]
)
def test_a_part_from_before_is_used_unless_it_is_too_long(
    server: Server, tmp_path: Path, part: bytes, asked: list[str | None]
) -> None:
    (tmp_path / "digits.gz.part").write_bytes(part)
    assert fetch(remote(server), tmp_path, SilentProgress()).read_bytes() == CONTENT
    assert server.asked == asked


def test_a_server_without_ranges_sends_all_again(server: Server, tmp_path: Path) -> None:
    server.ranges = False
    (tmp_path / "digits.gz.part").write_bytes(CONTENT[:1000])
    assert fetch(remote(server), tmp_path, SilentProgress()).read_bytes() == CONTENT


def test_another_content_is_refused_and_deleted(server: Server, tmp_path: Path) -> None:
    with pytest.raises(MIVError, match="sha256"):
        fetch(remote(server, sha256="0" * 64), tmp_path, SilentProgress())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [CONTENT[:-1], CONTENT + b"!"], ids=["short", "long"])
def test_another_size_is_refused(server: Server, tmp_path: Path, content: bytes) -> None:
    server.content = content
    with pytest.raises(MIVError, match="Could not download"):
        fetch(remote(server), tmp_path, SilentProgress())
    assert not (tmp_path / "digits.gz").exists()


def test_a_server_that_refuses(server: Server, tmp_path: Path) -> None:
    server.status = 503
    with pytest.raises(MIVError, match="the server returned 503"):
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
