"""Parquet files that unpack to far more than their size are refused before they are unpacked."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from miv import MIVError
from miv.evaluation import Predictions
from miv.files.parquet import check_unpacked_size
from miv.files.tables import FIRST_ROW, read_records, read_records_from

ROWS = 1000


def text_for_all_rows(length: int, **options: Any) -> Any:
    """A column where every row has one and the same text, which is written once."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * ROWS, pa.int32()), pa.array(["x" * length]), **options)


def write(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path, compression="zstd", store_schema=False)
    return path


def texts_in_lists(length: int) -> Any:
    return pa.ListArray.from_arrays(pa.array(range(ROWS + 1), pa.int32()), text_for_all_rows(length))


@pytest.mark.parametrize("column", [text_for_all_rows(5_000_000), texts_in_lists(5_000_000)])
def test_a_small_file_with_gigabytes_of_text(tmp_path: Path, column: Any) -> None:
    path = write(tmp_path / "table.parquet", text=column)
    assert path.stat().st_size < 2000
    with pytest.raises(MIVError, match=r"unpacks to \d{3},\d{3},\d{3} or more"):
        next(read_records(path, ["text"]))


def test_a_small_file_with_many_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("miv.files.parquet._FREE_BYTES", 1_000_000)
    monkeypatch.setattr("miv.files.parquet._LARGEST_RATIO", 10)
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"label": pa.array([0] * 1_000_000, pa.int8())}), path, data_page_size=1 << 30)
    with pytest.raises(MIVError, match=r"unpacks to 4,000,000 or more. Expected at most 1,000,000"):
        next(read_records(path, ["label"]))


def test_texts_that_repeat_the_start_of_the_text_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table.parquet"
    texts = pa.array(["x" * 20_000 + str(number) for number in range(100)])
    delta = {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY"}}
    pq.write_table(pa.table({"text": texts}), path, compression="zstd", **delta)
    assert len(list(read_records(path, ["text"]))) == 100
    monkeypatch.setattr("miv.files.parquet._FREE_BYTES", 100_000)
    monkeypatch.setattr("miv.files.parquet._LARGEST_RATIO", 10)
    with pytest.raises(MIVError, match=r"unpacks to 1\d\d,\d{3} or more"):  # refused after a few rows
        next(read_records(path, ["text"]))


def test_many_rows_of_one_value_of_fixed_length(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    values = pa.array([0] * ROWS, pa.int32())
    column = pa.DictionaryArray.from_arrays(values, pa.array([b"x" * 500_000], pa.binary(500_000)))
    write(path, value=column)
    assert path.stat().st_size < 500
    with pytest.raises(MIVError, match=r"unpacks to 500,000,000 or more"):
        check_unpacked_size(path)


def test_predictions(tmp_path: Path) -> None:
    path = write(tmp_path / "answers.parquet", group=text_for_all_rows(5_000_000))
    with pytest.raises(MIVError, match="unpacks to"):
        Predictions.load(path)


def test_many_columns_are_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(",".join(f"c{number}" for number in range(30_000)) + "\n")
    with pytest.raises(MIVError, match=r"30,000 columns. Expected at most 10,000"):
        next(read_records(path, ["query"]))


def test_ordinary_files_of_many_groups_and_types_are_read(tmp_path: Path) -> None:
    """A dictionary per group, one that became too large half-way, texts in structures, and empty cells."""
    long = [[f"{number} " + "x" * 300, None] for number in range(6000)]
    columns = {
        "texts": pa.array(long),
        "text": pa.array([None if number % 3 else f"{number}" for number in range(6000)]),
        "pair": pa.array([{"a": 1, "b": "x"}] * 6000),
        "map": pa.array([[("k", "v")]] * 6000, pa.map_(pa.string(), pa.string())),
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=5000, dictionary_pagesize_limit=10_000)
    rows = [row for _, row in read_records(tmp_path / "a.parquet", ["text"])]
    assert [row["texts"] for row in rows] == long
    assert [row["text"] for row in rows] == columns["text"].to_pylist()


def test_a_damaged_footer_raises_an_error_and_does_not_end_the_process(tmp_path: Path) -> None:
    """pyarrow aborts if it is asked for a column whose histograms of levels have the wrong size."""
    content = write(tmp_path / "table.parquet", bag=pa.array([[1, 2], [3]]), text=pa.array(["a", "b"])).read_bytes()
    footer = int.from_bytes(content[-8:-4], "little")
    for place in range(len(content) - 8 - footer, len(content) - 8):
        for value in (0, 1, 0x19, 0x36):
            damaged = content[:place] + bytes([value]) + content[place + 1 :]
            with suppress(Exception):
                check_unpacked_size(tmp_path, damaged)


# Reading a table from any row on.

RECORDS = [
    {"query": f"q{number}", "bag": f'a "{number}"\nsecond line|b' if number % 3 else "ä|b"} for number in range(11)
]


def write_records(path: Path) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(RECORDS), path, row_group_size=4)
    elif path.suffix == ".jsonl":
        import json

        path.write_text(
            "".join(json.dumps(row) + ("\n\n" if number % 4 == 0 else "\n") for number, row in enumerate(RECORDS))
        )
    else:
        cells = [
            "\ufeffquery,bag",
            *(f'{row["query"]},"{row["bag"].replace(chr(34), chr(34) * 2)}"' for row in RECORDS),
        ]
        path.write_text("\r\n".join([*cells[:5], "", *cells[5:]]), encoding="utf-8", newline="")
    return path


@pytest.mark.parametrize("name", ["table.csv", "table.jsonl", "table.parquet"])
def test_reading_can_begin_at_any_row(tmp_path: Path, name: str) -> None:
    path = write_records(tmp_path / name)
    whole = list(read_records(path, ["query", "bag"]))
    assert [record for _, record in whole] == RECORDS
    starts = [start for start, _, _ in read_records_from(path, ["query", "bag"], FIRST_ROW)]
    for first, start in enumerate(starts):
        assert [(place, record) for _, place, record in read_records_from(path, ["query"], start)] == whole[first:]
