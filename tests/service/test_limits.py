"""Bad and oversized requests are refused with a status and words, and never fail the service."""

import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from miv.service import Limits
from tests.service.serving import CHANNELS, ready_client, vector_exemplars, vectors_folder

LIMITS = Limits(bytes=200_000, exemplars=3, instances=20, references=2, instances_in_all=40, numbers=16, pooled=400)
VECTOR = [0.5] * CHANNELS


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with ready_client(vectors_folder(tmp_path_factory.mktemp("models")), limits=LIMITS) as client:
        yield client


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with ready_client(vectors_folder(tmp_path_factory.mktemp("models"))) as client:
        yield client


def one(query: Any = VECTOR, bag: Any = (VECTOR,), **more: Any) -> dict[str, Any]:
    return {"exemplars": [{"query": query, "bag": bag}], **more}


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (one(bag=[VECTOR] * 21), 413, "at most 20"),
        (one(query=[VECTOR] * 3), 413, "at most 2"),
        ({"exemplars": vector_exemplars(4)}, 413, "at most 3"),
        ({"exemplars": vector_exemplars(3, size=20)}, 413, "at most 40"),
        (one(bag=[[0.5] * 17]), 413, "17 numbers"),
        (one(bag=[[0.5] * 7]), 422, "vectors of 8 numbers"),
        (one(bag=[]), 422, "bag"),
        (one(query=[]), 422, "query"),
        (one(bag=["/etc/passwd"]), 422, "is a text"),
        (one(query={"image": "aGk="}), 422, "is an image"),
        (one(bag="/etc"), 422, "bag"),
        (one(query=[1e300] * CHANNELS), 422, "infinity"),
        (one(bag=[["1"] * CHANNELS]), 422, "bag"),
        (one(query=[True] * CHANNELS), 422, "query"),
        (one(witnesses="magic"), 422, "witnesses"),
        (one(resize="crop"), 422, "resize"),
        (one(extra=1), 422, "extra"),
        (one(bag=[VECTOR] * 20, witnesses="leave_one_out"), 413, "420 instances"),
        ([], 422, "body"),
    ],
)
def test_what_cannot_be_used_is_refused_in_words(client: TestClient, body: Any, status: int, words: str) -> None:
    response = client.post("/v1/verify", json=body)
    assert (response.status_code, response.json()["error"]["status"]) == (status, status)
    assert words in response.json()["error"]["message"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"a":' * 30_000,
        b'{"exemplars": [{"query": [NaN], "bag": [[1]]}]}',
        b'{"exemplars": [{"query": [Infinity], "bag": [[1]]}]}',
        b'{"exemplars": [{"query": [1e999], "bag": [[1]]}]}',
        b'{"exemplars": [{"query": [' + b"9" * 5_000 + b'], "bag": [[1]]}]}',
        b'{"exemplars": [{"query": "\\ud800", "bag": ["\\udfff"]}]}',
        b'{"model": "\\ud800", "exemplars": [{"query": [1], "bag": [[1]]}]}',
        b'{"exemplars": [{"query": "\x00", "bag": ["a"]}]}',
    ],
)
def test_odd_json_is_refused(client: TestClient, content: bytes) -> None:
    response = client.post("/v1/verify", content=content, headers={"Content-Type": "application/json"})
    assert response.status_code in {400, 422}
    assert response.json()["error"]["message"]


def repeated(part: bytes, count: int) -> bytes:
    return b'{"exemplars":[{"query":[1],"bag":[' + part * count + b"[1]]}]}"


@pytest.mark.parametrize(
    "content",
    [
        repeated(b"[1],", 1_000_000),
        repeated(b'"a",', 1_500_000),
        b'{"exemplars":[{"query":[1],"bag":[[' + b"1," * 5_000_000 + b"1]]}]}",
        b'{"exemplars":[' + b"{}," * 1_000_000 + b"{}]}",
    ],
    ids=["vectors", "texts", "numbers", "exemplars"],
)
def test_json_of_very_many_parts_is_refused_before_it_is_parsed(roomy: TestClient, content: bytes) -> None:
    tracemalloc.start()
    response = roomy.post("/v1/verify", content=content, headers={"Content-Type": "application/json"})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert response.status_code == 413
    assert peak < 6 * len(content)


def test_signs_in_texts_are_no_parts(roomy: TestClient) -> None:
    texts = ["[,{" * 30_000 + '\\"' * 1_000, '"' * 90_000, "\\" * 90_001] * 20 + ["," * 90_000] * 50
    content = json.dumps(one(bag=texts))
    response = roomy.post("/v1/verify", content=content, headers={"Content-Type": "application/json"})
    assert (response.status_code, "is a text" in response.text) == (422, True)


def test_a_body_is_counted_while_it_arrives(client: TestClient) -> None:
    chunks = (b" " * 1_000 for _ in range(1_000))  # without a Content-Length
    response = client.post("/v1/verify", content=chunks, headers={"Content-Type": "application/json"})
    assert response.status_code == 413
    stated = client.post("/v1/verify", content=b"{}", headers={"Content-Length": "999999999999999999999"})
    assert stated.status_code == 413


def test_other_content_types_and_methods_are_refused(client: TestClient) -> None:
    assert client.post("/v1/verify", content=b"{}", headers={"Content-Type": "text/plain"}).status_code == 415
    assert client.post("/v1/verify", content=b"{}").status_code == 415
    refused = client.put("/v1/verify", json={})
    assert (refused.status_code, refused.json()["error"]["status"]) == (405, 405)


def test_a_slow_request_ends(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = vectors_folder(tmp_path_factory.mktemp("models"))
    with ready_client(folder, limits=Limits(seconds=1e-6)) as client:
        response = client.post("/v1/verify", json={"exemplars": vector_exemplars(1)})
        changing = client.put("/v1/galleries/a/bags/b", json={"bag": [VECTOR]})
    assert (changing.status_code, "may have been applied" in changing.text) == (503, True)
    assert "may have been applied" not in response.text
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    assert "seconds" in response.json()["error"]["message"]
