"""The tiers `frozen`, on the backbone of a shipped verifier, and `finetuned`, which trains an encoder's last layers."""

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from miv.cli.app import app
from miv.errors import MIVError
from miv.evaluation.runs import RunFolder
from miv.reproduction.cells import compute
from miv.reproduction.grids import EXPERIMENTS, Cell, Setup
from miv.reproduction.jobs import Job, JobFolders, find_tier
from miv.reproduction.results import find_result, write_result
from miv.runtime import SilentProgress
from miv.verifier.network import Verifier
from tests.cli.running import run_command
from tests.tasks.test_qmnist import write_raw


@pytest.mark.parametrize(
    ("tier", "task", "other"), [("finetuned", "fever-dev", "qmnist"), ("frozen", "qmnist", "fever")]
)
def test_a_tier_of_one_task_lists_and_takes_only_that(tier: str, task: str, other: str, tmp_path: Path) -> None:
    words = f"The tier {tier} has only {task}, not {other}. Use another --tier."
    with pytest.raises(MIVError, match=words):
        find_tier(tier).settings(EXPERIMENTS[other]["headed"].cells([0])[0])
    with pytest.raises(MIVError, match=words):
        run_command("reproduce", other, "--report-only", "--tier", tier, "--results", str(tmp_path))
    listed = run_command("reproduce", "--list", "--json", "--tier", tier, "--results", str(tmp_path))
    assert {row["task"] for row in json.loads(listed)} == {task}


@pytest.mark.parametrize("arguments", [["--list"], ["qmnist", "classification", "--report-only"], ["--conclusions"]])
def test_without_finished_cells_it_says_where_it_looked(arguments: list[str], tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["reproduce", *arguments, "--results", str(tmp_path / "none")])
    assert done.exit_code == 0
    assert f"There are no finished cells in {tmp_path / 'none'}. --results names another folder." in done.stderr


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
