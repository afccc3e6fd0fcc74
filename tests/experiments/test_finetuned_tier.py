"""The tier `finetuned`: the stage of `cpu`, then one that also trains the last layers of the encoder."""

import json
from pathlib import Path

import pytest

from miv.errors import MIVError
from miv.experiments.grids import EXPERIMENTS, Cell, Setup
from miv.experiments.tiers import find_tier
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
