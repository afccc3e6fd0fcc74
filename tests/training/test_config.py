import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from miv.errors import MIVError
from miv.training.auto import PRESETS, preset
from miv.training.config import TrainingConfig, parse_setting, read_settings


def test_the_presets_hold_the_settings_of_the_paper() -> None:
    papers = {name: one for name, one in PRESETS.items() if name != "best"}
    assert {
        name: (one.heads, one.batch_size, one.learning_rates, one.patience, one.frozen_patience, one.optimiser)
        for name, one in papers.items()
    } == {
        "qmnist": (2, 768, ((0, 1e-4), (5, 5e-5), (20, 2e-5)), 30, 2, "rmsprop"),
        "signature": (6, 64, ((0, 5e-6), (5, 2e-6), (10, 1e-6)), 10, 2, "rmsprop"),
        "fever": (4, 48, ((0, 1e-5), (10, 5e-6), (20, 2e-6)), 10, 2, "rmsprop"),
    }
    assert {name: (one.backbone, one.backbone_options) for name, one in papers.items()} == {
        "qmnist": ("hf:microsoft/resnet-18", {"image_size": [32, 32]}),
        "signature": ("hf:google/efficientnet-b3", {"image_size": [128, 256]}),
        "fever": ("hf:sentence-transformers/multi-qa-MiniLM-L6-cos-v1", {"pooling": "cls"}),
    }
    assert [preset("qmnist", pooling).patience for pooling in ("pma", "msa", "cap_vema")] == [50, 50, 30]
    assert preset("fever", "pma").patience == 10


def test_settings_survive_a_file(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(PRESETS["qmnist"].document()))
    assert TrainingConfig().changed(read_settings(path)) == PRESETS["qmnist"]
    toml = tmp_path / "config.toml"
    toml.write_text('pooling = "msa"\nlearning_rates = [[0, 1e-3], [4, 1e-4]]\n[pooling_options]\nlayers = 1\n')
    config = TrainingConfig().changed(read_settings(toml))
    assert (config.pooling, config.learning_rates[1], config.pooling_options) == ("msa", (4, 1e-4), {"layers": 1})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pateince": 3}, "Did you mean 'patience'"),
        ({"patience": 0}, "Expected 1 or more"),
        ({"backbone_learning_rate": "atuo"}, "'atuo'. Expected a number, or auto or same"),
        ({"backbone_learning_rate": -1.0}, "Expected a rate above 0"),
        ({"patience": "ten"}, "Expected a whole number"),
        ({"weight_decay": -1}, "Expected 0 or more"),
        ({"optimiser": "rmsprob"}, "Did you mean 'rmsprop'"),
        ({"learning_rates": [[1, 1e-3]]}, "increasing from 0"),
        ({"learning_rates": "fast"}, "pairs"),
        ({"learning_rates": [[0, -1e-3]]}, "above 0"),
        ({"pooling_options": "heads=2"}, "key = value"),
        ({"frozen_stage": 1}, "true or false"),
        ({"weight_decay": float("nan")}, "weight_decay is nan. Expected a finite number"),
        ({"seed": 2**70}, "seed is 1180591620717411303424. Expected 9223372036854775807 or less"),
        ({"backbone_options": {"since": date(2025, 1, 1)}}, "backbone_options .*2025.*numbers, strings"),
        ({"pooling_options": {"scale": float("nan")}}, "pooling_options .*nan.*numbers, strings"),
    ],
)
def test_a_wrong_setting_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(MIVError, match=message):
        TrainingConfig().changed(changes)


def test_a_list_among_the_options_keeps_its_commas() -> None:
    text = 'image_size=[32,64],image_std=[0.2, 0.3,0.2],config={"a": [1, 2], "b": "x,y"},size=large'
    assert parse_setting("backbone_options", text) == {
        "image_size": [32, 64],
        "image_std": [0.2, 0.3, 0.2],
        "config": {"a": [1, 2], "b": "x,y"},
        "size": "large",
    }


@pytest.mark.parametrize(("name", "text"), [("learning_rates", "0;1"), ("pooling_options", "heads")])
def test_a_wrong_flag_is_refused(name: str, text: str) -> None:
    with pytest.raises(MIVError, match=name):
        parse_setting(name, text)


@pytest.mark.parametrize(("name", "content"), [("a.toml", "x = "), ("a.json", "{"), ("a.json", "[1]")])
def test_a_damaged_file_is_refused(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(MIVError, match=name):
        read_settings(tmp_path / name)
    with pytest.raises(MIVError, match="Could not read"):
        read_settings(tmp_path / "absent.toml")
