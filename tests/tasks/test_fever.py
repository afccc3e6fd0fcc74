import json
from pathlib import Path
from typing import Any

import pytest

from miv.data import ExemplarSet
from miv.errors import MIVError
from miv.runtime import SilentProgress
from miv.tasks.fever import Fever

FILES = {"train": "train.jsonl", "validation": "paper_dev.jsonl", "test": "paper_test.jsonl"}


def claim_row(number: int, label: str, evidence: list[tuple[str, int]], text: str = "") -> dict[str, Any]:
    groups: list[Any] = [[[number, number, page.replace(" ", "_"), sentence]] for page, sentence in evidence]
    if label == "NOT ENOUGH INFO":
        groups = [[[number, None, None, None]]]
    return {
        "id": number,
        "verifiable": "VERIFIABLE",
        "label": label,
        "claim": text or f"Claim {number}.",
        "evidence": groups,
    }


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_raw(folder: Path) -> None:
    """The official layout: 12, 2 and 2 claims, each on a page of its own of 5 sentences."""
    pages = []
    for number, (split, name) in enumerate(FILES.items()):
        rows = []
        for claim in range(12 if split == "train" else 2):
            page = f"{split}_{claim}_-LRB-film-RRB-"
            lines = "\n".join(f"{row}\t{page} sentence {row} -LSB- a -RSB- .\tlink" for row in range(5))
            pages.append({"id": page, "text": "", "lines": lines + "\n5\t"})
            label = "SUPPORTS" if claim % 2 == 0 else "REFUTES"
            rows.append(claim_row(100 * number + claim, label, [(page, claim % 5), (page, 4)]))
        rows.append(claim_row(100 * number + 99, "NOT ENOUGH INFO", []))
        write_lines(folder / name, rows)
    (folder / "wiki-pages").mkdir()
    write_lines(folder / "wiki-pages" / "wiki-001.jsonl", pages[:7])
    write_lines(folder / "wiki-pages" / "wiki-002.jsonl", pages[7:])


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    write_raw(tmp_path)
    return tmp_path


def build(raw: Path, **options: Any) -> dict[str, ExemplarSet]:
    return Fever(raw=raw, **{"train_per_label": 4, **options}).build(SilentProgress())


def texts(exemplars: ExemplarSet, number: int) -> list[str]:
    return [str(exemplars.pool.values[member]) for member in exemplars.bag(number)]


def witness_texts(exemplars: ExemplarSet, number: int) -> list[str]:
    witness = exemplars.bag_witness(number)
    return [text for text, shown in zip(texts(exemplars, number), witness, strict=True) if shown]


def test_a_claim_by_eye(raw: Path) -> None:
    test = build(raw)["test"]
    assert [test.pool.values[query] for query in test.query] == ["Claim 200.", "Claim 201."]
    assert test.label.tolist() == [1, 0]
    assert texts(test, 0) == [f"test_0_(film) sentence {row} [ a ] ." for row in range(5)]
    assert witness_texts(test, 0) == ["test_0_(film) sentence 0 [ a ] .", "test_0_(film) sentence 4 [ a ] ."]
    assert witness_texts(test, 1) == []  # its evidence refutes


def test_sizes_and_balance(raw: Path) -> None:
    sets = build(raw)
    assert {split: len(exemplars) for split, exemplars in sets.items()} == {"train": 8, "validation": 2, "test": 2}
    assert sets["train"].label.sum() == 4
    assert len(build(raw, train_per_label=0)["train"]) == 12
    with pytest.raises(MIVError, match="train_per_label is 7, but there are 6 claims"):
        build(raw, train_per_label=7)


def test_sentences_of_every_page_once(raw: Path) -> None:
    row = claim_row(7, "SUPPORTS", [("test_1_-LRB-film-RRB-", 2), ("test_0_-LRB-film-RRB-", 1)] * 2)
    write_lines(raw / "paper_test.jsonl", [row, claim_row(8, "REFUTES", [("test_0_-LRB-film-RRB-", 1)])])
    test = build(raw)["test"]
    assert [text[:6] for text in texts(test, 0)] == ["test_1"] * 5 + ["test_0"] * 5
    assert len(witness_texts(test, 0)) == 2
    assert set(test.bag(1)) < set(test.bag(0))  # stored once


def test_truncating_keeps_the_evidence(raw: Path) -> None:
    write_lines(
        raw / "paper_test.jsonl",
        [
            claim_row(1, "SUPPORTS", [("test_0_-LRB-film-RRB-", 4)]),
            claim_row(2, "REFUTES", [("test_1_-LRB-film-RRB-", 3)]),
        ],
    )
    test = build(raw, max_bag=3)["test"]
    assert [text[23:24] for text in texts(test, 0)] == ["0", "1", "4"]
    assert [text[23:24] for text in texts(test, 1)] == ["0", "1", "3"]
    assert witness_texts(test, 0) == ["test_0_(film) sentence 4 [ a ] ."]


def test_missing_pages_are_counted(raw: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [
        claim_row(1, "SUPPORTS", [("test_0_-LRB-film-RRB-", 1), ("Lost", 0)]),
        claim_row(2, "SUPPORTS", [("Lost", 0)]),
        claim_row(3, "REFUTES", [("test_1_-LRB-film-RRB-", 77)]),
    ]
    write_lines(raw / "paper_test.jsonl", rows)
    assert len(build(raw)["test"]) == 1
    assert "test: of 3 claims 2 name a page that is missing from the dump." in caplog.text
    assert "test: of 3 claims 2 are left out because none of their evidence is in the dump." in caplog.text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": "SUPPORT"}, "line 1: There is no label 'SUPPORT'. Did you mean 'SUPPORTS'"),
        ({"claim": " "}, "line 1: the field 'claim' must be a text"),
        ({"evidence": None}, "line 1: 'evidence' must be lists"),
        ({"evidence": [[[1, 2, None, None]]]}, "line 1: a page in 'evidence' must be a text"),
        ({"evidence": [[[1, 2, "Snow", "1"]]]}, "line 1: a sentence in 'evidence' must be a number"),
    ],
)
def test_bad_claims(raw: Path, change: dict[str, Any], message: str) -> None:
    write_lines(raw / "paper_dev.jsonl", [claim_row(1, "SUPPORTS", [("Snow", 1)]) | change])
    with pytest.raises(MIVError, match=f"paper_dev.jsonl, {message}"):
        build(raw)


def test_claims_and_dump_that_do_not_belong_together(raw: Path) -> None:
    for path in (raw / "wiki-pages").iterdir():
        write_lines(path, [{"id": "Snow", "lines": "0\tSnow ."}])
    for options, message in (({}, "train_per_label is 4"), ({"train_per_label": 0}, "Check that they match")):
        with pytest.raises(MIVError, match=message):
            build(raw, **options)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(MIVError) as error:
        build(tmp_path)
    for name in [*FILES.values(), "wiki-pages.zip"]:
        assert f"https://fever.ai/download/fever/{name}" in str(error.value)
