"""A kept bag answers like the bag it was made of, up to the digits that were kept."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from miv import MIVError
from miv.verifier import chunks
from miv.verifier.out_of_distribution import OutOfDistributionLimit
from tests.poolings.test_stored_forms import CHANNELS, verifier_of
from tests.verifier.test_streaming_pass import STREAMED, bag_and_queries


@pytest.mark.parametrize("pooling", STREAMED)
@pytest.mark.parametrize(("rows", "limit"), [("float32", 1e-5), ("float16", 5e-3), ("int8", 0.1)])
def test_a_kept_bag_answers_like_the_bag(
    pooling: str, rows: Any, limit: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 1000)  # many chunks
    verifier = verifier_of(pooling, {}, "similar")
    bag, queries = bag_and_queries()
    kept = verifier.keep_bag(bag, tmp_path / "kept", rows=rows)
    assert (kept.size, kept.kind) == (len(bag), rows)
    assert (tmp_path / "kept" / "rows.npy").stat().st_size == bag.size * np.dtype(rows).itemsize + 128
    expected = verifier.verify_many(queries, [bag] * 3)
    for source in (kept, tmp_path / "kept", str(tmp_path / "kept")):
        found = verifier.verify_stream(queries, source, top=3)
        np.testing.assert_allclose([one.logit for one in found], expected.logit, rtol=limit, atol=limit)
        assert found[0].size == len(bag)
    if rows == "float32":
        exact = verifier.verify_stream(queries, bag, top=3)
        assert [one.leading for one in found] == [one.leading for one in exact]


def test_a_limit_calibrated_later_is_not_answered_by_an_older_one(tmp_path: Path) -> None:
    verifier = verifier_of("cap_dba_l2", {}, "similar")
    bag, queries = bag_and_queries()
    covariance = np.zeros(CHANNELS, np.float32), np.eye(2, CHANNELS, dtype=np.float32), np.ones(2)
    kept = verifier.keep_bag(bag, tmp_path / "before")
    verifier.unlike = OutOfDistributionLimit(*covariance, 1.0, 1e6, 0.01)
    for source in (kept, tmp_path / "before"):
        with pytest.raises(MIVError, match="was calibrated after the bag"):
            verifier.verify_stream(queries, source)
    kept = verifier.keep_bag(bag, tmp_path / "after")
    for limit, all_beyond in ((1e6, False), (0.0, True)):
        verifier.unlike = OutOfDistributionLimit(*covariance, 1.0, limit, 0.01)
        for given in (bag, kept, tmp_path / "after"):
            found = verifier.verify_stream(queries * 0, given)
            assert [one.reason is not None for one in found] == [all_beyond] * 3
    verifier.unlike = OutOfDistributionLimit(*covariance, 2.0, 0.0, 0.01)
    with pytest.raises(MIVError, match="was calibrated after the bag"):
        verifier.verify_stream(queries, kept)


def test_wrong_kept_bags_are_refused(tmp_path: Path) -> None:
    verifier = verifier_of("cap_ma", {}, "similar")
    bag, queries = bag_and_queries()
    verifier.keep_bag(bag, tmp_path / "kept")
    with pytest.raises(MIVError, match="already exists"):
        verifier.keep_bag(bag, tmp_path / "kept")
    with pytest.raises(MIVError, match="Expected float32, float16, int8"):
        verifier.keep_bag(bag, tmp_path / "other", rows="int4")  # type: ignore[arg-type]
    with pytest.raises(MIVError, match="The bag is empty"):
        verifier.keep_bag([], tmp_path / "other")
    assert not (tmp_path / "other").exists()
    manifest = tmp_path / "kept" / "kept_bag.json"
    about = json.loads(manifest.read_text())
    for change, words in (({"size": 7}, "is not what"), ({"format": "x"}, "has no")):
        manifest.write_text(json.dumps({**about, **change}))
        with pytest.raises(MIVError, match=words):
            verifier.verify_stream(queries, tmp_path / "kept")


def test_a_kept_bag_of_another_verifier_is_refused_also_once_open(tmp_path: Path) -> None:
    verifier, other = (verifier_of("cap_dba_l2", {}, start) for start in ("similar", "paper"))
    bag, queries = bag_and_queries()
    kept = verifier.keep_bag(bag, tmp_path / "kept")
    for given in (kept, tmp_path / "kept"):
        with pytest.raises(MIVError, match="stored with another verifier"):
            other.verify_stream(queries, given)
    with torch.no_grad():
        next(verifier.pooling.parameters()).add_(0.1)  # trained further since
    with pytest.raises(MIVError, match="stored with another verifier"):
        verifier.verify_stream(queries, kept)


@pytest.mark.parametrize("shape", [(7, 1), (40, 2)])
def test_scales_of_other_rows_are_refused(shape: tuple[int, int], tmp_path: Path) -> None:
    verifier, (bag, queries) = verifier_of("cap_ma", {}, "similar"), bag_and_queries()
    verifier.keep_bag(bag[:40], tmp_path / "kept", rows="int8")
    np.save(tmp_path / "kept" / "scales.npy", np.ones(shape, np.float32))
    with pytest.raises(
        MIVError, match=r"scales\.npy is \(\d+, \d\)\. Expected \(40, 1\): one scale per row\. Store the"
    ):
        verifier.verify_stream(queries, tmp_path / "kept")


@pytest.mark.parametrize("name", ["x" * 300, "x" * 300 + ".npy", "a\0b"])
def test_a_text_that_cannot_be_a_name_is_no_bag(name: str, tmp_path: Path) -> None:
    verifier, (_, queries) = verifier_of("cap_dba_l2", {}, "similar"), bag_and_queries()
    for read in (lambda: verifier.verify_stream(queries, name), lambda: verifier.keep_bag(name, tmp_path / "kept")):
        with pytest.raises(MIVError, match="There is no bag"):
            read()


def test_a_kept_bag_is_not_projected_again(tmp_path: Path) -> None:
    verifier = verifier_of("cap_dba_l2", {}, "similar")
    kept = verifier.keep_bag(bag_and_queries()[0], tmp_path / "kept")
    for source in (kept, tmp_path / "kept", str(tmp_path / "kept")):
        with pytest.raises(MIVError, match="projected already"):
            verifier.keep_bag(source, tmp_path / "again", rows="int8")
    assert not (tmp_path / "again").exists()
