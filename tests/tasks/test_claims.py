import json
from pathlib import Path
from typing import Any

import pytest

from miv.data import ExemplarSet
from miv.errors import MIVError
from miv.runtime import SilentProgress
from miv.tasks.claims import Claims


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
    return set(exemplars.pool.classes)


def check_properties(sets: dict[str, ExemplarSet]) -> None:
    pages = [pages_of(exemplars) for exemplars in sets.values()]
    assert len(set().union(*pages)) == sum(map(len, pages))
    sentences = [set(exemplars.pool.values) for exemplars in sets.values()]
    assert len(set().union(*sentences)) == sum(map(len, sentences))
    for exemplars in sets.values():
        for number in range(len(exemplars)):
            bag, witness = exemplars.bag(number), exemplars.bag_witness(number)
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
    assert {split: len(exemplars) for split, exemplars in sets.items()} == {"train": 32, "validation": 8, "test": 6}


def test_pages_that_share_a_sentence_stay_together(raw: Path) -> None:
    shared = {"text": "The same sentence."}
    rows = [
        claim_row(f"Page {page}", 0, retrieved_evidence=[shared, {"text": f"Page {page} own."}], gold_evidence=[shared])
        for page in range(5)
    ] + [claim_row(f"Lone {page}", 0) for page in range(5)]
    write_lines(raw / "train.jsonl", rows)
    for number in range(5):
        sets = build(raw, round=number, validation_share=0.5)
        check_properties(sets)


def test_what_leaks_into_test_is_dropped(raw: Path, caplog: pytest.LogCaptureFixture) -> None:
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


def test_a_validation_file(raw: Path) -> None:
    write_lines(raw / "dev.jsonl", [claim_row("Page 0", 9), claim_row("Dev", 0), claim_row("Test 1", 9)])
    sets = build(raw, validation_file="dev.jsonl")
    check_properties(sets)
    assert pages_of(sets["validation"]) == {"Page 0", "Dev"}
    assert len(sets["train"]) == 36


def test_other_labels_and_plain_sentences_without_pages(tmp_path: Path) -> None:
    rows = [
        {
            "text": f"Q{n}",
            "retrieved_evidence": [f"s{n}", f"t{n}"],
            "gold_evidence": [f"t{n}"],
            "label": "no" if n % 2 else "yes",
        }
        for n in range(10)
    ]
    write_lines(tmp_path / "a.jsonl", rows[:7])
    write_lines(tmp_path / "b.jsonl", rows[7:])
    sets = build(
        tmp_path,
        train_file="a.jsonl",
        test_file="b.jsonl",
        page_field="",
        supports="yes",
        refutes="no",
        validation_share=0.3,
    )
    assert {split: len(exemplars) for split, exemplars in sets.items()} == {"train": 5, "validation": 2, "test": 3}
    assert sets["test"].pool.classes is None


def test_gold_that_was_not_retrieved(raw: Path, caplog: pytest.LogCaptureFixture) -> None:
    lost = claim_row("Test 0", 0, gold_evidence=[{"text": "Never retrieved."}])
    other = claim_row("Test 2", 0, label="NOT ENOUGH INFO")
    write_lines(raw / "test.jsonl", [lost, claim_row("Test 1", 0), other])
    assert len(build(raw)["test"]) == 1
    assert "1 claims with another label are left out" in caplog.text
    assert "test.jsonl: 1 claims without a gold sentence are left out." in caplog.text
    lost["retrieved_evidence"] *= 2  # what was retrieved twice is in the bag once
    write_lines(raw / "test.jsonl", [lost, claim_row("Test 1", 0), other])
    test = build(raw, missing_gold="add")["test"]
    assert test.bag_sizes.tolist() == [5, 4]
    assert test.pool.values[test.bag(0)][-1] == "Never retrieved."


def test_a_line_without_an_end_is_not_read(raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("miv.files.tables.MAX_LINE_BYTES", 2000)
    (raw / "train.jsonl").write_text("\n" + " " * 2001)
    with pytest.raises(MIVError, match=r"train.jsonl, line 2: longer than 2,000 bytes"):
        build(raw)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([{"text": 5}], {}, "test.jsonl, line 1: the field 'text' must be a text, got '5'"),
        ([{"retrieved_evidence": "text"}], {}, "test.jsonl, line 1: 'retrieved_evidence' must be a list"),
        ([{"retrieved_evidence": [{"txt": "a"}]}], {}, "a sentence in 'retrieved_evidence' must be a text"),
        ([{}], {"page_field": "page"}, "no field 'page'; the fields are: gold_evidence, id, label, "),
        ([{}], {"train_file": "dev.jsonl"}, "dev.jsonl.*contains: test.jsonl, train.jsonl.*--train-file"),
        ([{}], {"train_file": "test.jsonl"}, "unconnected groups of pages"),
    ],
)
def test_bad_files(raw: Path, rows: list[dict[str, Any]], options: dict[str, Any], message: str) -> None:
    write_lines(raw / "test.jsonl", [claim_row("Test", number, **change) for number, change in enumerate(rows)])
    with pytest.raises(MIVError, match=message):
        build(raw, **options)
