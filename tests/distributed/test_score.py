"""Scoring in partitions: the verdicts of the whole table, files that appear whole, and resuming."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner

from miv import ExemplarSet, MIVError, Verifier
from miv.cli.app import app
from miv.data import InstancePool
from miv.distributed import score
from tests.cli.running import run_command

EXEMPLARS = 23


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A verifier of vectors, and a table of 23 exemplars in three formats."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    Verifier("cap_vema", channels=4).save_pretrained("verifier")
    random = np.random.default_rng(0)
    rows = [
        {
            "query": random.normal(size=4).round(3).tolist(),
            "bag": random.normal(size=(random.integers(1, 6), 4)).round(3).tolist(),
            "query_id": f"q{number % 4}",
        }
        for number in range(EXEMPLARS)
    ]
    pq.write_table(pa.Table.from_pylist(rows), "pairs.parquet", row_group_size=7)
    Path("pairs.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    Path("pairs").mkdir()
    for number in range(2):
        pq.write_table(pa.Table.from_pylist(rows[number * 12 : number * 12 + 12]), f"pairs/{number}.parquet")
    return tmp_path


def verified(table: str, *flags: str) -> Any:
    run_command("verify", "verifier", "--bags", table, "--out", "whole.parquet", "--overwrite", *flags)
    return pq.read_table("whole.parquet").replace_schema_metadata()


def scored(out: str) -> Any:
    """The folder as anyone reads it; other files in it are not data."""
    return pyarrow.dataset.dataset(out).to_table().replace_schema_metadata()


def assert_alike(found: Any, expected: Any) -> None:
    """Equal; numbers up to the rounding of batches of other sizes."""
    assert found.schema == expected.schema
    for name in expected.column_names:
        mine, theirs = found[name].to_pylist(), expected[name].to_pylist()
        assert mine == (pytest.approx(theirs, abs=1e-6) if pa.types.is_floating(expected[name].type) else theirs), name


@pytest.mark.parametrize("source", ["pairs.parquet", "pairs.jsonl", "pairs"])
@pytest.mark.parametrize("flags", [(), ("--by-instance",)])
def test_partitions_hold_the_verdicts_of_the_whole_table(folder: Path, source: str, flags: tuple[str, ...]) -> None:
    printed = json.loads(run_command("score", "verifier", source, "--out", "out", "--rows", "5", "--json", *flags))
    whole = verified("pairs.parquet", *flags)
    assert_alike(scored("out"), whole)
    assert printed["exemplars"] == EXEMPLARS
    assert printed["partitions"] == (6 if source == "pairs" else 5)  # a partition never spans two files
    assert printed["reused"] == 0
    document = json.loads(Path("out/_score.json").read_text())
    assert document["complete"]
    assert document["summary"]["yes"] == printed["yes"]


def test_a_set_is_scored_like_its_table(folder: Path) -> None:
    pool = InstancePool("features", np.random.default_rng(1).normal(size=(9, 4)).astype(np.float32))
    exemplars = ExemplarSet.from_lists(pool, [0, 1, 2], [[3, 4], [5], [6, 7, 8]], labels=[1, 0, 1])
    exemplars.save("set", builder="test", options={}, seed=0)
    run = score("verifier", "set", "out", rows=2)
    assert run.partitions == 2
    expected = Verifier.from_pretrained("verifier").verify_many(
        pool.values[:3], [pool.values[rows] for rows in ([3, 4], [5], [6, 7, 8])]
    )
    found = scored("out").to_pydict()
    assert found["probability"] == pytest.approx(expected.probability.tolist(), abs=1e-6)
    assert found["label"] == ["1", "0", "1"]
    assert found["query"] == ["0", "1", "2"]


def files(out: str) -> dict[str, tuple[int, int]]:
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in Path(out).glob("part-*")}


def test_only_what_is_missing_damaged_or_changed_is_scored_again(folder: Path) -> None:
    score("verifier", "pairs.jsonl", "out", rows=5)
    before, table = files("out"), scored("out")
    assert score("verifier", "pairs.jsonl", "out", rows=5).reused == 5
    assert files("out") == before
    Path("out/part-000001.parquet").unlink()
    Path("out/part-000003.parquet").write_bytes(Path("out/part-000003.parquet").read_bytes()[:-9])
    Path("out/.part-000002.parquet.miv-0123456789abcdef.part").write_text("of a killed worker")
    assert score("verifier", "pairs.jsonl", "out", rows=5).reused == 3
    changed = {name for name, file in files("out").items() if before[name] != file}
    assert changed == {"part-000001.parquet", "part-000003.parquet"}
    assert scored("out") == table
    assert not list(Path("out").glob(".part*"))
    lines = Path("pairs.jsonl").read_text().splitlines()
    Path("pairs.jsonl").write_text("\n".join([*lines[:12], lines[0], *lines[13:20]]))  # one row changed, three removed
    assert score("verifier", "pairs.jsonl", "out", rows=5).reused == 3
    assert_alike(scored("out"), verified("pairs.jsonl"))


@pytest.mark.parametrize("by_id", [False, True])
def test_the_same_table_beside_other_files_is_other_data(folder: Path, by_id: bool) -> None:
    for name, value in (("a", 1.0), ("b", -1.0)):
        Path(name).mkdir()
        np.save(f"{name}/q.npy", np.array([1, 2, 3, 4], np.float32))
        np.save(f"{name}/t.npy", value * np.array([1, 2, 3, 4], np.float32))
        row = {"query": "q", "bag": ["t"]} if by_id else {"query": "q.npy", "bag": ["t.npy"]}
        Path(f"{name}/pairs.jsonl").write_text(json.dumps(row) + "\n")
        Path(f"{name}/ids.csv").write_text("id,path\nq,q.npy\nt,t.npy\n")
    ids = {name: f"{name}/ids.csv" if by_id else None for name in ("a", "b")}
    score("verifier", "a/pairs.jsonl", "out", instances=ids["a"])
    assert score("verifier", "a/pairs.jsonl", "out", instances=ids["a"]).reused == 1
    with pytest.raises(MIVError, match="was scored with another files_below"):
        score("verifier", "b/pairs.jsonl", "out", instances=ids["b"])
    with pytest.raises(MIVError, match="was scored with another files_below"):
        score("verifier", "a/pairs.jsonl" if by_id else "b/pairs.jsonl", "out", instances=ids["b"])


def test_the_last_line_counts_what_was_written_and_what_was_there(folder: Path) -> None:
    def told() -> str:
        return CliRunner().invoke(app, ["score", "verifier", "pairs.jsonl", "--out", "out", "--rows", "5"]).stderr

    assert told().endswith("Wrote 5 partitions to out.\n")
    again = told()
    assert again.endswith("All 5 partitions were already in out.\n")
    assert "0/0" not in again
    Path("out/part-000001.parquet").unlink()
    assert told().endswith("Wrote 1 partition to out; 4 were already there.\n")


def test_an_error_in_a_later_partition_keeps_the_earlier_ones(folder: Path) -> None:
    lines = Path("pairs.jsonl").read_text().splitlines()
    wrong = {"query": [1.0, 2.0], "bag": [[1.0, 2.0, 3.0, 4.0]]}
    Path("wrong.jsonl").write_text("\n".join([*lines[:11], json.dumps(wrong), *lines[12:]]))
    with pytest.raises(MIVError, match=r"wrong\.jsonl, line 12"):
        score("verifier", "wrong.jsonl", "out", rows=5)
    assert sorted(files("out")) == ["part-000000.parquet", "part-000001.parquet"]
    assert not json.loads(Path("out/_score.json").read_text())["complete"]
    Path("wrong.jsonl").write_text("\n".join(lines))
    assert score("verifier", "wrong.jsonl", "out", rows=5).reused == 2


def test_other_settings_and_other_folders_are_refused(folder: Path) -> None:
    score("verifier", "pairs.jsonl", "out", rows=5)
    with pytest.raises(MIVError, match="was scored with another rows: 5, and now it is 6"):
        score("verifier", "pairs.jsonl", "out", rows=6)
    torch.manual_seed(1)
    Verifier("cap_vema", channels=4).save_pretrained("other")
    with pytest.raises(MIVError, match="another fingerprint"):
        score("other", "pairs.jsonl", "out", rows=5)
    assert score("other", "pairs.jsonl", "out", rows=4, overwrite=True).reused == 0
    assert len(files("out")) == 6
    with pytest.raises(MIVError, match="which is not of `miv score`"):
        score("verifier", "pairs.jsonl", "pairs")
    with pytest.raises(MIVError, match="rows is 0"):
        score("verifier", "pairs.jsonl", "new", rows=0)
    assert not Path("new").exists()
