"""Kept bags over HTTP."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from miv import Verifier
from miv.service import Limits
from tests.service.serving import ready_client
from tests.service.serving import vector_lists as vectors


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two verifiers of vectors with one backbone, and one with another."""
    folder = tmp_path_factory.mktemp("models")
    for name, channels in (("one", 4), ("two", 4), ("wide", 6)):
        Verifier("cap_vema", channels=channels).save_pretrained(folder / name)
    return [str(folder / name) for name in ("one", "two", "wide")]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="module")
def client(models: list[str], kept: Path) -> Iterator[TestClient]:
    with ready_client(*models, keep=kept) as client:
        yield client


def keep(client: TestClient, bag: Any, model: str = "one") -> str:
    response = client.post("/v1/bags", json={"model": model, "bag": bag})
    assert response.status_code == 201, response.text
    return str(response.json()["id"])


def verify(client: TestClient, query: Any, bag: Any, model: str = "one") -> Any:
    return client.post("/v1/verify", json={"model": model, "exemplars": [{"query": query, "bag": bag}]})


def test_a_kept_bag_counts_towards_the_limits_as_often_as_it_is_asked(models: list[str], kept: Path) -> None:
    with ready_client(models[0], keep=kept, limits=Limits(instances_in_all=20)) as client:
        bag = {"kept": keep(client, vectors(6, 1))}
        for count, status in ((2, 200), (3, 413)):
            exemplars = [{"query": query, "bag": bag} for query in vectors(count, 2)]
            assert client.post("/v1/verify", json={"exemplars": exemplars}).status_code == status


def test_images_are_not_kept_but_their_features_are(tmp_path: Path) -> None:
    with ready_client("miv/digits", keep=tmp_path) as client:
        sample = client.get("/v1/samples/digits-present").json()
        bag = [*sample["bag"], sample["bag"][0]]
        stored = client.post("/v1/bags", json={"bag": bag}).json()
        assert stored["size"] == len(bag)
        assert [path.stem for path in tmp_path.glob("*.safetensors")] == [stored["id"]]
        exemplars = [{"query": sample["query"], "bag": one} for one in (bag, {"kept": stored["id"]})]
        one, other = client.post("/v1/verify", json={"exemplars": exemplars}).json()["verdicts"]
    assert one["verdict"] == other["verdict"]
    assert one["probability"] == pytest.approx(other["probability"], rel=1e-5)
    assert one["attention"] == pytest.approx(other["attention"], rel=1e-4)


def test_models_with_the_same_backbone_share_a_bag_and_others_refuse_it(client: TestClient) -> None:
    name = keep(client, vectors(3, 3))
    assert client.get(f"/v1/bags/{name}").json()["size"] == 3
    assert verify(client, vectors(1, 2)[0], {"kept": name}, "two").status_code == 200
    refused = verify(client, [1.0, 0, 0, 0, 0, 0], {"kept": name}, "wide")
    assert refused.status_code == 422
    assert "was kept for one" in refused.json()["error"]["message"]
    assert client.delete(f"/v1/bags/{name}").status_code == 204
    assert [ask(f"/v1/bags/{name}").status_code for ask in (client.get, client.delete)] == [404, 404]


def test_a_wrong_bag_is_refused_and_not_kept(client: TestClient, kept: Path) -> None:
    before = sorted(kept.iterdir())
    for bag, status in (([], 422), ([[1, 2, 3]], 422), ([[0, 0, 0, 1]] * 2001, 413)):
        assert client.post("/v1/bags", json={"model": "one", "bag": bag}).status_code == status
    assert sorted(kept.iterdir()) == before


def test_a_kept_bag_implies_its_model(client: TestClient) -> None:
    query, bag = vectors(1, 2)[0], vectors(3, 1)
    two, one = keep(client, bag, "two"), keep(client, bag, "one")
    asked = [{"query": query, "bag": {"kept": two}}]
    assert client.post("/v1/verify", json={"exemplars": asked}).json()["model"] == "two"
    both = [*asked, {"query": query, "bag": {"kept": one}}]
    response = client.post("/v1/verify", json={"exemplars": both})
    assert (response.status_code, "model is missing" in response.text) == (422, True)
    assert client.post("/v1/verify", json={"exemplars": both, "model": "one"}).status_code == 200
    gone = [{"query": query, "bag": {"kept": "0" * 32}}]
    assert client.post("/v1/verify", json={"exemplars": gone}).status_code == 404
