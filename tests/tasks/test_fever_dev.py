"""FEVER's development set: three files, whose splits are given."""

import os
from pathlib import Path

import pytest

from miv.data import ExemplarSet
from miv.errors import MIVError
from miv.runtime import SilentProgress
from miv.tasks import create_task, list_tasks
from tests.tasks.test_claims import claim_row, write_lines

SHARED = Path(os.environ.get("MIV_SHARED_DIR", Path(__file__).parents[3] / "shared")) / "data" / "fever-dev"


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    for split, topics in (("train", 3), ("validation", 1), ("test", 2)):
        rows = [claim_row(f"{split} {topic}", number) for topic in range(topics) for number in range(2)]
        for row in rows:
            del row["wikipedia_page"], row["id"]
            row["retrieved_evidence"] = [one["text"] for one in row["retrieved_evidence"]]
            row["gold_evidence"] = [one["text"] for one in row["gold_evidence"]]
        write_lines(tmp_path / f"{split}.jsonl", rows)
    return tmp_path


def build(raw: Path, round: int = 0) -> dict[str, ExemplarSet]:  # noqa: A002 - as the option is called
    return create_task("fever-dev", raw=raw, round=round).build(SilentProgress())


def test_it_is_a_task_of_its_own() -> None:
    assert {"fever", "fever-dev"} < set(list_tasks())


def test_the_splits_are_the_files_and_a_claim_by_eye(raw: Path) -> None:
    sets = build(raw)
    assert {split: len(some) for split, some in sets.items()} == {"train": 6, "validation": 2, "test": 4}
    test = sets["test"]
    assert test.pool.values[test.query[0]] == "test 0 claim 0."
    assert test.pool.values[test.bag(0)].tolist() == [f"test 0 sentence {row}." for row in range(4)]
    assert test.label.tolist() == [1, 0] * 2
    assert test.witness is not None
    assert test.witness.reshape(4, 4).tolist()[:2] == [[False, True, False, False], [False] * 4]


def test_rounds_have_the_same_sets(raw: Path) -> None:
    first, second = build(raw), build(raw, round=1)
    assert {s: first[s].fingerprint for s in first} == {s: second[s].fingerprint for s in second}


def test_a_missing_file_is_named(raw: Path) -> None:
    (raw / "validation.jsonl").unlink()
    with pytest.raises(MIVError, match=r"Missing in .*: validation\.jsonl\. .*--raw"):
        build(raw)


def test_bad_options() -> None:
    with pytest.raises(MIVError, match="round is -1"):
        create_task("fever-dev", round=-1)


@pytest.mark.skipif(not SHARED.exists(), reason="needs the real files")
def test_the_real_files() -> None:
    sets = build(SHARED)
    # Two train claims are their own gold sentence, which is no member of the bag.
    assert {split: len(some) for split, some in sets.items()} == {"train": 9173, "validation": 1310, "test": 2604}
    texts = {split: set(some.pool.values) for split, some in sets.items()}
    assert texts["train"].isdisjoint(texts["validation"] | texts["test"])
    assert texts["validation"].isdisjoint(texts["test"])
    for some in sets.values():
        assert 0.48 < some.label.mean() < 0.52
        assert some.bag_sizes.min() == 5
    assert sets["test"].bag_sizes.mean() == pytest.approx(11.6075, abs=1e-4)
