import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miv.data import ExemplarSet, load_splits, save_splits
from miv.errors import MIVError
from miv.runtime import SilentProgress
from miv.tasks.base import create_task
from miv.tasks.claims import Claims

SHARED = Path(os.environ.get("MIV_SHARED_DIR", Path(__file__).parents[3] / "shared")) / "data" / "fm2"
real_data = pytest.mark.skipif(not SHARED.exists(), reason="needs the real files")


def claim_row(page: str, number: int, **change: Any) -> dict[str, Any]:
    """A row of Fool Me Twice: four retrieved sentences of its page, the second of them gold."""
    retrieved = [{"text": f"{page} sentence {row}.", "section_header": "Plot"} for row in range(number, number + 4)]
    row = {
        "id": f"{page}-{number}",
        "text": f"{page} claim {number}.",
        "label": "REFUTES" if number % 2 else "SUPPORTS",
        "wikipedia_page": page,
        "retrieved_evidence": retrieved,
        "gold_evidence": [retrieved[1]],
    }
    return row | change


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    write_lines(tmp_path / "train.jsonl", [claim_row(f"Page {page}", n) for page in range(10) for n in range(4)])
    write_lines(tmp_path / "test.jsonl", [claim_row(f"Test {page}", n) for page in range(3) for n in range(2)])
    return tmp_path


def build(raw: Path, **options: Any) -> dict[str, ExemplarSet]:
    return Claims(raw=raw, **options).build(SilentProgress())


def pages_of(exemplars: ExemplarSet) -> set[str]:
    assert exemplars.pool.classes is not None
    return set(exemplars.pool.classes)


def check_properties(sets: dict[str, ExemplarSet]) -> None:
    pages = [pages_of(exemplars) for exemplars in sets.values()]
    assert len(set().union(*pages)) == sum(map(len, pages))
    sentences = [set(exemplars.pool.values) for exemplars in sets.values()]
    assert len(set().union(*sentences)) == sum(map(len, sentences))
    for exemplars in sets.values():
        for number in range(len(exemplars)):
            bag, witness = exemplars.bag(number), exemplars.bag_witness(number)
            assert witness is not None
            assert exemplars.pool.values[exemplars.query[number]] not in exemplars.pool.values[bag]
            assert len(set(bag)) == len(bag)
            assert witness.any() == bool(exemplars.label[number])


def test_a_claim_by_eye(raw: Path) -> None:
    test = build(raw)["test"]
    assert test.pool.values[test.query[0]] == "Test 0 claim 0."
    assert test.pool.values[test.bag(0)].tolist() == [f"Test 0 sentence {row}." for row in range(4)]
    assert test.label.tolist() == [1, 0] * 3
    witnesses = [test.bag_witness(number) for number in (0, 1)]
    assert [witness.tolist() for witness in witnesses if witness is not None] == [
        [False, True, False, False],
        [False, False, False, False],  # its evidence refutes
    ]


def test_validation_is_carved_out_by_page(raw: Path) -> None:
    sets = build(raw, validation_share=0.2)
    check_properties(sets)
    assert {split: len(exemplars) for split, exemplars in sets.items()} == {
        "train": 32,
        "validation": 8,
        "test": 6,
    }


def test_the_same_seed_gives_the_same_set_and_rounds_differ(raw: Path) -> None:
    sets, again, next_round = build(raw), build(raw), build(raw, round=1)
    assert all(sets[split].fingerprint == again[split].fingerprint for split in sets)
    assert pages_of(sets["validation"]) != pages_of(next_round["validation"])


def test_saved_and_loaded(raw: Path, tmp_path: Path) -> None:
    sets = build(raw)
    save_splits(sets, tmp_path / "set", builder="claims", options={}, seed=0)
    assert load_splits(tmp_path / "set")["train"].fingerprint == sets["train"].fingerprint


def test_pages_that_share_a_sentence_stay_together(raw: Path) -> None:
    shared = {"text": "The same sentence."}
    rows = [
        claim_row(
            f"Page {page}",
            0,
            retrieved_evidence=[shared, {"text": f"Page {page} own."}],
            gold_evidence=[shared],
        )
        for page in range(5)
    ] + [claim_row(f"Lone {page}", 0) for page in range(5)]
    write_lines(raw / "train.jsonl", rows)
    for number in range(5):
        sets = build(raw, round=number, validation_share=0.5)
        check_properties(sets)


def test_what_leaks_into_test_is_dropped_or_kept(raw: Path, caplog: pytest.LogCaptureFixture) -> None:
    with (raw / "train.jsonl").open("a") as file:
        file.write(json.dumps(claim_row("Test 0", 3)) + "\n")
        file.write(
            json.dumps(
                claim_row("Other", 0, retrieved_evidence=["Test 0 sentence 0.", "Gold."], gold_evidence=["Gold."])
            )
            + "\n"
        )
    sets = build(raw)
    check_properties(sets)
    assert len(sets["train"]) + len(sets["validation"]) == 40
    assert "2 train claims share a page or sentence with test; dropped." in caplog.text
    kept = build(raw, shared_pages="keep")
    assert len(kept["train"]) + len(kept["validation"]) == 42


def test_a_validation_file(raw: Path) -> None:
    write_lines(raw / "dev.jsonl", [claim_row("Page 0", 9), claim_row("Dev", 0), claim_row("Test 1", 9)])
    sets = build(raw, validation_file="dev.jsonl")
    check_properties(sets)
    assert pages_of(sets["validation"]) == {"Page 0", "Dev"}
    assert len(sets["train"]) == 36


def test_other_fields_and_plain_sentences(tmp_path: Path) -> None:
    rows = [
        {
            "query": f"Q{n}",
            "sentences": [f"s{n}", f"t{n}"],
            "gold": [f"t{n}"],
            "verdict": "no" if n % 2 else "yes",
        }
        for n in range(10)
    ]
    write_lines(tmp_path / "a.jsonl", rows[:7])
    write_lines(tmp_path / "b.jsonl", rows[7:])
    sets = build(
        tmp_path,
        train_file="a.jsonl",
        test_file="b.jsonl",
        claim_field="query",
        evidence_field="sentences",
        gold_field="gold",
        label_field="verdict",
        page_field="",
        supports="yes",
        refutes="no",
        validation_share=0.3,
    )
    assert {split: len(exemplars) for split, exemplars in sets.items()} == {
        "train": 5,
        "validation": 2,
        "test": 3,
    }
    assert sets["test"].pool.classes is None


def test_gold_that_was_not_retrieved(raw: Path, caplog: pytest.LogCaptureFixture) -> None:
    lost = claim_row("Test 0", 0, gold_evidence=[{"text": "Never retrieved."}])
    write_lines(raw / "test.jsonl", [lost, claim_row("Test 1", 0)])
    assert len(build(raw)["test"]) == 1
    assert "test.jsonl: 1 claims without a gold sentence are left out." in caplog.text
    test = build(raw, missing_gold="add")["test"]
    assert len(test) == 2
    assert test.pool.values[test.bag(0)][-1] == "Never retrieved."


def test_other_labels_are_counted(raw: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_lines(raw / "test.jsonl", [claim_row("Test 0", 0, label="NOT ENOUGH INFO"), claim_row("Test 1", 0)])
    assert len(build(raw)["test"]) == 1
    assert "1 claims with another label are left out" in caplog.text


def test_a_sentence_that_was_retrieved_twice_is_in_the_bag_once(raw: Path) -> None:
    row = claim_row("Test 0", 0)
    row["retrieved_evidence"] *= 2
    write_lines(raw / "test.jsonl", [row])
    assert build(raw)["test"].bag_sizes.tolist() == [4]


def test_broken_json_in_line_7312(raw: Path) -> None:
    good = json.dumps(claim_row("Page", 0)) + "\n"
    (raw / "train.jsonl").write_text(good * 7311 + good[:30] + "\n")
    with pytest.raises(MIVError, match=r"train.jsonl, line 7312: broken JSON at character"):
        build(raw)


def test_a_line_without_an_end_is_not_read(raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("miv.files.tables.MAX_LINE_BYTES", 2000)
    (raw / "train.jsonl").write_text("\n" + " " * 2001)
    with pytest.raises(MIVError, match=r"train.jsonl, line 2: longer than 2,000 bytes"):
        build(raw)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text": 5}, "line 1: the field 'text' must be a text, got '5'"),
        ({"retrieved_evidence": "text"}, "line 1: 'retrieved_evidence' must be a list"),
        ({"retrieved_evidence": [{"txt": "a"}]}, "line 1: a sentence in 'retrieved_evidence' must be a text"),
        ({"wikipedia_page": ""}, "line 1: the field 'wikipedia_page' must be a text"),
    ],
)
def test_bad_rows(raw: Path, change: dict[str, Any], message: str) -> None:
    write_lines(raw / "test.jsonl", [claim_row("Test", 0, **change)])
    with pytest.raises(MIVError, match=f"test.jsonl, {message}"):
        build(raw)


def test_a_wrong_field_lists_the_fields_there_are(raw: Path) -> None:
    with pytest.raises(MIVError, match="no field 'claim'; the fields are: gold_evidence, id, label, "):
        build(raw, claim_field="claim")


def test_a_missing_file_lists_what_is_there(raw: Path) -> None:
    with pytest.raises(MIVError, match=r"dev.jsonl.*contains: test.jsonl, train.jsonl.*--train-file"):
        build(raw, train_file="dev.jsonl")


def test_too_few_pages(raw: Path) -> None:
    write_lines(raw / "train.jsonl", [claim_row("Page", n) for n in range(4)])
    with pytest.raises(MIVError, match="1 unconnected groups of pages"):
        build(raw)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"missing_gold": "ad"}, "Did you mean 'add'"),
        ({"shared_pages": "kep"}, "Did you mean 'keep'"),
        ({"validation_share": 1.0}, "validation_share is 1.0"),
        ({"seed": -1}, "seed is -1"),
        ({"train_file": ""}, "train_file is empty. Expected the name of a file"),
        ({"test_file": ""}, "test_file is empty. Expected the name of a file"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(MIVError, match=message):
        create_task("claims", **options)


json_values = st.recursive(
    st.none() | st.integers() | st.sampled_from(["SUPPORTS", "REFUTES", "a", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["text", "x"]), inner, max_size=2),
    max_leaves=6,
)


@given(change=st.dictionaries(st.sampled_from(sorted(claim_row("", 0))), json_values, max_size=3))
@settings(max_examples=150, deadline=None)
def test_any_row_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, change: dict[str, Any]) -> None:
    folder = tmp_path_factory.getbasetemp()
    write_lines(folder / "train.jsonl", [claim_row(f"Page {page}", 0) for page in range(10)])
    write_lines(folder / "test.jsonl", [claim_row("Test", 0), claim_row("Test", 1, **change)])
    refusal = "test.jsonl, line 2"
    try:
        build(folder)
    except MIVError as error:
        refusal = str(error)
    assert "test.jsonl, line 2" in refusal


@real_data
def test_fool_me_twice() -> None:
    sets = build(SHARED, train_file="dev.jsonl")
    check_properties(sets)
    assert len(sets["train"]) + len(sets["validation"]) == 1169
    assert len(sets["test"]) == 1380
    assert sets["test"].label.sum() == 681
    assert sets["test"].bag_sizes.min() == 2
    assert sets["test"].bag_sizes.max() == 12
