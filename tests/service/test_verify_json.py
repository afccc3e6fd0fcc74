"""``POST /v1/verify`` with JSON answers as ``Verifier.verify`` does."""

import base64
import io
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from PIL import Image

from miv.verifier.network import Verifier
from tests.service.serving import ready_client


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with ready_client("miv/digits") as client:
        yield client


@pytest.fixture(scope="module")
def digits() -> Verifier:
    return Verifier.from_pretrained("miv/digits")


@pytest.mark.parametrize("sample", ["digits-present", "digits-references"])
def test_the_answer_is_the_document_of_the_verdict(client: TestClient, digits: Verifier, sample: str) -> None:
    given = client.get(f"/v1/samples/{sample}").json()
    response = client.post("/v1/verify", json={"exemplars": [{"query": given["query"], "bag": given["bag"]}]})
    pictures = [picture(one) for one in given["bag"]]
    query = [picture(one) for one in given["query"]] if isinstance(given["query"], list) else picture(given["query"])
    verdict = digits.verify(query, pictures)
    assert response.json() == {"model": "miv/digits", "verdicts": [{**verdict.document(), "size": 12}]}


def picture(instance: dict[str, str]) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(instance["image"])))
