"""Reading a table from any row on."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from miv.files.tables import FIRST_ROW, read_records, read_records_from

ROWS = [{"query": f"q{number}", "bag": f'a "{number}"\nsecond line|b' if number % 3 else "ä|b"} for number in range(11)]


def write(path: Path) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path, row_group_size=4)
    elif path.suffix == ".jsonl":
        import json

        path.write_text(
            "".join(json.dumps(row) + ("\n\n" if number % 4 == 0 else "\n") for number, row in enumerate(ROWS))
        )
    else:
        cells = ["\ufeffquery,bag", *(f'{row["query"]},"{row["bag"].replace(chr(34), chr(34) * 2)}"' for row in ROWS)]
        path.write_text("\r\n".join([*cells[:5], "", *cells[5:]]), encoding="utf-8", newline="")
    return path


@pytest.mark.parametrize("name", ["table.csv", "table.jsonl", "table.parquet"])
def test_reading_can_begin_at_any_row(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name)
    whole = list(read_records(path, ["query", "bag"]))
    assert [record for _, record in whole] == ROWS
    starts = [start for start, _, _ in read_records_from(path, ["query", "bag"], FIRST_ROW)]
    for first, start in enumerate(starts):
        assert [(place, record) for _, place, record in read_records_from(path, ["query"], start)] == whole[first:]
