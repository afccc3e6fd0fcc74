"""The paper's experiments on a set of one's own: the same tables, known by content, without the paper's figures."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from miv import ExemplarSet, InstancePool
from miv.data import save_splits
from miv.errors import MIVError
from miv.reproduction import jobs
from miv.reproduction.cells import compute
from miv.reproduction.grids import EXPERIMENTS, Cell, Setup, find_experiments
from miv.reproduction.jobs import OWN, Job, JobFolders
from miv.reproduction.results import find_result, write_result
from miv.runtime import SilentProgress
from tests.cli.running import run_command
from tests.reproduction.examples import answers_of, finish
from tests.training.tiny import tiny_sets

ANSWERS = answers_of([1.0, -1.0, 1.0, -1.0], [1, 0, 0, 1], [True, False, True, False])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    jobs._splits_of.cache_clear()
    save_splits(tiny_sets("features", 60), tmp_path / "mine")
    return tmp_path


def job(task: str = "mine", model: str = "baseline", number: int = 0) -> Job:
    return Job(Cell(task, Setup(model, model), number), OWN)


@pytest.mark.usefixtures("folder")
def test_the_experiments_are_the_papers() -> None:
    for name in ("classification", "key_instance", "ablation", "headed", "layernorm"):
        [own] = find_experiments("mine", name)
        assert [(row.model, row.variant) for row in own.rows] == [
            (row.model, row.variant) for row in EXPERIMENTS["qmnist"][name].rows
        ]
    assert find_experiments("mine", "witnesses") == find_experiments("mine", "key_instance")
    assert {one.name for one in find_experiments("mine")}.isdisjoint({"per_digit", "size_study"})
    with pytest.raises(MIVError, match="folder of its splits"):
        find_experiments("nowhere")


def test_a_set_is_known_by_its_content(folder: Path) -> None:
    shutil.copytree("mine", folder / "elsewhere" / "mine")
    assert job().description == job("elsewhere/mine").description
    finish(job(), ANSWERS, folder / "results")
    save_splits(tiny_sets("features", 62), folder / "mine", overwrite=True)
    jobs._splits_of.cache_clear()
    with pytest.raises(MIVError, match="different settings: splits was"):
        find_result(job(), folder / "results")


def test_a_round_may_have_splits_of_its_own(folder: Path) -> None:
    save_splits(tiny_sets("features", 62), folder / "mine" / "round-1")
    fingerprints = [job(number=number).description["data"]["options"]["splits"]["test"] for number in range(3)]
    assert fingerprints[0] == fingerprints[2] != fingerprints[1]
    assert [job(number=number).settings.seed for number in range(3)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("values", "backbone", "heads"),
    [
        (np.zeros((9, 12), np.float32), "features", 4),
        (np.zeros((9, 7), np.float32), "features", 1),
        (np.zeros((9, 8, 8), np.uint8), "hog", 4),
        (np.zeros((9, 8, 8, 3), np.uint8), "hog", 4),
    ],
)
def test_the_backbone_needs_no_training_and_heads_divide_its_channels(
    values: np.ndarray, backbone: str, heads: int, folder: Path
) -> None:
    pool = InstancePool("image" if values.dtype == np.uint8 else "features", values)
    one = ExemplarSet.from_lists(pool, [0, 1], [[1, 2], [3]], [0, 1])
    save_splits({"train": one, "validation": one, "test": one}, folder / "other")
    settings = job("other").settings
    assert (settings.backbone, settings.heads) == (backbone, heads)


def test_a_cell_is_trained_and_reported_without_the_papers_figures(folder: Path) -> None:
    places = JobFolders(folder / "reproduced", folder / "work", folder / "cache")
    write_result(job(), places.results, compute(job(), places, SilentProgress()))
    for number in (0, 1):
        finish(job(model="cap_vema", number=number), ANSWERS, places.results, test="the same")
        if number:
            finish(job(number=number), ANSWERS, places.results, test="the same")
    [section] = json.loads(
        run_command("reproduce", "mine", "classification", "--rounds", "1,", "--report-only", "--json")
    )
    assert section["tier"] == OWN
    assert {row["paper"] for row in section["figures"]} == {None}
    assert any(test["row"] == "cap_vema" and test["against"] == "baseline" for test in section["paired_tests"])


def test_missing_splits_are_named(folder: Path) -> None:
    save_splits({"train": tiny_sets("features", 60)["train"]}, folder / "part")
    with pytest.raises(MIVError, match="has no validation, test"):
        run_command("reproduce", "part", "ablation")
