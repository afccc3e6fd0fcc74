"""``POST /v1/check`` answers as ``miv check --json`` does."""

import json
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from miv.service import Limits
from miv.service.metrics import configure_logs
from tests.cli.running import run_command
from tests.service.serving import ready_client, vectors_folder

pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = vectors_folder(tmp_path_factory.mktemp("models"))
    with ready_client("miv/evidence", folder, limits=Limits(characters=2_000, pairs=60)) as client:
        yield client


def test_the_document_is_that_of_the_command(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = client.get("/v1/samples/answer?model=miv/evidence").json()
    given = {"answer": sample["answer"], "sources": sample["sources"], "model": "miv/evidence"}
    response = client.post("/v1/check", json=given)
    monkeypatch.chdir(tmp_path)
    Path("answer.txt").write_text(sample["answer"])
    for source in sample["sources"]:
        Path(source["name"]).write_text(source["text"])
    named = [source["name"] for source in sample["sources"]]
    printed = run_command("check", "answer.txt", *named, "--json", "--model", "miv/evidence")
    assert response.json() == {**json.loads(printed), "warnings": []}


def test_texts_are_verified_and_never_opened(client: TestClient, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("The lighthouse is 31 metres high.")
    exemplar = {"query": str(secret), "bag": [str(secret), {"text": "The lighthouse is 31 metres high.", "name": "a"}]}
    response = client.post("/v1/verify", json={"model": "miv/evidence", "exemplars": [exemplar]})
    assert response.status_code == 200
    source = {"name": "a", "text": str(secret)}
    for answer in ("It is 31 metres high.", "my own notes.txt"):
        asked = {"model": "miv/evidence", "answer": answer, "sources": [source]}
        found = client.post("/v1/check", json=asked).json()
        assert [one["text"] for one in (*found["citations"], *found["nearest"])] == [str(secret)]
        assert [one["text"] for one in found["sentences"]] == [answer]


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"model": "vectors"}, 422),
        ({"model": "none"}, 404),
        ({"citations": 0}, 422),
        ({"citations": 1_000}, 422),
        ({"answer": ""}, 422),
        ({"answer": "# \n"}, 422),
        ({"answer": "x" * 2_001}, 413),
        ({"answer": "It is so. " * 12}, 413),
        ({"sources": [{"name": "a", "text": "One two three."}] * 2}, 422),
        ({"sources": [{"name": "a", "text": "<html><p>One two three."}]}, 422),
        ({"question": ""}, 422),
    ],
)
def test_what_cannot_be_checked_is_refused(client: TestClient, changed: dict[str, object], status: int) -> None:
    text = "The harbour is old. " * 8
    body = {"model": "miv/evidence", "answer": "The harbour is old.", "sources": [{"name": "a", "text": text}]}
    response = client.post("/v1/check", json={**body, **changed})
    assert response.status_code == status, response.text


def test_warnings_are_in_the_answer_each_time_and_not_in_the_log(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    configure_logs(Path("-"))
    long = "Bees " + "and bees " * 200 + "make honey."
    sources = [{"name": "SECRET.txt", "text": "---"}, {"name": "bees.txt", "text": "Bees make honey."}]
    for _ in range(2):
        answer = client.post("/v1/check", json={"answer": long, "sources": sources}).json()
        assert answer["warnings"] == ["SECRET.txt has no sentence; it was left out."]
        assert answer["sentences"][0]["words_read"] < 100
    body = {"model": "miv/evidence", "exemplars": [{"query": "Bees hum.", "bag": [long, "Cats."]}]}
    client.post("/v1/verify", json=body)
    log = capsys.readouterr().err
    lines = [json.loads(line) for line in log.splitlines()]
    assert "1 of 3 texts have more than 64 tokens" in next(line["words"] for line in lines if "words" in line)
    assert "SECRET" not in log


def test_a_judge_checks_and_verifies() -> None:
    with ready_client("miv/judge") as client:
        text = "Marie Curie was born in Warsaw. Polonium is a metal."
        asked = {
            "answer": "Warsaw.",
            "question": "Where was Marie Curie born?",
            "sources": [{"name": "a", "text": text}],
        }
        checked = client.post("/v1/check", json=asked).json()
        [said] = checked["sentences"]
        assert (said["outcome"], said["citations"], checked["citations"][0]["sentence"]) == ("supported", [1], 1)
        exemplars = [
            {"query": "Polonium is a metal.", "bag": text.split(". ")},
            {"query": "Cats hum.", "bag": ["Bees hum."]},
        ]
        first, second = client.post("/v1/verify", json={"exemplars": exemplars}).json()["verdicts"]
        assert first["verdict"] is True
        assert first["witnesses"][0]["index"] == 1
        assert second["verdict"] is False
        assert (
            client.post("/v1/check", json={"answer": "Bees hum today.", "sources": []}).json()["counts"]["supported"]
            == 0
        )
