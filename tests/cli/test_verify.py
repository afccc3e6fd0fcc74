import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from miv import MIVError, Verifier
from miv.verifier.decisions import OperatingPoint
from tests.cli.running import run_command

FORM = {"kind": "image", "height": 8, "width": 8, "mode": "L"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A verifier of images, one of vectors, and some of each."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    Verifier("cap_dba_l2", "compact_cnn", instances=FORM).save_pretrained("images")
    Verifier("gabmil", channels=2).save_pretrained("vectors")
    Path("refs").mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (4, 8, 8), dtype=np.uint8)
    for name, image in zip("abcd", pixels, strict=True):
        Image.fromarray(image).save(Path("refs") / f"{name}.png")
    Path("refs/a.png").rename("query.png")
    Path("refs/notes.md").write_text("not an instance")
    np.save("one.npy", np.array([1.0, 0.0]))
    np.save("three.npy", np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]))
    return tmp_path


def run(*arguments: str) -> str:
    return run_command("verify", *arguments)


def run_json(*arguments: str) -> Any:
    return json.loads(run(*arguments, "--json"))


def test_a_folder_files_and_a_table_are_the_same_bag_wherever_they_come(folder: Path) -> None:
    Path("bag.csv").write_text("path\nrefs/b.png\nrefs/c.png\nrefs/d.png\n")
    files = [f"refs/{name}.png" for name in "bcd"]
    ways = [["--bag", "refs"], ["--bag", *files], ["--bag", "bag.csv"]]  # the second as a shell expands refs/*.png
    ways.append([word for file in files for word in ("--bag", file)])
    found = [run_json("images", "--query", "query.png", *way) for way in ways]
    found.append(run_json("--query", "query.png", "--witnesses", "attention", "images", "--bag", *files))
    found.append(run_json("images", *files, "--query", "query.png"))
    assert all(one == found[0] for one in found)
    assert found[0]["bag"] == files
    assert sum(found[0]["attention"]) == pytest.approx(1)
    expected = Verifier.from_pretrained("images").verify("query.png", files)
    assert found[0]["probability"] == expected.probability
    table = run("images", "--query", "query.png", "--bag", "refs")
    assert table.startswith(
        f"{'Match' if expected else 'No match'} found (probability {expected.probability:.3f}, threshold 0.500)."
    )
    assert [line.split()[-1] for line in table.splitlines()[3:-1]] == files


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["images", "--query", "query.png", "b.png", "--bag", "refs"], "Got b.png after --query query.png"),
        (["images", "--bag", "refs", "--query=query.png", "b.png"], "instances of the bag after --bag"),
        (["images", "--query", "a.png", "--query", "b.png", "c.png", "--bag", "refs"], "Got c.png after --query b.png"),
        (["--query", "query.png", "images", "b.png", "--bag", "refs"], "Got b.png after --query query.png"),
    ],
)
def test_files_after_a_query_do_not_join_the_bag(folder: Path, arguments: list[str], message: str) -> None:
    with pytest.raises(MIVError, match=message):
        run(*arguments)
    assert "Usage: " in run("--help", *arguments)


def test_vectors_by_file_and_in_place(folder: Path) -> None:
    Path("bag.jsonl").write_text('{"vector": [1, 0]}\n{"vector": [0, 1]}\n{"vector": [0.5, 0.5]}\n')
    from_file = run_json("vectors", "--query", "one.npy", "--bag", "three.npy")
    assert from_file["bag"] == ["three.npy[0]", "three.npy[1]", "three.npy[2]"]
    in_place = run_json("vectors", "--query", "[1, 0]", "--bag", "[1, 0]", "--bag", "[0, 1]", "--bag", "[0.5, 0.5]")
    from_table = run_json("vectors", "--query", "[1, 0]", "--bag", "bag.jsonl")
    assert in_place["bag"] == ["[1, 0]", "[0, 1]", "[0.5, 0.5]"] == from_table["bag"]
    assert from_file["probability"] == in_place["probability"] == from_table["probability"]


def test_a_whole_table_to_parquet_and_csv(folder: Path) -> None:
    Path("pairs.csv").write_text("query,bag,query_id\nquery.png,refs/b.png|refs/c.png,q1\nrefs/b.png,refs/d.png,q2\n")
    summary = run_json("images", "--bags", "pairs.csv", "--out", "out.parquet")
    rows = pq.read_table("out.parquet").to_pylist()
    verifier = Verifier.from_pretrained("images")
    verdict = verifier.verify("query.png", ["refs/b.png", "refs/c.png"])
    assert summary["exemplars"] == len(rows) == 2
    assert summary["yes"] == sum(row["verdict"] for row in rows)
    assert [row["query"] for row in rows] == ["query.png", "refs/b.png"]
    assert [row["query_id"] for row in rows] == ["q1", "q2"]
    assert [row["bag_size"] for row in rows] == [2, 1]
    assert rows[0]["probability"] == pytest.approx(verdict.probability, abs=1e-5)
    assert rows[0]["witnesses"] == [witness.index for witness in verdict.witnesses]

    assert "2 exemplars" in run("images", "--bags", "pairs.csv", "--out", "out.csv")
    with Path("out.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    assert [(row["exemplar"], row["bag_size"], row["query"]) for row in written] == [
        ("0", "2", "query.png"),
        ("1", "1", "refs/b.png"),
    ]
    assert [row["witnesses"] for row in written] == ["|".join(map(str, row["witnesses"])) for row in rows]
    assert verdict.scores is not None
    assert run_json("images", "--query", "query.png", "--bag", "refs/b.png")["scores"] == pytest.approx(
        verdict.scores[:1].tolist(), abs=1e-5
    )


def test_a_table_tells_no_from_unsure(folder: Path) -> None:
    Path("pairs.jsonl").write_text('{"query": [1, 0], "bag": [[0, 1], [0, 1]]}\n{"query": [1, 0], "bag": [[-1, 0]]}\n')
    verifier = Verifier("nearest", channels=2)
    high, low = verifier.verify_many([[1.0, 0.0]] * 2, [[[0.0, 1.0]] * 2, [[-1.0, 0.0]]]).probability
    verifier.operating_point = OperatingPoint(threshold=high + 0.01, lower_threshold=(high + low) / 2)
    verifier.save_pretrained("two")
    said = run("two", "--bags", "pairs.jsonl", "--out", "a.parquet")
    assert "2 exemplars, 0 yes, 1 unsure: between the thresholds or out of distribution" in said
    assert f"(thresholds {(high + low) / 2:.3f} and {high + 0.01:.3f})" in said
    rows = pq.read_table("a.parquet").to_pylist()
    assert [(row["verdict"], row["decision"]) for row in rows] == [(False, "unsure"), (False, "no")]
    assert rows[0]["lower_threshold"] == pytest.approx((high + low) / 2)
    run("two", "--bags", "pairs.jsonl", "--out", "b.csv")
    with Path("b.csv").open(newline="") as file:
        assert [row["decision"] for row in csv.DictReader(file)] == ["unsure", "no"]


def test_a_pooling_without_attention_names_witnesses_and_says_by_what(folder: Path) -> None:
    Verifier("mi_net", channels=2).save_pretrained("without")
    one = run_json("without", "--query", "one.npy", "--bag", "three.npy")
    assert (one["attention"], one["witnesses_by"]) == (None, "leave_one_out")
    assert sum(one["shares"]) == pytest.approx(1)
    assert "by alone" in run("without", "--query", "one.npy", "--bag", "three.npy", "--witnesses", "alone")
    Path("pairs.jsonl").write_text('{"query": [1, 0], "bag": [[1, 0], [0, 1], [0.5, 0.5]]}\n')
    assert run_json("without", "--bags", "pairs.jsonl", "--out", "a.parquet")["witnesses_by"] == "leave_one_out"
    assert pq.read_table("a.parquet").to_pylist()[0]["witnesses_by"] == "leave_one_out"
    run("without", "--bags", "pairs.jsonl", "--out", "c.parquet", "--witnesses", "none")
    assert [row["witnesses"] for row in pq.read_table("c.parquet").to_pylist()] == [[]]


@pytest.mark.parametrize(
    ("model", "table", "message"),
    [
        ("images", "query,bag\nquery.png,refs/b.png\nquery.png,refs/b.png;refs/c.png\n", r"line 3: the bag.*with '\|'"),
        ("images", 'query,bag\nquery.png,"refs/b.png,refs/c.png"\n', r"line 2: the bag.*with '\|'"),
        ("images", "query,bag\nquery.png,refs/b.png\n\nbig.png,refs/b.png\n", r"line 4: the query.*16 × 16 grey"),
        ("vectors", 'query,bag\n"[1, 0]","[[1, 0], [1, 0, 0]]"\n', "line 2: the bag: .*different lengths .2 and 3"),
        (
            "vectors",
            'query,bag\n"[1, 0]","[[1, 0]]"\n"[1, 0, 0]","[[1, 0]]"\n',
            r"line 3: the query has the shape \(3,\)",
        ),
        ("vectors", 'query,bag\none.npy,"one.npy, one.npy"\n', r"line 2: the bag.*with '\|'"),
    ],
)
def test_an_error_names_the_line(folder: Path, model: str, table: str, message: str) -> None:
    Path("pairs.csv").write_text(table)
    Image.fromarray(np.zeros((16, 16), np.uint8)).save("big.png")
    with pytest.raises(MIVError, match=f"pairs.csv, {message}"):
        run(model, "--bags", "pairs.csv", "--out", "out.csv")


def test_instances_by_id(folder: Path) -> None:
    Path("pairs.csv").write_text("query,bag\nq,b|c\n")
    Path("instances.csv").write_text("id,path\nq,query.png\nb,refs/b.png\nc,refs/c.png\n")
    run("images", "--bags", "pairs.csv", "--instances", "instances.csv", "--out", "out.parquet")
    row = pq.read_table("out.parquet").to_pylist()[0]
    direct = run_json("images", "--query", "query.png", "--bag", "refs/b.png", "--bag", "refs/c.png")
    assert row["query"] == "q"
    assert row["probability"] == pytest.approx(direct["probability"], abs=1e-6)
    Path("pairs.csv").write_text("query,bag\nq,b|x\n")
    with pytest.raises(MIVError, match=r"pairs.csv, line 2: there is no instance with the id 'x'"):
        run("images", "--bags", "pairs.csv", "--instances", "instances.csv", "--out", "other.parquet")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["images"], "either --query and --bag, or --bags"),
        (["images", "--query", "query.png"], "either --query and --bag, or --bags"),
        (["images", "--query", "query.png", "--bag", "refs", "--bags", "t.csv"], "either --query and --bag"),
        (["images", "--query", "query.png", "--bag", "refs", "--out", "o.csv"], "need --bags"),
        (["images", "--query", "query.png", "--bag", "refs", "--top", "3"], "--top needs --stream"),
        (["images", "--bags", "t.csv"], "--out is missing"),
        (["images", "--bags", "t.csv", "--out", "o.xlsx"], "Expected .parquet or .csv"),
        (["images", "--bags", "t.csv", "--out", "taken.csv"], "already exists.*--overwrite"),
        (["images", "--bags", "t.csv", "--out", "o.csv"], "t.csv: the table does not exist"),
        (["images", "--query", "nope.png", "--bag", "refs"], "nope.png: this image does not exist"),
        (["images", "--query", "query.png", "--bag", "images"], "folder images contains no instances"),
        (["images", "--query", "query.png", "--bag", "nope"], "--bag nope: there is no such folder or image"),
        (["images", "--query", "query.png", "--bag", ""], "--bag is empty"),
        (["images", "--query", "big.png", "--bag", "refs"], "16 × 16 grey.*8 × 8 grey.*--resize"),
        (["vectors", "--query", "three.npy", "--bag", "three.npy"], "3 vectors.*Expected one vector.*repeat --query"),
        (["vectors", "--query", "one", "--bag", "three.npy"], "--query: expected a vector .* got 'one'"),
        (["vectors", "--query", "q.json", "--bag", "three.npy"], r"--query q.json: .* vectors. Expected a \.npy file"),
        (["vectors", "--query", "no.json", "--bag", "three.npy"], "--query no.json: there is no such file or folder"),
        (["vectors", "--query", "[1, 0", "--bag", "three.npy"], "--query: .* JSON"),
        (["vectors", "--query", " ", "--bag", "three.npy"], "--query: .* empty"),
        (["images", "--query", "q.json", "--bag", "refs"], "q.json: not a readable image.*PNG"),
        (["images", "--query", "zero.png", "--bag", "refs"], r"zero\.png: the file is empty \(0 bytes\)"),
        (["vectors", "--query", "[1, 0, 0]", "--bag", "three.npy"], "vectors of 2 numbers"),
        (["nowhere/model", "--query", "a", "--bag", "b"], "no folder 'nowhere/model'"),
    ],
)
def test_mistakes_are_named(folder: Path, arguments: list[str], message: str) -> None:
    Path("taken.csv").write_text("kept")
    Path("q.json").write_text("[1, 0]")
    Path("zero.png").touch()
    Image.fromarray(np.zeros((16, 16), np.uint8)).save("big.png")
    with pytest.raises(MIVError, match=message):
        run(*arguments)
    assert Path("taken.csv").read_text() == "kept"
    assert not Path("o.csv").exists()
