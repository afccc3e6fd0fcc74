"""The index proposes bags, and its recall is measured and stated."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from miv import Gallery, MIVError, Verifier
from miv.gallery import bag_gallery as gallery_module
from miv.gallery import prefilter, row_codes
from miv.gallery.searching import search

CHANNELS = 16


def vectors(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.fixture
def small_indices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefilter, "LEAST_ROWS", 100)
    monkeypatch.setattr(prefilter, "_LEAST_PROPOSED", 40)
    monkeypatch.setattr(prefilter, "QUERIES", 20)


@pytest.mark.usefixtures("small_indices")
@pytest.mark.parametrize("pooling", ["cap_dba_l2", "cap_vema", "nearest", "baseline", "gabmil"])
def test_candidates_hold_the_best_bags_and_recall_is_stated(tmp_path: Path, pooling: str) -> None:
    gallery = Gallery.create(tmp_path / "gallery", Verifier(pooling, channels=CHANNELS))
    gallery.add_many({f"bag {number}": vectors(3, CHANNELS, seed=number) for number in range(300)})
    with pytest.raises(MIVError, match=r"has no index.*miv gallery index"):
        gallery.search(vectors(CHANNELS), prefilter=True)
    recall = gallery.build_index()
    query = vectors(3, CHANNELS, seed=7)[1] + 0.1 * vectors(CHANNELS, seed=999)
    exact, found = gallery.search(query), Gallery.open(tmp_path / "gallery").search(query, prefilter=True)
    assert found[0].name == exact[0].name
    assert found[0].probability == exact[0].probability
    assert found.compared < exact.compared == 300
    assert found.recall is not None
    assert found.recall.recall == recall > 0.6
    assert f"found {recall:.1%} of the 10 best bags" in str(found)
    assert exact.recall is None


@pytest.mark.usefixtures("small_indices")
def test_bags_added_after_the_index_are_found_and_removed_ones_are_not(tmp_path: Path) -> None:
    gallery = Gallery.create(tmp_path / "gallery", Verifier("cap_dba_l2", channels=CHANNELS))
    old = {f"bag {number}": vectors(3, CHANNELS, seed=number) for number in range(300)}
    gallery.add_many(old)
    gallery.build_index()
    late, shared = vectors(2, CHANNELS, seed=500), old["bag 5"][:1]
    gallery.add("late", np.concatenate([late, shared]))
    assert gallery.search(late[0], prefilter=True)[0].name == "late"
    assert "late" in [hit.name for hit in gallery.search(shared[0], prefilter=True)]
    gallery.remove("bag 5")
    assert all(hit.name != "bag 5" for hit in gallery.search(shared[0], top=50, prefilter=True))
    gallery.compact()
    assert gallery.search(late[0], prefilter=True)[0].name == "late"


@pytest.mark.usefixtures("small_indices")
def test_a_damaged_index_is_an_error(tmp_path: Path) -> None:
    gallery = Gallery.create(tmp_path / "gallery", Verifier("nearest", channels=CHANNELS))
    gallery.add_many({f"bag {number}": vectors(3, CHANNELS, seed=number) for number in range(50)})
    gallery.build_index()
    [path] = (tmp_path / "gallery" / "segments").glob("*/index.arrow")
    content = path.read_bytes()
    for damaged in (content[:-9], b"x" * len(content)):
        path.write_bytes(damaged)
        with pytest.raises(MIVError, match="index"):
            Gallery.open(tmp_path / "gallery").search(vectors(CHANNELS), prefilter=True)
    path.unlink()
    with pytest.raises(MIVError, match="missing"):
        Gallery.open(tmp_path / "gallery").search(vectors(CHANNELS), prefilter=True)


@pytest.mark.usefixtures("small_indices")
def test_a_search_goes_on_when_another_process_replaces_the_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Gallery.create(tmp_path / "gallery", Verifier("nearest", channels=CHANNELS))
    writer.add_many({f"bag {number}": vectors(3, CHANNELS, seed=number) for number in range(50)})
    writer.build_index()
    writer.remove("bag 5")
    reader, waiting = Gallery.open(tmp_path / "gallery"), [writer]

    def compacted_meanwhile(*given: Any) -> Any:
        if waiting:
            waiting.pop().compact()
        return search(*given)

    monkeypatch.setattr(gallery_module, "search", compacted_meanwhile)
    assert reader.search(vectors(3, CHANNELS, seed=7)[0], prefilter=True)[0].name == "bag 7"
    assert not waiting


def test_a_pooling_without_proposals_has_no_index(tmp_path: Path) -> None:
    gallery = Gallery.create(tmp_path / "gallery", Verifier("msa", channels=CHANNELS))
    gallery.add("a", vectors(3, CHANNELS))
    with pytest.raises(MIVError, match="no index can propose bags"):
        gallery.build_index()


def test_an_index_of_an_earlier_version_is_built_again(tmp_path: Path) -> None:
    gallery = Gallery.create(tmp_path / "gallery", Verifier("nearest", channels=CHANNELS))
    gallery.add("a", vectors(3, CHANNELS))
    manifest = json.loads((tmp_path / "gallery" / "gallery.json").read_text())
    manifest["segments"][0]["bytes"]["index.usearch"] = 5
    manifest["recall"] = {"recall": 0.7, "top": 10, "queries": 1, "bags": 1}
    (tmp_path / "gallery" / "gallery.json").write_text(json.dumps(manifest))
    opened = Gallery.open(tmp_path / "gallery")
    assert opened.search(vectors(CHANNELS))[0].name == "a"
    with pytest.raises(MIVError, match="index of an earlier version"):
        opened.search(vectors(CHANNELS), prefilter=True)
    assert opened.build_index() == 1.0
    assert opened.search(vectors(CHANNELS), prefilter=True)[0].name == "a"


def test_bits_are_counted_alike_with_and_without_the_function_of_numpy() -> None:
    words = np.random.default_rng(0).integers(0, 1 << 64, 500, dtype=np.uint64)
    words[:2] = 0, (1 << 64) - 1
    expected = [int(word).bit_count() for word in words]
    assert row_codes.ones_in_words(words).tolist() == row_codes.ones_in(words).tolist() == expected


def test_the_rows_nearest_by_their_codes_are_nearly_those_of_the_greatest_products(tmp_path: Path) -> None:
    rows = vectors(3000, CHANNELS) + 2  # with a centre of their own
    row_codes.write_codes(tmp_path / "codes.arrow", [rows[:1000], rows[1000:]], lambda given: given, lambda done: None)
    codes = row_codes.RowCodes(tmp_path / "codes.arrow", (tmp_path / "codes.arrow").stat().st_size, len(rows))
    query = vectors(CHANNELS, seed=1)
    found = codes.nearest(row_codes.codes_of(query[None])[0], 300)
    assert 300 <= len(found) < 500
    centred = rows - rows.mean(axis=0)
    cosine = centred @ query / np.linalg.norm(centred, axis=1)
    assert np.isin(np.argsort(-cosine)[:20], found).mean() > 0.9
