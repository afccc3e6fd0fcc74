"""Scoring in partitions: the verdicts of the whole table, files that appear whole, and resuming."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
import torch

from miv import ExemplarSet, MIVError, Verifier
from miv.data import InstancePool
from miv.scoring import score
from miv.scoring.partitions import fingerprint_of
from miv.verifier.out_of_distribution import OutOfDistributionLimit
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
def test_partitions_hold_the_verdicts_of_the_whole_table(folder: Path, source: str) -> None:
    printed = json.loads(run_command("score", "verifier", source, "--out", "out", "--rows", "5", "--json"))
    whole = verified("pairs.parquet")
    assert_alike(scored("out"), whole)
    assert printed["exemplars"] == EXEMPLARS
    assert printed["partitions"] == (6 if source == "pairs" else 5)  # a partition never spans two files
    assert printed["reused"] == 0
    document = json.loads(Path("out/_score.json").read_text())
    assert document["complete"]
    assert document["summary"]["yes"] == printed["yes"]


def files(out: str) -> dict[str, tuple[int, int]]:
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in Path(out).glob("part-*")}


def test_only_what_is_missing_damaged_or_changed_is_scored_again(folder: Path) -> None:
    score("verifier", "pairs.jsonl", "out", rows=5)
    before, table = files("out"), scored("out")
    assert score("verifier", "pairs.jsonl", "out", rows=5).reused == 5
    assert files("out") == before
    Path("out/part-000001.parquet").unlink()
    Path("out/part-000003.parquet").write_bytes(Path("out/part-000003.parquet").read_bytes()[:-9])
    Path("out/.part-000001.parquet.miv-0123456789abcdef.part").write_text("of a killed worker")
    assert score("verifier", "pairs.jsonl", "out", rows=5).reused == 3
    changed = {name for name, file in files("out").items() if before[name] != file}
    assert changed == {"part-000001.parquet", "part-000003.parquet"}
    assert scored("out") == table
    assert not list(Path("out").glob(".part*"))
    lines = Path("pairs.jsonl").read_text().splitlines()
    Path("pairs.jsonl").write_text("\n".join([*lines[:12], lines[0], *lines[13:20]]))  # one row changed, three removed
    said: list[str] = []
    assert score("verifier", "pairs.jsonl", "out", rows=5, say=said.append).reused == 3
    assert said[0] == "The table has changed: replacing 2 of its finished partitions."
    assert_alike(scored("out"), verified("pairs.jsonl"))
    assert score("verifier", "pairs.jsonl", "out", rows=5, say=said.append).reused == 4
    assert len(said) == 2


def test_processes_agree_on_the_fingerprint_of_a_calibrated_verifier(folder: Path) -> None:
    verifier = Verifier.from_pretrained("verifier")
    ones = np.ones(4, np.float32)
    verifier.unlike = OutOfDistributionLimit(ones, np.eye(2, 4, dtype=np.float32), np.ones(2), 1.0, 9.0, 0.05)
    verifier.save_pretrained("calibrated")
    program = (
        "from miv import Verifier; from miv.scoring.partitions import fingerprint_of; "
        "print(*{fingerprint_of(Verifier.from_pretrained('calibrated')) for _ in range(8)})"
    )
    run = [sys.executable, "-c", program]
    fingerprints = {subprocess.run(run, capture_output=True, text=True, check=True).stdout for _ in range(2)}
    assert len(fingerprints) == 1
    assert len(fingerprints.pop().split()) == 1
    verifier.unlike = replace(verifier.unlike, limit=8.0)
    assert fingerprint_of(verifier) != fingerprint_of(Verifier.from_pretrained("calibrated"))


def test_the_verdicts_of_another_table_are_not_replaced(folder: Path) -> None:
    lines = Path("pairs.jsonl").read_text().splitlines(keepends=True)
    Path("same.jsonl").write_text("".join(lines))
    Path("more.jsonl").write_text("".join([*lines[:20], *lines[:3]]))
    Path("fewer.jsonl").write_text("".join(lines[:20]))  # the first four partitions, and not the fifth
    score("verifier", "pairs.jsonl", "out", rows=5)
    before = files("out")
    for other in ("more", "fewer"):
        with pytest.raises(MIVError, match=r"verdicts of another table, .*pairs\.jsonl.*--overwrite"):
            score("verifier", f"{other}.jsonl", "out", rows=5)
    assert files("out") == before
    assert score("verifier", "same.jsonl", "out", rows=5).reused == 5  # nothing would be lost
    score("verifier", "fewer.jsonl", "out", rows=5, overwrite=True)
    assert_alike(scored("out"), verified("fewer.jsonl"))


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
    moved = "files_below was .*/a.*, not .*/b"
    with pytest.raises(MIVError, match=moved):
        score("verifier", "b/pairs.jsonl", "out", instances=ids["b"])
    with pytest.raises(MIVError, match=moved):
        score("verifier", "a/pairs.jsonl" if by_id else "b/pairs.jsonl", "out", instances=ids["b"])


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
    def refused(words: str, *arguments: str, **options: Any) -> None:
        with pytest.raises(MIVError, match=words):
            score(*arguments, **{"rows": 5, **options})

    score("verifier", "pairs.jsonl", "out", rows=5)
    same = ("verifier", "pairs.jsonl", "out")
    refused("rows was 5, not 6", *same, rows=6)
    refused("witnesses was None", *same, witnesses="alone")
    torch.manual_seed(1)
    Verifier("cap_vema", channels=4).save_pretrained("other")
    refused("fingerprint was", "other", "pairs.jsonl", "out")
    Path("labels.jsonl").write_text('{"query": [1, 2, 3, 4], "bag": [[1, 2, 3, 4]], "label": 1}')
    refused("kept was .*query_id.*, not .*label", "verifier", "labels.jsonl", "out")
    saved = Path("verifier/model.safetensors").read_bytes()
    Path("verifier/model.safetensors").write_bytes(Path("other/model.safetensors").read_bytes())
    refused("fingerprint", *same)
    Path("verifier/model.safetensors").write_bytes(saved)
    assert score("other", "pairs.jsonl", "out", rows=4, overwrite=True).reused == 0
    assert len(files("out")) == 6
    refused("not of `miv score`", "verifier", "pairs.jsonl", "pairs")
    refused("^--rows is 0", "verifier", "pairs.jsonl", "new", rows=0)
    assert not Path("new").exists()


def test_overwriting_leaves_files_of_other_programs(folder: Path) -> None:
    score("verifier", "pairs.jsonl", "out", rows=5)
    damaged = Path("out/part-000009.parquet")
    damaged.write_bytes(b"PAR1")
    others = ["part-00000-5f2b.snappy.parquet", "part-x.parquet", "part-000007.parquet", "notes.txt"]
    for name in others:
        Path("out", name).write_bytes(Path("pairs.parquet").read_bytes())
    Path("out/part-000008.parquet").mkdir()
    assert score("verifier", "pairs.jsonl", "out", rows=12, overwrite=True).partitions == 2
    ours = ["_score.json", "_score.lock", "part-000000.parquet", "part-000001.parquet"]
    assert sorted(path.name for path in Path("out").iterdir()) == sorted([*ours, *others, "part-000008.parquet"])
    before = files("out")
    with pytest.raises(MIVError, match=r"part-000007\.parquet, which is not of `miv score`"):
        score("verifier", "pairs.jsonl", "out", rows=2, overwrite=True)
    assert files("out") == before


@pytest.mark.parametrize("name", ["pairs.parquet", "pairs", "ids.csv", "linked"])
def test_what_is_read_is_never_in_the_output(folder: Path, name: str) -> None:
    def sources() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}

    Path("ids.csv").write_text('id,vector\na,"[1, 2, 3, 4]"\n')
    Path("by_id").mkdir()
    Path("by_id/pairs.jsonl").write_text('{"query": "a", "bag": ["a"]}\n')
    Path("pairs/0.parquet").rename("pairs/part-000000.parquet")
    Path("linked").mkdir()
    Path("linked/0.parquet").symlink_to(folder / "pairs.parquet")
    before = sources()
    out = name if name == "pairs" else "."
    table, instances = ("by_id/pairs.jsonl", name) if name == "ids.csv" else (name, None)
    with pytest.raises(MIVError, match=r"^--out .* contains the input"):
        score("verifier", table, out, instances=instances, overwrite=True)
    assert sources() == before


def test_a_folder_that_does_not_say_its_settings_is_refused(folder: Path) -> None:
    score("verifier", "pairs.jsonl", "out", rows=5)
    before, document = files("out"), json.loads(Path("out/_score.json").read_text())
    Path("out/_score.json").write_text(json.dumps({**document, "settings": None}))
    with pytest.raises(MIVError, match="fingerprint was None"):
        score("verifier", "pairs.jsonl", "out", rows=5)
    assert files("out") == before
    assert score("verifier", "pairs.jsonl", "out", rows=5, overwrite=True).reused == 0


def test_mistakes_are_told_before_anything_is_written(folder: Path) -> None:
    exemplars = ExemplarSet.from_lists(InstancePool("features", np.ones((3, 4), np.float32)), [0], [[1, 2]], labels=[1])
    exemplars.save("set", builder="test", options={}, seed=0)
    Path("a_file").write_text("")
    Path("by_id.jsonl").write_text('{"query": "a", "bag": ["a"]}\n')
    Path("no_id.csv").write_text('name,vector\na,"[1, 2, 3, 4]"\n')
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("pairs.jsonl", {"instances": "no.csv"}, r"^--instances .*/no\.csv is not a file"),
        ("pairs.jsonl", {"instances": "pairs"}, "^--instances .*/pairs is not a file"),
        ("set", {}, "use `miv evaluate`"),
        ("pairs.jsonl", {"resize": "crop"}, "resize is 'crop'"),
        ("pairs.jsonl", {"device": "abacus"}, "device is 'abacus'"),
    ]
    for source, options, words in cases:
        with pytest.raises(MIVError, match=words):
            score("verifier", source, "out", **options)
    assert not Path("out").exists()
    with pytest.raises(MIVError, match=r"^--out .*a_file is a file\. Expected a folder"):
        score("verifier", "pairs.jsonl", "a_file")


def test_a_wrong_first_call_does_not_occupy_the_folder(folder: Path) -> None:
    Path("by_id.jsonl").write_text('{"query": "a", "bag": ["a"]}\n')
    Path("wrong.csv").write_text('id,vector\na,"[1, 2, 3, 4, 5]"\n')
    with pytest.raises(MIVError, match="vectors of 4 numbers"):
        score("verifier", "by_id.jsonl", "out", instances="wrong.csv")
    Path("right.csv").write_text('id,vector\na,"[1, 2, 3, 4]"\n')
    assert score("verifier", "by_id.jsonl", "out", instances="right.csv").scored.exemplars == 1


def test_a_loop_of_links_and_a_name_with_nul_are_no_tables(folder: Path) -> None:
    Path("loop").symlink_to("loop")
    for source in ("loop", "a\0b"):
        with pytest.raises(MIVError, match="There is no file or folder"):
            score("verifier", source, "out")
