"""Queries of several references, query ids and names: kept by every step, saved and loaded."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from miv import ExemplarSet, InstancePool, MIVError, collate_exemplars
from miv.data import load_splits
from tests.data.example_sets import KINDS, example_pool

GOLDEN = Path(__file__).parents[1] / "golden" / "run_0_1" / "exemplars"  # saved by version 0.1


def referenced(kind: str = "features") -> ExemplarSet:
    pool = replace(example_pool(kind), names=np.array(["a.png", "b.png", "", "d.png", "e.png", "f.png"]))
    return ExemplarSet.from_lists(
        pool,
        [0, 1, 2],
        [[1, 2], [3], [5]],
        labels=[1, 0, 1],
        references=[[3, 4], [], [2, 0]],
        query_ids=["Zoë", "Zoë", "Bo"],
    )


def references_of(exemplars: ExemplarSet) -> list[list[int]]:
    return [exemplars.references(number).tolist() for number in range(len(exemplars))]


def test_the_query_is_the_first_reference_and_each_counts_once() -> None:
    exemplars = referenced()
    assert references_of(exemplars) == [[0, 3, 4], [1], [2, 0]]
    assert exemplars.query.tolist() == [0, 1, 2]
    assert exemplars[0].query.tolist() == exemplars.pool.values[[0, 3, 4]].tolist()
    assert exemplars.references(-1).tolist() == [2, 0]
    assert "6 references" in repr(exemplars)
    assert exemplars.used.tolist() == [0, 1, 2, 3, 4, 5]


def test_they_follow_their_exemplars() -> None:
    some = referenced().subset([2, 0])
    assert references_of(some) == [[2, 0], [0, 3, 4]]
    assert some.query_id.tolist() == ["Bo", "Zoë"]
    alone = referenced().subset([2]).compact()  # instances 0, 2 and 5 are left
    assert references_of(alone) == [[1, 0]]
    assert alone.pool.names.tolist() == ["a.png", "", "f.png"]


def test_a_set_of_single_references_is_the_same_set_as_without() -> None:
    single = referenced().subset([1])
    assert not single.has_references
    assert single.references(0).tolist() == [1]
    same = ExemplarSet.from_lists(single.pool, None, [[3]], [0], references=[[1]], query_ids=["Zoë"])
    assert single.fingerprint == same.fingerprint
    assert referenced().with_first_reference().has_references is False


@pytest.mark.parametrize("kind", KINDS)
def test_they_are_saved_and_loaded(tmp_path: Path, kind: str) -> None:
    exemplars = referenced(kind)
    exemplars.save(tmp_path / "set", builder="test", options={}, seed=None)
    loaded = ExemplarSet.load(tmp_path / "set", verify=True)
    assert references_of(loaded) == references_of(exemplars)
    assert loaded.query_id.tolist() == ["Zoë", "Zoë", "Bo"]
    assert loaded.pool.names.tolist() == ["a.png", "b.png", "", "d.png", "e.png", "f.png"]
    assert loaded.fingerprint == exemplars.fingerprint


def test_references_and_query_ids_are_in_the_fingerprint() -> None:
    exemplars = referenced()
    others = [
        exemplars.with_first_reference(),
        replace(exemplars, query_id=None),
        replace(exemplars, query_id=np.array(["Zoë", "Bo", "Bo"])),
        replace(exemplars, reference_index=np.array([0, 3, 5, 1, 2, 0])),
    ]
    assert len({exemplars.fingerprint, *(other.fingerprint for other in others)}) == 1 + len(others)


def test_names_are_only_shown_and_not_in_the_fingerprint() -> None:
    """A set built again by a version that keeps names is the same set, so that a run can resume."""
    exemplars = referenced()
    unnamed = replace(exemplars, pool=replace(exemplars.pool, names=None))
    assert unnamed.fingerprint == exemplars.fingerprint


def test_a_folder_of_version_1_opens_unchanged() -> None:
    sets = load_splits(GOLDEN, verify=True)
    train = sets["train"]
    assert (train.query_id, train.pool.names, train.has_references) == (None, None, False)
    # As version 0.1 computed it.
    assert train.fingerprint == "fccce918284527d2fd939a80365c36d430c7e8add928eeb87da8048954fc957f"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reference_ptr": None}, "Only one of reference_ptr and reference_index"),
        ({"reference_ptr": np.array([0, 3, 3, 6])}, "Exemplar 1 has no reference"),
        ({"reference_ptr": np.array([0, 3, 4, 5])}, "reference_ptr runs from 0 to 5. Expected 0 to 6"),
        ({"reference_index": np.array([0, 3, 4, 1, 2, 6])}, r"reference_index\[5\] is 6"),
        ({"reference_index": np.array([3, 0, 4, 1, 2, 0])}, "but its first reference is instance 3"),
        ({"query_id": np.array(["a"])}, "query_id has 1 entry. Expected 3"),
    ],
)
def test_wrong_references_are_named(changes: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(MIVError, match=message):
        replace(referenced(), **changes)  # type: ignore[arg-type]


def test_lists_without_any_query_are_an_error() -> None:
    pool = InstancePool("features", np.eye(3, dtype=np.float32))
    with pytest.raises(MIVError, match="neither queries nor references"):
        ExemplarSet.from_lists(pool, None, [[1]], [1])
    with pytest.raises(MIVError, match="Exemplar 0 has no references"):
        ExemplarSet.from_lists(pool, None, [[1]], [1], references=[[]])
    with pytest.raises(MIVError, match="Got 2 queries and references of 1"):
        ExemplarSet.from_lists(pool, [0, 1], [[1], [2]], [1, 0], references=[[0]])


def test_a_batch_for_your_own_loop_does_not_drop_references_silently() -> None:
    exemplars = referenced()
    with pytest.raises(MIVError, match="several references per query"):
        collate_exemplars([exemplars[0], exemplars[1]])
    single = exemplars.with_first_reference()
    assert len(collate_exemplars([single[0], single[1]]).label) == 2
