"""What `GET /v1/models` says, and which models a request may leave out."""

from pathlib import Path

import pytest

from miv.errors import MIVError
from miv.service import ServiceSettings, create_app
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
