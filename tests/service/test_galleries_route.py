"""Galleries over HTTP, on the folders of ``miv gallery``."""

import base64
import io
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image

from miv import Gallery, Verifier
from miv.gallery import GalleryManifest, Snapshot, store
from miv.service import Limits
from miv.service.galleries import bytes_below
from tests.service.serving import ready_client, vector_lists as vectors


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("galleries")


@pytest.fixture(scope="module")
def client(model: str, registry: Path) -> Iterator[TestClient]:
    with ready_client(model, galleries=registry) as client:
        yield client


def create(client: TestClient, name: str) -> None:
    response = client.post("/v1/galleries", json={"name": name})
    assert response.status_code == 201, response.text


def put(client: TestClient, gallery: str, bag: str, instances: Any) -> Any:
    return client.put(f"/v1/galleries/{gallery}/bags/{bag}", json={"bag": instances})


def search(client: TestClient, gallery: str, query: Any, **more: Any) -> Any:
    return client.post(f"/v1/galleries/{gallery}/search", json={"query": query, **more})


def message(response: Any) -> str:
    return str(response.json()["error"]["message"])


def test_bags_are_added_replaced_found_and_removed(client: TestClient, registry: Path) -> None:
    create(client, "letters")
    assert put(client, "letters", "one", vectors(3, 1)).json() == {"name": "one", "size": 3, "bags": 1}
    assert put(client, "letters", "box%201/two", vectors(2, 2)).json()["bags"] == 2
    assert put(client, "letters", "one", vectors(5, 3)).json() == {"name": "one", "size": 5, "bags": 2}
    found = search(client, "letters", vectors(1, 9)[0], top=2).json()
    gallery = Gallery.open(registry / "letters")
    assert found == {"model": "vectors", **gallery.search(vectors(1, 9)[0], 2).document()}
    assert {hit["name"] for hit in found["hits"]} == {"one", "box 1/two"}
    about = client.get("/v1/galleries/letters").json()
    assert (about["names"], about["bags"], about["members"]) == (["box 1/two", "one"], 2, 7)
    assert "folder" not in about
    assert client.delete("/v1/galleries/letters/bags/box%201/two").status_code == 204
    assert client.delete("/v1/galleries/letters/bags/box%201/two").status_code == 404
    assert gallery.names == ["one"]
    gallery.add("other", vectors(2, 7))  # what other processes add is found without a restart
    found = search(client, "letters", vectors(3, 9)).json()
    assert (found["references"], found["bags"]) == (3, 2)


def test_costly_witnesses_give_way_to_cheap_ones_with_a_note(model: str, tmp_path: Path) -> None:
    with ready_client(model, galleries=tmp_path, limits=Limits(pooled=2_000)) as client:
        create(client, "costly")
        put(client, "costly", "large", vectors(100, 1))
        cheap = search(client, "costly", vectors(1, 9)[0], witnesses="attention").json()
        costly = search(client, "costly", vectors(1, 9)[0], witnesses="leave_one_out").json()
        assert costly["hits"] == cheap["hits"]
        assert "would pool 10,100 instances: they are by attention" in costly["notes"][-1]
        refused = search(client, "costly", vectors(20, 9), witnesses="attention")
        assert (refused.status_code, "2,100 instances" in message(refused)) == (413, True)


def test_hits_show_pictures_of_files_in_one_folder_only(tmp_path: Path) -> None:
    names = []
    for number, folder in enumerate(("shown", "shown", "secret", "shown")):
        (tmp_path / folder).mkdir(exist_ok=True)
        names.append(str(tmp_path / folder / f"{number}.png"))
        Image.fromarray(np.random.default_rng(number).integers(0, 256, (300, 300), np.uint8)).save(names[-1])
    (tmp_path / "shown" / "link.png").symlink_to(names[2])
    names[3] = str(tmp_path / "shown" / "link.png")
    gallery = Gallery.create(tmp_path / "galleries" / "letters", "miv/digits")
    gallery.add("one", names, instance_names=names, resize="stretch")
    query = {"image": base64.b64encode(Path(names[0]).read_bytes()).decode()}
    with ready_client("miv/digits", galleries=tmp_path / "galleries", pictures=tmp_path / "shown") as client:
        assert "shown" not in search(client, "letters", query, resize="stretch").json()["hits"][0]
        [hit] = search(client, "letters", query, resize="stretch", pictures=True).json()["hits"]
    assert [one["name"] for one in hit["shown"]] == names
    assert [one["picture"] is not None for one in hit["shown"]] == [True, True, False, False]
    assert {one["index"] for one in hit["shown"] if one["is_witness"]} == {one["index"] for one in hit["witnesses"]}
    small = Image.open(io.BytesIO(base64.b64decode(hit["shown"][0]["picture"].partition(",")[2])))
    assert small.size == (192, 192)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 512 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("A disk can be mounted only by an administrator.")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.filterwarnings("ignore:The bags are in the gallery")
def test_answers_on_a_full_disk_are_true_and_removing_frees_it(model: str, small_disk: Path) -> None:
    with ready_client(model, galleries=small_disk) as client:
        create(client, "full")
        stored, statuses = set(), set()
        for number in range(200):
            answer = put(client, "full", str(number), vectors(100, number))
            statuses.add(answer.status_code)
            stored |= {str(number)} if answer.status_code == 200 else set()
            if len(stored) > 3 and not number % 10:
                gone = min(stored)
                freed = client.delete(f"/v1/galleries/full/bags/{gone}").status_code
                stored -= {gone} if freed == 204 else set()
            assert set(client.get("/v1/galleries/full").json()["names"]) == stored, number
        assert statuses == {200, 503}
        for name in sorted(stored)[2:]:
            assert client.delete(f"/v1/galleries/full/bags/{name}").status_code == 204
        for number in range(10):
            assert put(client, "full", f"new {number}", vectors(100, 300 + number)).status_code == 200


def test_an_unknown_field_is_named(client: TestClient) -> None:
    create(client, "fields")
    refused = search(client, "fields", vectors(1, 1)[0], prefilter=True)
    assert (refused.status_code, "prefilter: Extra inputs are not permitted" in message(refused)) == (422, True)


def test_a_name_with_a_line_break_is_refused(client: TestClient) -> None:
    create(client, "lines")
    for name in ("a%0Ab", "a%0A", "%7Fa"):
        refused = put(client, "lines", name, vectors(1, 1))
        assert (refused.status_code, "line breaks" in message(refused)) == (422, True), name


def test_the_list_names_the_model_or_the_problem(client: TestClient, registry: Path) -> None:
    create(client, "listed")
    Gallery.create(registry / "foreign", Verifier("cap_vema", channels=8))
    (registry / "damaged").mkdir()
    (registry / "damaged" / "gallery.json").write_text("{")
    (registry / "no gallery").mkdir()
    listed = {one["name"]: one for one in client.get("/v1/galleries").json()["galleries"]}
    assert "no gallery" not in listed
    counts = {"bags": 0, "instances": 0, "bytes": 0}
    assert listed["listed"] == {"name": "listed", "model": "vectors", **counts, "problem": None}
    assert "damaged" in listed["damaged"]["problem"]
    command = "miv gallery create NEW MODEL --like foreign"
    assert command in listed["foreign"]["problem"]
    for response in (search(client, "foreign", [1.0] * 8), put(client, "foreign", "a", [[1.0] * 8])):
        assert response.status_code == 409
        assert command in message(response)
    refused = client.get("/v1/galleries/damaged")
    assert refused.status_code == 409
    assert str(registry) not in message(refused)


@pytest.mark.parametrize("name", ["..", ".hidden", "a/b", "a b", "", "é", "x" * 101, "a\\b", "a\x00b"])
def test_a_name_that_could_be_a_path_is_refused(client: TestClient, registry: Path, name: str) -> None:
    before = sorted(registry.parent.iterdir())
    assert client.post("/v1/galleries", json={"name": name}).status_code == 422
    assert sorted(registry.parent.iterdir()) == before


def test_nothing_outside_the_folder_is_a_gallery(client: TestClient, registry: Path, tmp_path: Path) -> None:
    Gallery.create(tmp_path / "secret", Verifier("cap_vema", channels=4))
    (registry / "link").symlink_to(tmp_path / "secret")
    for name in ("link", "..%2fsecret", "%2e%2e", f"{tmp_path}/secret"):
        assert client.get(f"/v1/galleries/{name}").status_code in (404, 405), name
    assert "link" not in client.get("/v1/galleries").text


VERBS: list[Callable[[TestClient, str], Any]] = [
    lambda client, gallery: client.get(f"/v1/galleries/{gallery}"),
    lambda client, gallery: put(client, gallery, "one", vectors(3, 1)),
    lambda client, gallery: client.delete(f"/v1/galleries/{gallery}/bags/one"),
    lambda client, gallery: search(client, gallery, vectors(1, 9)[0]),
]


def test_a_gallery_that_is_not_there_is_404_for_every_verb(client: TestClient, registry: Path) -> None:
    for name in ("removed", "replaced"):
        create(client, name)
        assert [verb(client, name).status_code for verb in VERBS] == [200, 200, 204, 200]
        shutil.rmtree(registry / name)
    (registry / "replaced").write_text("a file")
    (registry / "empty").mkdir()
    for name in ("never", "removed", "replaced", "empty"):
        for verb in VERBS:
            assert verb(client, name).status_code == 404


WRITING = [(GalleryManifest, "save"), (Snapshot, "open")]


@contextmanager
def before_call(owner: Any, name: str, number: int, change: Callable[[], object]) -> Iterator[list[bool]]:
    """Change something just before a function is called for the time with this number; yields whether that was."""
    original, calls, changed = getattr(owner, name), count(), [False]

    def called(*arguments: Any, **options: Any) -> Any:
        if next(calls) == number:
            changed[0] = True
            change()
        return original(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, called)
        yield changed


@pytest.mark.parametrize(
    ("verb", "owner", "function"),
    [
        *((verb, GalleryManifest, "load") for verb in range(4)),
        *((verb, owner, function) for verb in (1, 2) for owner, function in WRITING),
        (1, store, "write_segment"),
    ],
)
def test_a_gallery_that_vanishes_during_requests_is_404_and_stays_away(
    client: TestClient, registry: Path, verb: int, owner: Any, function: str
) -> None:
    for number in range(20):
        name = f"vanishing-{verb}-{function}-{number}"
        create(client, name)
        put(client, name, "one", vectors(2, 1))
        with before_call(owner, function, number, partial((registry / name).rename, registry / f".{name}")) as vanished:
            response = VERBS[verb](client, name)
        if not vanished[0]:  # it was called less often
            break
        assert response.status_code in {200, 204, 404}, response.text
        assert client.get(f"/v1/galleries/{name}").status_code == 404
        assert not (registry / name / "gallery.json").exists()
    assert 0 < number < 19


def test_a_gallery_that_is_replaced_during_a_request_is_left_as_it_is(
    client: TestClient, registry: Path, model: str
) -> None:
    create(client, "replaced-soon")

    def replace() -> None:
        shutil.rmtree(registry / "replaced-soon")
        Gallery.create(registry / "replaced-soon", Verifier.from_pretrained(model)).add("other", vectors(2, 5))

    with before_call(store.OpenGallery, "write_segment", 0, replace):
        refused = put(client, "replaced-soon", "one", vectors(3, 1))
    assert refused.status_code == 409
    assert message(refused).startswith("The gallery replaced-soon was replaced by another meanwhile.")
    assert client.get("/v1/galleries/replaced-soon").json()["names"] == ["other"]


def test_two_requests_create_a_gallery_once(client: TestClient) -> None:
    found: list[int] = []

    def ask() -> None:
        found.append(client.post("/v1/galleries", json={"name": "race"}).status_code)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [201, 409, 409, 409]
    assert "Choose another name" in message(client.post("/v1/galleries", json={"name": "race"}))


def test_a_busy_gallery_is_503_with_retry_after(client: TestClient, registry: Path) -> None:
    create(client, "busy")
    put(client, "busy", "one", vectors(3, 1))
    with Gallery.open(registry / "busy")._store.writing():
        for refused in (put(client, "busy", "two", vectors(2, 2)), client.delete("/v1/galleries/busy/bags/one")):
            assert refused.status_code == 503
            assert int(refused.headers["Retry-After"]) >= 1
        assert search(client, "busy", vectors(1, 9)[0]).status_code == 200  # searching goes on
    assert put(client, "busy", "two", vectors(2, 2)).status_code == 200


def test_full_galleries_take_no_more_until_bags_are_removed(model: str, tmp_path: Path) -> None:
    with ready_client(model, galleries=tmp_path, gallery_bytes=9_000) as client:
        create(client, "small")
        number = 0
        while (response := put(client, "small", str(number), vectors(1, number))).status_code == 200:
            number += 1
            assert number < 100
        assert response.status_code == 413
        assert "--gallery-bytes" in message(response)
        assert client.post("/v1/galleries", json={"name": "more"}).status_code == 413
        assert search(client, "small", vectors(1, 9)[0]).json()["bags"] == number > 3
        assert bytes_below(tmp_path) < 1.1 * 9_000  # also the verifier's copy and the manifest
        assert client.delete("/v1/galleries/small/bags/0").status_code == 204
        assert client.delete("/v1/galleries/small/bags/1").status_code == 204
        assert put(client, "small", "new", vectors(1, 99)).json()["bags"] == number - 1


def test_a_wrong_bag_or_search_changes_nothing(client: TestClient, registry: Path) -> None:
    create(client, "wrong")
    bags: list[tuple[Any, int]] = [
        ({"bag": []}, 422),
        ({"bag": [[1.0, 2.0]]}, 422),
        ({"bag": ["/etc/passwd"]}, 422),
        ({"bag": [[1.0] * 4], "name": "x"}, 422),
        ({"bag": [[1.0] * 4] * 2001}, 413),
    ]
    for body, status in bags:
        assert client.put("/v1/galleries/wrong/bags/one", json=body).status_code == status
    for body in ({"query": [1.0, 2.0]}, {"query": [1.0] * 4, "top": 0}, {"top": 3}, {"query": "text"}):
        assert client.post("/v1/galleries/wrong/search", json=body).status_code == 422
    assert len(Gallery.open(registry / "wrong")) == 0
