"""The tier `frozen`: new poolings on the backbone of a verifier that comes with the package."""

import json
from pathlib import Path

import pytest
import torch

from miv.errors import MIVError
from miv.evaluation.runs import RunFolder
from miv.reproduction.cells import compute
from miv.reproduction.grids import EXPERIMENTS, Cell, Setup
from miv.reproduction.jobs import Job, JobFolders
from miv.reproduction.results import find_result, write_result
from miv.reproduction.tiers import find_tier
from miv.runtime import SilentProgress
from miv.verifier.network import Verifier
from tests.cli.running import run_command
from tests.tasks.test_qmnist import write_raw


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["nearest", "cap_vema"])
def test_a_cell_trains_a_new_pooling_on_the_backbone_of_the_shipped_verifier(tmp_path: Path, pooling: str) -> None:
    write_raw(tmp_path / "raw", writers=12, each=5)
    places = JobFolders(tmp_path / "results", tmp_path / "work", tmp_path / "cache", tmp_path / "raw")
    job = Job(Cell("qmnist", Setup(pooling, pooling), 0), "frozen")
    document = compute(job, places, SilentProgress())
    assert document["best"]["stage"] == "frozen"
    assert document["description"]["backbone_of"] == "miv/digits"
    assert document["start"]["name"] == "a new pooling on the backbone of miv/digits"
    trained = Verifier.from_pretrained(RunFolder(job.work_folder(places.work)).verifier)
    shipped = Verifier.from_pretrained("miv/digits")
    assert trained.configuration["pooling"] == pooling
    for name, weight in shipped.backbone.state_dict().items():
        assert torch.equal(trained.backbone.state_dict()[name], weight)
    write_result(job, places.results, document)
    assert find_result(job, places.results) is not None


def test_it_has_no_settings_for_other_tasks(tmp_path: Path) -> None:
    cell = EXPERIMENTS["fever"]["classification"].cells([0])[0]
    words = "The tier frozen has only qmnist, not fever. Use another --tier."
    with pytest.raises(MIVError, match=words):
        find_tier("frozen").settings(cell)
    with pytest.raises(MIVError, match=words):
        run_command("reproduce", "fever", "--report-only", "--tier", "frozen", "--results", str(tmp_path))


def test_the_command_lists_only_its_tasks(tmp_path: Path) -> None:
    listed = run_command("reproduce", "--list", "--json", "--tier", "frozen", "--results", str(tmp_path))
    assert {one["task"] for one in json.loads(listed)} == {"qmnist"}
