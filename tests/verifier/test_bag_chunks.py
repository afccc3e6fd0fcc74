"""Every way to give a bag of any size: the same verdict as the whole at once, and clear errors."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from miv import MIVError, Verifier
from miv.cli.app import app
from miv.runtime import SilentProgress
from miv.tasks import create_task
from miv.verifier import streaming
from miv.verifier.decisions import OperatingPoint
from tests.poolings.test_stored_forms import verifier_of
from tests.verifier.test_streaming_pass import bag_and_queries, check_equal


@pytest.fixture(scope="module")
def verifier() -> Verifier:
    return verifier_of("cap_dba_l2", {"heads": 1}, "similar")


def logits(found: Any) -> list[float]:
    return [one.logit for one in found]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64, np.int8])
def test_files_arrays_and_iterators_give_one_answer(
    verifier: Verifier, tmp_path: Path, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "CHUNK_BYTES", 1000)  # many chunks
    bag, queries = bag_and_queries()
    bag = (bag * 8).astype(dtype)
    expected = verifier.verify_many(queries, [bag.astype(np.float32)] * 3)
    np.save(tmp_path / "bag.npy", bag)
    np.save(tmp_path / "column.npy", np.asfortranarray(bag))
    mapped = np.load(tmp_path / "bag.npy", mmap_mode="r")
    np.save(tmp_path / "backwards.npy", bag[::-1])
    np.save(tmp_path / "mirrored.npy", np.ascontiguousarray(bag[:, ::-1]))
    backwards, mirrored = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("backwards", "mirrored"))
    floats = bag.astype(np.float32)
    sources: list[Any] = [
        tmp_path / "bag.npy",
        str(tmp_path / "column.npy"),
        bag,
        mapped,
        mapped[:],
        backwards[::-1],
        mirrored[:, ::-1],
        torch.from_numpy(floats),
        [floats[:7], floats[7:]],
        iter([floats[:7], floats[7:]]),
        lambda: iter([floats[:50], torch.from_numpy(floats[50:])]),
        list(floats),
    ]
    for source in sources:
        found = verifier.verify_stream(queries, source, top=3)
        np.testing.assert_allclose(logits(found), expected.logit, rtol=1e-5, atol=1e-5)
        assert [one.size for one in found] == [len(bag)] * 3
        assert [one.leading[0].index for one in found] == [np.argmax(np.asarray(one.attention)) for one in expected]


def test_images_and_texts_go_through_the_backbone(tmp_path: Path) -> None:
    digits = Verifier.from_pretrained("miv/digits")
    images = (
        create_task("digits-twin", writers=6, held_out_writers=6).build(SilentProgress())["train"].pool.values[:300]
    )
    expected = digits.verify_many([images[0]], [images[1:]])
    np.save(tmp_path / "images.npy", images[1:])
    for source in (list(images[1:]), tmp_path / "images.npy"):
        (found,) = digits.verify_stream([images[0]], source, top=4)
        assert found.probability == pytest.approx(expected.probability[0], rel=1e-5)
        assert found.size == len(images) - 1
    texts = Verifier.from_pretrained("miv/evidence")
    bag = ["Ada Lovelace wrote notes.", "The bridge opened in 1932.", "Lovelace was born in 1815."]
    whole = texts.verify("Ada Lovelace was born in 1815.", bag)
    (tmp_path / "bag.txt").write_text("\n".join(bag))
    for given in (bag, tmp_path / "bag.txt"):
        (streamed,) = texts.verify_stream(["Ada Lovelace was born in 1815."], given)
        assert streamed.probability == pytest.approx(whole.probability, rel=1e-5)
        assert streamed.leading[0].index == whole.witnesses[0].index


def test_wrong_bags_and_queries_are_refused(verifier: Verifier, tmp_path: Path) -> None:
    bag, queries = bag_and_queries()
    bag[70, 3] = np.nan
    np.save(tmp_path / "short.npy", bag)
    content = (tmp_path / "short.npy").read_bytes()
    (tmp_path / "short.npy").write_bytes(content[:-100])
    np.save(tmp_path / "narrow.npy", bag[:, :0])
    cases: list[tuple[Any, str]] = [
        (bag, "Instance 70 of the bag contains NaN"),
        (tmp_path / "short.npy", "damaged"),
        (tmp_path / "narrow.npy", "Expected .N, 12."),
        (np.ma.masked_equal(bag, bag[0, 0]), "masked"),
        ([bag[:60], queries[0]], "mixes chunks"),
        *((tmp_path / name, f"There is no bag .*{name}") for name in ("absent.npy", "absent")),
        ([], "The bag is empty"),
        (3, "The bag is a int"),
        (["a", "b"], "not numbers"),
    ]
    for source, words in cases:
        with pytest.raises(MIVError, match=words):
            verifier.verify_stream(queries, source)
    with pytest.raises(MIVError, match="Got one query"):
        verifier.verify_stream(queries[0], bag)
    with pytest.raises(MIVError, match="list of references"):
        verifier.verify_stream([[queries[0], queries[1]]], bag)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_queries_that_are_not_finite_are_named_before_the_bag_is_read(number: float) -> None:
    _, queries = bag_and_queries()
    queries[1, 3] = number

    def read() -> Any:
        pytest.fail("the bag was read")

    with pytest.raises(MIVError, match=r"^Query 1.* NaN or infinity"):
        verifier_of("nearest", {}, "similar").verify_stream(queries, read)


def test_bags_far_from_the_calibrated_sizes_are_told(tmp_path: Path) -> None:
    verifier = verifier_of("cap_dba_l2", {}, "similar")
    bag, queries = bag_and_queries()
    verifier.operating_point = OperatingPoint(goal="accuracy", measured={"data": {"bag_sizes": [5, 12]}})
    [warning] = verifier.verify_stream(queries, bag)[0].warnings
    assert "bags of 5 to 12, this one has 120" in warning


def test_the_command_reads_a_file_in_chunks(verifier: Verifier, tmp_path: Path) -> None:
    bag, queries = bag_and_queries()
    verifier.save_pretrained(tmp_path / "verifier")
    np.save(tmp_path / "bag.npy", bag)
    for number in range(2):
        np.save(tmp_path / f"query{number}.npy", queries[number])
    asked = ["--query", str(tmp_path / "query0.npy"), "--query", str(tmp_path / "query1.npy")]
    command = ["verify", str(tmp_path / "verifier"), *asked, "--bag", str(tmp_path / "bag.npy"), "--stream"]
    found = CliRunner().invoke(app, [*command, "--top", "2", "--json"])
    assert found.exit_code == 0, found.output
    document = json.loads(found.stdout)
    expected = verifier.verify_many(queries[:2], [bag] * 2)
    assert [one["logit"] for one in document["verdicts"]] == pytest.approx(expected.logit.tolist(), rel=1e-5)
    assert [len(one["leading"]) for one in document["verdicts"]] == [2, 2]
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0
    assert "Bag of 120, 10 leading by attention" in shown.stdout
    refused = CliRunner().invoke(app, [*command, "--witnesses", "alone"])
    assert refused.exit_code != 0


def test_targets_are_named_in_one_pass_with_several_heads() -> None:
    verifier = verifier_of("cap_dba_l2", {"heads": 6}, "similar")
    bag, queries = bag_and_queries(2000)
    check_equal(verifier, queries, bag, verifier.verify_stream(queries, iter([bag]), top=7))
