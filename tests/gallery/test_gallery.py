"""A gallery through its public interface: add, remove, replace, search, reopen."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from miv import Gallery, MIVError, Verifier, list_poolings
from miv.verifier.decisions import OperatingPoint

CHANNELS = 8
GOLDEN = Path(__file__).parents[1] / "fence" / "golden"


def vectors(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def gallery_of(folder: Path, pooling: str = "cap_dba_l2", bags: int = 12) -> Gallery:
    gallery = Gallery.create(folder, Verifier(pooling, channels=CHANNELS))
    gallery.add_many({f"bag {number}": vectors(1 + number % 4, CHANNELS, seed=number) for number in range(bags)})
    return gallery


@pytest.mark.parametrize(("pooling", "shape"), [*((name, (8,)) for name in list_poolings()), ("cap_dba_l2", (3, 8))])
def test_a_search_gives_what_verify_gives(tmp_path: Path, pooling: str, shape: tuple[int, ...]) -> None:
    gallery = gallery_of(tmp_path / "gallery", pooling)
    query = vectors(*shape, seed=99)  # one, or three references
    hits = Gallery.open(tmp_path / "gallery").search(query, top=12)
    assert sorted(hit.name for hit in hits) == sorted(gallery.names)
    for hit in hits:
        number = int(hit.name.split()[1])
        expected = gallery.verifier.verify(query, vectors(1 + number % 4, CHANNELS, seed=number))
        assert hit.probability == pytest.approx(expected.probability, abs=1e-6)
        assert (hit.verdict, hit.size) == (expected.verdict, expected.size)
        assert [one.index for one in hit.witnesses] == [one.index for one in expected.witnesses]
    probabilities = [hit.probability for hit in hits]
    assert probabilities == sorted(probabilities, reverse=True)
    assert [hit.name for hit in gallery.search(query, top=3)] == [hit.name for hit in hits[:3]]


def test_images_unlike_those_of_train_are_told_as_verify_tells_them(tmp_path: Path) -> None:
    query, *bag = np.load(GOLDEN / "digits.npy")
    bags = {"ink": bag, "black on white": [255 - image for image in bag], "both": [bag[0], 255 - bag[0]]}
    gallery = Gallery.create(tmp_path / "first", "miv/digits")
    gallery.add_many(bags)
    gallery.compact()
    for hit in Gallery.create(tmp_path / "copy", "miv/digits", like=tmp_path / "first").search(query):
        expected = gallery.verifier.verify(query, bags[hit.name])
        assert (hit.decision, hit.answer.reason, hit.answer.warnings, hit.document()["unlike"]) == (
            expected.decision, expected.reason, expected.warnings, expected.document()["unlike"]
        )  # fmt: skip
        assert (hit.decision == "unsure") == (hit.name == "black on white")


def test_removed_and_replaced_bags_are_not_found(tmp_path: Path) -> None:
    gallery = gallery_of(tmp_path / "gallery")
    reader = Gallery.open(tmp_path / "gallery")
    wanted = vectors(1, CHANNELS, seed=50)
    gallery.replace("bag 3", wanted)
    assert reader.search(wanted[0])[0].name == "bag 3"
    assert len(reader) == 12
    gallery.remove("bag 3")
    assert "bag 3" not in reader
    assert all(hit.name != "bag 3" for hit in reader.search(wanted[0], top=50))
    gallery.add("bag 3", vectors(2, CHANNELS, seed=51))  # the name is free again
    before = [(hit.name, hit.probability) for hit in reader.search(wanted[0], top=50)]
    unused = gallery.info()["unused_instances"]
    gallery.compact()
    assert unused > 0
    assert gallery.info()["unused_instances"] == gallery.info()["removed_bags"] == 0
    assert [(hit.name, hit.probability) for hit in reader.search(wanted[0], top=50)] == before


def test_each_distinct_instance_is_stored_once(tmp_path: Path) -> None:
    gallery = Gallery.create(tmp_path / "gallery", Verifier("cap_vema", channels=CHANNELS))
    shared = vectors(5, CHANNELS)
    for number in range(40):
        gallery.add(f"bag {number}", np.concatenate([shared, vectors(1, CHANNELS, seed=number + 1), shared[:1]]))
    info = gallery.info()
    assert (info["instances"], info["members"], info["bags"]) == (45, 280, 40)
    assert info["segments"] < 10  # small ones are merged


def test_adding_the_same_again_changes_nothing_and_other_instances_are_refused(tmp_path: Path) -> None:
    gallery = gallery_of(tmp_path / "gallery")
    before = gallery.info()
    gallery.add("bag 2", vectors(3, CHANNELS, seed=2))
    assert gallery.info() == before
    with pytest.raises(MIVError, match=r"'bag 2' with other instances.*miv gallery replace"):
        gallery.add("bag 2", vectors(2, CHANNELS))
    with pytest.raises(MIVError, match="two bags named 'x'"):
        gallery.add_many([("x", vectors(1, CHANNELS)), ("x", vectors(1, CHANNELS))])
    with pytest.raises(MIVError, match=r"no bag 'bag 22'\. Did you mean 'bag 2'"):
        gallery.remove("bag 1", "bag 22", "bag 2")
    assert len(gallery) == 12  # nothing is removed
    gallery.remove("bag 1", "bag 2")
    assert len(gallery) == 10


def test_names_are_data_and_never_paths(tmp_path: Path) -> None:
    gallery = Gallery.create(tmp_path / "gallery", Verifier("nearest", channels=CHANNELS))
    names = ["../../outside", "/etc/passwd", "a\nb", "ä b", "nul\x00", "x" * 1000]
    gallery.add_many((name, vectors(1, CHANNELS, seed=number)) for number, name in enumerate(names))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gallery"]
    assert Gallery.open(tmp_path / "gallery").names == names
    for wrong in ("", "  ", "x" * 1001, "\ud800", 3):
        with pytest.raises(MIVError, match="name of a bag"):
            gallery.add(wrong, vectors(1, CHANNELS))  # type: ignore[arg-type]


def test_another_verifier_is_refused_with_the_command_that_rebuilds(tmp_path: Path) -> None:
    gallery = gallery_of(tmp_path / "gallery")
    other = Verifier("cap_dba_l2", channels=CHANNELS)
    other.save_pretrained(tmp_path / "other")
    with pytest.raises(MIVError, match=r"miv gallery create NEW .*other --like .*gallery"):
        Gallery.open(tmp_path / "gallery", tmp_path / "other")
    copy = Gallery.create(tmp_path / "new", tmp_path / "other", like=tmp_path / "gallery")
    assert copy.names == gallery.names
    query = vectors(CHANNELS, seed=7)
    assert copy.search(query)[0].probability == pytest.approx(
        max(other.verify(query, vectors(1 + one % 4, CHANNELS, seed=one)).probability for one in range(12)), abs=1e-6
    )


def test_a_hit_between_two_thresholds_is_unsure(tmp_path: Path) -> None:
    gallery = gallery_of(tmp_path / "gallery")
    query = vectors(CHANNELS, seed=7)
    ranked = [hit.probability for hit in gallery.search(query, top=12)]
    gallery.verifier.operating_point = OperatingPoint(
        threshold=(ranked[1] + ranked[2]) / 2, goal="two", lower_threshold=(ranked[4] + ranked[5]) / 2
    )
    for given in (query, np.stack([query, query])):  # one reference, and the same twice
        hits = Gallery.open(tmp_path / "gallery", gallery.verifier).search(given, top=12)
        assert [hit.decision for hit in hits] == ["yes"] * 2 + ["unsure"] * 3 + ["no"] * 7
        assert "Unsure: between the thresholds (probability" in str(hits)
        assert hits.document()["hits"][2]["decision"] == "unsure"


def test_an_empty_gallery_has_no_hits_and_odd_input_is_refused(tmp_path: Path) -> None:
    gallery = Gallery.create(tmp_path / "gallery", Verifier("cap_dba_l2", channels=CHANNELS))
    assert list(gallery.search(vectors(CHANNELS))) == []
    with pytest.raises(MIVError, match="already exists"):
        Gallery.create(tmp_path / "gallery", gallery.verifier)
    with pytest.raises(MIVError, match=r"made by `miv gallery create`"):
        Gallery.open(tmp_path)
    with pytest.raises(MIVError, match="top is 0"):
        gallery.search(vectors(CHANNELS), top=0)
    with pytest.raises(MIVError, match="'x': the bag is empty"):
        gallery.add("x", [])
    with pytest.raises(MIVError, match="NaN or infinity"):
        gallery.add("x", np.full((2, CHANNELS), np.nan))
    assert gallery.info()["instances"] == 0


@pytest.mark.parametrize(
    "query",
    [
        [[1.0] * CHANNELS, [1.0]],
        [[1.0] * CHANNELS, [np.nan] * CHANNELS],
        np.zeros((0, CHANNELS)),
        5.0,
        None,
        [],
        "text",
    ],
    ids=lambda query: type(query).__name__,
)
def test_a_bad_query_is_refused_with_the_words_of_verify(tmp_path: Path, query: Any) -> None:
    gallery = gallery_of(tmp_path / "gallery", "nearest", bags=1)
    with pytest.raises(MIVError, match="The query") as of_search:
        gallery.search(query)
    with pytest.raises(MIVError) as of_verify:
        gallery.verifier.verify(query, vectors(2, CHANNELS))
    assert str(of_search.value) == str(of_verify.value)


def test_replace_changes_the_names_of_the_same_instances(tmp_path: Path) -> None:
    gallery = gallery_of(tmp_path / "gallery", "nearest", bags=2)
    instances = vectors(2, CHANNELS, seed=1)
    gallery.replace("bag 1", instances, instance_names=["left", "right"])
    hit = Gallery.open(tmp_path / "gallery").search(instances[1])[0]
    assert (hit.name, hit.witnesses[0].name) == ("bag 1", "right")
    before = gallery.info()
    gallery.replace("bag 1", instances, instance_names=["left", "right"])
    assert gallery.info() == before


def test_the_class_itself_takes_a_name_and_refuses_another_verifier(tmp_path: Path) -> None:
    verifier = Verifier("nearest", channels=4)
    gallery = Gallery.create(tmp_path / "gallery", verifier)
    assert (
        repr(Gallery(str(tmp_path / "gallery"), verifier)) == repr(Gallery(str(tmp_path / "gallery"))) == repr(gallery)
    )
    with pytest.raises(MIVError, match="does not fit another verifier"):
        Gallery(tmp_path / "gallery", Verifier("baseline", channels=4))
