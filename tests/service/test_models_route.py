"""What `GET /v1/models` says, and which models a request may leave out."""

from pathlib import Path

import pytest

from miv.data import ExemplarSet
from miv.data.samples import read_samples, save_samples
from miv.errors import MIVError
from miv.service import ServiceSettings, create_app
from tests.service.serving import CHANNELS, ready_client, vectors, vectors_folder


def test_a_model_says_what_it_decides_if_its_card_does(tmp_path: Path) -> None:
    folder, plain = vectors_folder(tmp_path, "letters"), vectors_folder(tmp_path, "plain")
    (folder / "README.md").write_text("---\nlicense: mit\nabout: Is a letter by Anna?\n---\n# Letters\nabout: no\n")
    (plain / "README.md").write_text("# Plain\nabout: no\n")
    with ready_client(folder, plain, "miv/digits") as client:
        about = {one["name"]: one["about"] for one in client.get("/v1/models").json()["models"]}
    assert (about["letters"], about["plain"]) == ("Is a letter by Anna?", None)
    assert "writer of the query" in about["miv/digits"]


def test_samples_belong_to_their_model(tmp_path: Path) -> None:
    own, other = vectors_folder(tmp_path, "own"), vectors_folder(tmp_path, "other")
    rows = vectors(6, 1, CHANNELS)
    save_samples(ExemplarSet.from_arrays(rows[:2], [rows[2:5], rows[5:]], [1, 0]), "test", own)
    with ready_client(own, other, "miv/digits") as client:
        samples = {one["name"]: one["samples"] for one in client.get("/v1/models").json()["models"]}
        assert samples["other"] == []
        assert [(one["id"], one["use"]) for one in samples["own"]] == [("test-1", "verify"), ("test-0", "verify")]
        sample = client.get("/v1/samples/test-1?model=own").json()
        assert (sample["kind"], len(sample["bag"])) == ("features", 3)
        assert sample["query"] == pytest.approx(rows[0].tolist())
        exemplar = {"query": sample["query"], "bag": sample["bag"]}
        assert client.post("/v1/verify", json={"model": "own", "exemplars": [exemplar]}).status_code == 200
        assert client.get("/v1/samples/test-1?model=other").status_code == 404
        assert client.get("/v1/samples/digits-present?model=other").status_code == 404


def test_large_or_damaged_samples_are_not_served(tmp_path: Path) -> None:
    large = ExemplarSet.from_arrays(vectors(1, 1), [vectors(51, 2)], [1])
    save_samples(large, "test", tmp_path)
    assert read_samples(tmp_path) == []
    (tmp_path / "samples.json").write_text('{"format": "x", "samples": [{"id": 3}]}')
    with pytest.raises(MIVError, match="Delete the file"):
        read_samples(tmp_path)


def test_wrong_names_are_errors_before_anything_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(MIVError, match="Did you mean 'miv/digits'"):
        create_app(ServiceSettings(("miv/digitz",)))
    one, two = vectors_folder(tmp_path / "a"), vectors_folder(tmp_path / "b")
    with pytest.raises(MIVError, match=f"name vectors: {one} and {two}"):
        create_app(ServiceSettings((str(one), str(two))))
