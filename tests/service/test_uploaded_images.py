"""Images by base64 and as files: the same verdict, and nothing but plain raster images."""

import base64
import io
import struct
import threading
import zipfile
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image

from miv.service import Limits
from miv.service.reading import image_of_bytes
from miv.verifier.network import Verifier
from tests.service.serving import ready_client


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with ready_client("miv/digits", limits=Limits(pixels=100_000, pixels_in_all=300_000)) as client:
        yield client


def drawn(kind: str = "PNG", seed: int = 0, size: tuple[int, int] = (28, 28)) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, size, np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def status_of(client: TestClient, content: bytes) -> tuple[int, str]:
    image = {"image": base64.b64encode(content).decode()}
    response = client.post("/v1/verify", json={"exemplars": [{"query": image, "bag": [image]}]})
    return response.status_code, "" if response.is_success else response.json()["error"]["message"]


def test_files_and_json_give_the_verdict_of_python(client: TestClient) -> None:
    contents = [drawn(seed=seed) for seed in range(4)]
    verifier, (query, *bag) = Verifier.from_pretrained("miv/digits"), [Image.open(io.BytesIO(one)) for one in contents]
    sent, *others = [{"image": base64.b64encode(one).decode()} for one in contents]
    for asked, references in ((sent, query), ([sent, others[0]], [query, bag[0]])):
        answer = client.post("/v1/verify", json={"exemplars": [{"query": asked, "bag": others}]}).json()
        expected = {**verifier.verify(references, bag).document(), "size": 3}
        assert answer == {"model": "miv/digits", "verdicts": [expected]}
    body = {"exemplars": [{"query": sent, "bag": others}], "heads": True}
    verdict, answer = verifier.verify(query, bag), client.post("/v1/verify", json=body).json()["verdicts"][0]
    by_head = answer.pop("attention_by_head")
    assert answer == {**verdict.document(), "size": 3}
    assert np.shape(by_head) == (8, 3)
    assert np.allclose(np.mean(by_head, axis=0), answer["attention"])


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM"])
def test_usual_formats_are_read(client: TestClient, kind: str) -> None:
    assert status_of(client, drawn(kind)) == (200, "")


def test_moving_images_and_large_photos_are_read(client: TestClient) -> None:
    frames = [Image.open(io.BytesIO(drawn(seed=seed))).convert("P") for seed in range(3)]
    file = io.BytesIO()
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:], comment=b"three", loop=0)
    assert status_of(client, file.getvalue()) == (200, "")
    file = io.BytesIO()
    Image.open(io.BytesIO(drawn())).convert("RGB").save(file, "JPEG", progressive=True, comment=b"\xff\xd9" * 999)
    assert status_of(client, file.getvalue() + b"what a camera adds") == (200, "")


def test_small_images_do_not_wait_for_large_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    may_go_on = threading.Event()
    decoded: list[bool] = []

    def slow(content: bytes, *options: Any) -> Any:
        if len(content) == len(large):
            decoded.append(may_go_on.wait(20))
        return image_of_bytes(content, *options)

    large = drawn(size=(1000, 1100))
    monkeypatch.setattr("miv.service.reading.image_of_bytes", slow)
    monkeypatch.setattr("miv.service.reading._LARGE_PIXELS", 1_000_000)
    with ready_client("miv/digits") as client, ThreadPoolExecutor(6) as pool:
        waiting = [pool.submit(status_of, client, large) for _ in range(6)]  # more than there are threads
        assert status_of(client, drawn())[0] == 200
        assert not any(one.done() for one in waiting)
        may_go_on.set()
        assert {one.result()[0] for one in waiting} == {422}  # the model takes small images
    assert all(decoded)


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.txt", "a")
    return file.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"%!PS-Adobe-3.0 EPSF-3.0",
        b"\x89PNG\r\n\x1a\n",
        drawn()[:-40],
        drawn("JPEG")[:-200],
        drawn() + b"<script>alert(1)</script>",
        drawn() + zipped(),
        drawn("JPEG") + zipped(),
        drawn("GIF") + zipped(),
        drawn("JPEG") + b"<html><script>alert(1)</script>",
        drawn("JPEG") + b" " * 2_000 + b"<html><script>alert(1)</script>\xff\xd9",
        drawn("GIF") + b" " * 2_000 + b"<html><script>alert(1)</script>\x00;",
        drawn("GIF")[:-1] + b" " * 2_000 + b"<html><script>alert(1)</script>\x00;",
        b"GIF89a/*" + b"\x00" * 60 + b"*/=1;alert(1)",
    ],
)
def test_anything_else_is_refused(client: TestClient, content: bytes) -> None:
    status, words = status_of(client, content)
    assert (status, "query" in words) == (422, True)


def test_errors_name_the_image_that_is_empty_or_broken(client: TestClient) -> None:
    good, empty = ({"image": base64.b64encode(one).decode(), "name": "a.png"} for one in (drawn(), b""))
    broken = {"image": base64.b64encode(b"no image").decode(), "name": "dog.png"}
    for bag, words in (
        ([good, {**empty, "name": "cat.png"}], "The bag, instance 1 (cat.png) is empty (0 bytes)."),
        ([good, broken], "The bag, instance 1 (dog.png) is not an image that can be read."),
        ([{**broken, "name": "x" * 300}], f"The bag ({'x' * 80}…) is not an image"),
        ([{"image": ""}], "The bag is empty (0 bytes)."),
    ):
        refused = client.post("/v1/verify", json={"exemplars": [{"query": good, "bag": bag}]})
        assert (refused.status_code, refused.json()["error"]["message"][: len(words)]) == (422, words)


def test_a_bomb_is_refused_before_it_is_decoded(client: TestClient) -> None:
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
    bomb = (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )
    status, words = status_of(client, bomb)
    assert (status, "pixels" in words) == (422, True)
    assert status_of(client, drawn(size=(400, 400)))[0] == 422
    large = {"image": base64.b64encode(drawn(size=(300, 300))).decode()}
    response = client.post("/v1/verify", json={"exemplars": [{"query": large, "bag": [large] * 3}], "resize": "crop"})
    assert (response.status_code, "pixels" in response.text) == (413, True)
