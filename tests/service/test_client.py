"""``miv.service`` against a service on a port of this machine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from miv import MIVError, Verifier
from miv.service import Client, ServiceError
from miv.verifier.verdict import Verdict
from tests.cli.packing import ROOT
from tests.docs.page_blocks import read_blocks
from tests.service.serving import free_port, served, vectors

TOKEN = "a-token-for-tests"


@pytest.fixture(scope="module")
def url(model: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served("miv/digits", model, galleries=tmp_path_factory.mktemp("galleries"), token=TOKEN) as url:
        yield url


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url, TOKEN) as client:
        yield client


@pytest.fixture(scope="module")
def images() -> Any:
    return np.random.default_rng(0).integers(0, 256, (6, 28, 28), np.uint8)


def same(one: Verdict, other: Verdict) -> None:
    a, b = one.document(), other.document()
    assert a.keys() == b.keys()
    for key, value in a.items():
        if isinstance(value, float) or (isinstance(value, list) and key not in ("witnesses", "matched_by", "warnings")):
            np.testing.assert_allclose(value, b[key], rtol=1e-4, atol=1e-6)
        elif key == "witnesses":
            assert [witness["index"] for witness in value] == [witness["index"] for witness in b[key]]
        else:
            assert value == b[key], key
    assert str(one).splitlines()[0] == str(other).splitlines()[0]


def test_vectors_get_the_verdict_of_the_verifier(client: Client, model: str) -> None:
    for query in (vectors(1, 1)[0], vectors(3, 1)):  # several references are one query
        verdict = client.verify(query, vectors(5, 2), model="vectors")
        same(verdict, Verifier.from_pretrained(model).verify(query, vectors(5, 2)))
        assert verdict.attention is not None
        assert verdict.attention.shape == (5,)
    assert verdict.matches is not None
    assert verdict.matches.shape == (3, 5)


@pytest.mark.parametrize("form", ["array", "pillow", "file", "folder", "netpbm"])
def test_images_can_be_arrays_pillow_images_files_or_a_folder(
    client: Client, images: Any, tmp_path: Path, form: str
) -> None:
    suffix = "pgm" if form == "netpbm" else "png"
    (tmp_path / "bag").mkdir()
    for number, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / "bag" / f"{number}.{suffix}")
    files = [tmp_path / "bag" / f"{number}.{suffix}" for number in range(1, 6)]
    query, bag = {
        "array": (images[0], images[1:]),
        "pillow": (Image.fromarray(images[0]), [Image.fromarray(one) for one in images[1:]]),
        "file": (str(tmp_path / "bag" / "0.png"), files),
        "netpbm": (tmp_path / "bag" / "0.pgm", files),
        "folder": (images[0], tmp_path / "bag"),
    }[form]
    same(client.verify(query, bag, model="miv/digits"), Verifier.from_pretrained("miv/digits").verify(query, bag))


def test_what_has_no_content_is_not_called_out_of_distribution(client: Client, images: Any) -> None:
    blank = np.zeros((28, 28), np.uint8)
    for query, bag in ((images[0], [blank, images[1]]), (blank, [images[0]])):
        verdict = client.verify(query, bag, model="miv/digits")
        same(verdict, expected := Verifier.from_pretrained("miv/digits").verify(query, bag))
        assert verdict.unlike is not None
        assert expected.unlike is not None
        for part in ("query", "bag", "reason", "note"):
            assert np.array_equal(getattr(verdict.unlike, part), getattr(expected.unlike, part)), part
        assert 2 in [*verdict.unlike.query, *verdict.unlike.bag]


def test_a_gallery_is_filled_and_searched(client: Client, images: Any) -> None:
    gallery = client.create_gallery("digits", model="miv/digits")
    gallery.put("box 1/first", images[:3], instance_names=["a", "b", "c"])
    gallery.put("second", images[3:])
    found = client.gallery("digits").search(images[4], top=1)
    assert found["bags"] == len(gallery) == 2
    assert len(found["hits"]) == 1
    assert gallery.info()["names"] == ["box 1/first", "second"]
    gallery.remove("box 1/first")
    assert gallery.info()["names"] == ["second"]
    assert [one["name"] for one in client.galleries()] == ["digits"]
    with pytest.raises(ServiceError, match="already") as caught:
        client.create_gallery("digits", model="miv/digits")
    assert caught.value.status == 409
    with pytest.raises(MIVError, match=r"There is no gallery 'digit'. Did you mean 'digits'"):
        client.gallery("digit")


def test_errors_say_what_to_do(client: Client, url: str, tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="token"):
        Client(url).models()
    with pytest.raises(MIVError, match=r"The service has 2 models. Expected model=, one of miv/digits, vectors"):
        client.verify([1.0], [[1.0]])
    with pytest.raises(MIVError, match=r"There is no model 'vector'. Did you mean 'vectors'"):
        client.verify([1.0], [[1.0]], model="vector")
    with pytest.raises(ServiceError, match=r"Expected .*4.*HTTP 422"):
        client.verify([1.0], [[1.0]], model="vectors")
    with pytest.raises(MIVError, match="NaN"):
        client.verify([np.nan] * 4, [[1.0] * 4], model="vectors")
    with pytest.raises(MIVError, match="The bag is empty"):
        client.verify([1.0] * 4, [], model="vectors")
    with pytest.raises(MIVError, match=r"The bag, instance 1: could not read .*missing.png"):
        client.verify(
            np.zeros((28, 28), np.uint8), [np.zeros((28, 28), np.uint8), tmp_path / "missing.png"], model="miv/digits"
        )
    with pytest.raises(MIVError, match="Exemplar 1: the bag is empty"):
        client.verify_many(vectors(2, 1), [vectors(2, 2), []], model="vectors")
    with pytest.raises(MIVError, match="1 queries and 2 bags"):
        client.verify_many(vectors(1, 1), [vectors(2, 2), []], model="vectors")


def test_a_service_that_does_not_run_is_an_error() -> None:
    with pytest.raises(MIVError, match=r"Could not reach .*Is `miv serve` running there"):
        Client(f"http://127.0.0.1:{free_port()}").models()


def test_an_address_is_checked() -> None:
    for url in ("localhost:8000", "ftp://localhost", "http://", "http://a/?a=1", "http://a:99999", "http://[::1"):
        with pytest.raises(MIVError, match="Expected one such as http://localhost:8000"):
            Client(url)


# The Python of docs/serving.md runs against a service.


def test_the_code_of_the_page_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = [block.text for block in read_blocks(ROOT / "docs" / "serving.md") if block.language == "python"]
    names: dict[str, Any] = {}
    with served("miv/digits", galleries=tmp_path / "galleries") as url:
        for text in blocks:
            if "miv/evidence" not in text:  # its libraries are large
                exec(text.replace("http://localhost:8000", url), names)
        names["client"].close()
    printed = capsys.readouterr().out
    assert "'second'" in printed
