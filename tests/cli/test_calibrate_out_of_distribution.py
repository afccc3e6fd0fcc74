import json
from pathlib import Path

import numpy as np
import pytest
import torch

from miv import Verifier
from miv.data import ExemplarSet, InstancePool, save_splits
from miv.errors import MIVError
from miv.verifier.out_of_distribution import LIMIT_NAME
from tests.cli.running import run_command

FAR = [50.0, -50.0, 50.0, -50.0]


def make_set(seed: int, classes: int) -> ExemplarSet:
    """Ten vectors per class around a direction; a bag of two of them for each query, with and without its class."""
    random = np.random.default_rng(seed)
    directions = np.repeat(random.normal(size=(classes, 4)), 10, axis=0)
    values = (directions + random.normal(0, 0.3, directions.shape)).astype(np.float32)
    names = np.array([f"class {number}" for number in np.repeat(np.arange(classes), 10)], object)
    query = range(0, 10 * classes, 2)
    bags = [[q + 1, (q + 15) % (10 * classes)] for q in query] + [[(q + 15) % (10 * classes)] for q in query]
    labels = [1] * len(query) + [0] * len(query)
    return ExemplarSet.from_lists(InstancePool("features", values, names), [*query, *query], bags, labels)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    save_splits({"train": make_set(0, 20), "validation": make_set(1, 24)}, "data", builder="test", options={}, seed=0)
    save_splits({"train": make_set(0, 20), "validation": make_set(1, 9)}, "few", builder="test", options={}, seed=0)
    torch.manual_seed(0)
    Verifier("nearest", channels=4).save_pretrained("model")
    return tmp_path


def test_calibrate_sets_the_limit_that_verify_uses(folder: Path) -> None:
    said = json.loads(run_command("calibrate", "model", "data", "--json"))
    assert said["unlike"]["rate"] == pytest.approx(1 / 25)  # 24 classes cannot promise less for a new one
    assert said["unlike"]["measured"]["clusters"] == 24
    bag = json.dumps([1.0, 0.0, 0.0, 0.0])
    assert "Unsure: the query is out of distribution" in run_command(
        "verify", "model", "--query", json.dumps(FAR), "--bag", bag
    )
    assert "unlike" not in run_command("verify", "model", "--query", bag, "--bag", bag)
    assert "false-alarm rate of at most 0.1 for new classes" in run_command(
        "calibrate", "model", "data", "--out-of-distribution", "0.1", "--overwrite"
    )
    run_command("calibrate", "model", "data", "--out-of-distribution", "0", "--overwrite")
    assert not (folder / "model" / LIMIT_NAME).exists()
    assert Verifier.from_pretrained("model").unlike is None


def test_few_classes_promise_less(folder: Path) -> None:
    assert "at most 0.1 for new classes" in run_command("calibrate", "model", "few", "--goal", "eer")
    assert (folder / "model" / LIMIT_NAME).exists()
    with pytest.raises(MIVError, match="cannot be promised with 9 classes or instances"):
        run_command("calibrate", "model", "few", "--out-of-distribution", "0.01", "--overwrite")
    run_command("calibrate", "model", "few", "--out-of-distribution", "0.1", "--overwrite")
    assert (folder / "model" / LIMIT_NAME).is_file()


def with_far_query(exemplars: ExemplarSet) -> ExemplarSet:
    """The query of the first exemplar is far from everything."""
    pool = exemplars.pool
    assert pool.classes is not None
    values = np.concatenate([pool.values, [FAR]]).astype(np.float32)
    query = np.array(exemplars.query)
    query[0] = len(pool)
    bags = np.split(exemplars.bag_index, exemplars.bag_ptr[1:-1])
    classes = np.append(pool.classes, "far")
    return ExemplarSet.from_lists(InstancePool("features", values, classes), query, bags, exemplars.label)


def test_evaluate_says_how_many_exemplars_are_withheld(folder: Path) -> None:
    run_command("calibrate", "model", "data", "--goal", "eer")
    save_splits({"test": with_far_query(make_set(1, 24))}, "new", builder="test", options={}, seed=0)
    found = json.loads(run_command("evaluate", "model", "new", "--json"))["operating_point"]
    before = json.loads(run_command("evaluate", "model", "data", "--split", "validation", "--json"))["operating_point"]
    assert found["withheld"] == before["withheld"] + 1
    assert found["unsure"] == found["withheld"]
    assert f"Out of distribution, and so unsure: {found['withheld']} of 240" in run_command("evaluate", "model", "new")
