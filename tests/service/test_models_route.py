"""What `GET /v1/models` says, and which models a request may leave out."""

import base64
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from PIL import Image

from miv.errors import MIVError
from miv.service import ServiceSettings, create_app
from miv.verifier.network import Verifier
from tests.service.serving import ready_client, vectors_folder


def test_a_model_says_what_it_decides_if_its_card_does(tmp_path: Path) -> None:
    folder, plain = vectors_folder(tmp_path, "letters"), vectors_folder(tmp_path, "plain")
    (folder / "README.md").write_text("---\nlicense: mit\nabout: Is a letter by Anna?\n---\n# Letters\nabout: no\n")
    (plain / "README.md").write_text("# Plain\nabout: no\n")
    with ready_client(folder, plain, "miv/digits") as client:
        about = {one["name"]: one["about"] for one in client.get("/v1/models").json()["models"]}
    assert (about["letters"], about["plain"]) == ("Is a letter by Anna?", None)
    assert "writer of the query" in about["miv/digits"]


def test_wrong_names_are_errors_before_anything_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(MIVError, match="Did you mean 'miv/digits'"):
        create_app(ServiceSettings(("miv/digitz",)))
    one, two = vectors_folder(tmp_path / "a"), vectors_folder(tmp_path / "b")
    with pytest.raises(MIVError, match=f"name vectors: {one} and {two}"):
        create_app(ServiceSettings((str(one), str(two))))


# ``POST /v1/verify`` with JSON answers as ``Verifier.verify`` does.


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
