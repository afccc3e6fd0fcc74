"""Trainings that start from an earlier verifier."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from miv import MIVError, Verifier
from miv.data import ExemplarSet, InstancePool
from miv.evaluation.runs import RunFolder
from miv.training.new_verifier import EarlierVerifier
from miv.training.run import Machine, train
from miv.training.stages import run_stage
from miv.verifier.decisions import OperatingPoint
from tests.training.tiny import FEATURES, IMAGES, rows, tiny_sets

IMPERCEPTIBLE = {"learning_rates": ((0, 1e-9),), "max_epochs": 1, "frozen_patience": 1, "patience": 1}


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of images with options that are not the defaults."""
    home = tmp_path_factory.mktemp("earlier")
    config = IMAGES.changed(
        {"pooling": "cap_vema", "heads": 4, "backbone_options": {"grid": 2, "features": 16}, "max_epochs": 2}
    )
    train(tiny_sets("image"), config, home / "run", Machine(home / "cache", quiet=True))
    verifier = Verifier.from_pretrained(home / "run")
    verifier.operating_point = OperatingPoint(threshold=0.3)
    verifier.save_pretrained(home / "run" / "verifier")
    return home / "run"


def go(out: Path, start: Path | str | None, kind: str = "image", resume: bool = False, **changes: Any) -> Path:
    config = (IMAGES if kind == "image" else FEATURES).changed({**IMPERCEPTIBLE, **changes})
    machine = Machine(out.parent / "cache", quiet=True)
    train(tiny_sets(kind), config, out, machine, data="tiny", start_from=start, resume=resume)
    return out


def test_a_training_starts_where_the_earlier_one_ended(earlier: Path, tmp_path: Path) -> None:
    run = go(tmp_path / "run", earlier)
    before, after = Verifier.from_pretrained(earlier), Verifier.from_pretrained(run)
    for name, weight in before.state_dict().items():
        torch.testing.assert_close(after.state_dict()[name], weight, atol=1e-6, rtol=0)
    assert before.configuration == after.configuration
    assert not before.operating_point.is_default
    assert after.operating_point.is_default  # the threshold was chosen for other weights
    assert [row["stage"] for row in rows(run)] == ["frozen", "all"]
    fresh = Verifier.from_pretrained(go(tmp_path / "fresh", None))
    assert fresh.configuration != before.configuration


def test_the_record_says_where_it_started_and_its_settings_are_those_of_the_verifier(
    earlier: Path, tmp_path: Path
) -> None:
    go(tmp_path / "run", earlier / "verifier")
    about, config = RunFolder(tmp_path / "run").read(), RunFolder(tmp_path / "run").read_config()
    assert about["start"]["name"] == str(earlier / "verifier")
    assert len(about["start"]["weights"]) == 64
    assert (config["pooling"], config["heads"], config["backbone"]) == ("cap_vema", 4, "compact_cnn")
    assert config["backbone_options"]["grid"] == 2
    assert f"--from {earlier / 'verifier'}" in RunFolder(tmp_path / "run").command_to_resume()
    assert RunFolder(go(tmp_path / "fresh", None)).read()["start"] is None


def test_what_is_given_must_agree_with_the_verifier(earlier: Path, tmp_path: Path) -> None:
    agreeing: dict[str, Any] = {
        "pooling": "cap_vema",
        "heads": 4,
        "backbone": "compact_cnn",
        "backbone_options": {"grid": 2},
    }
    go(tmp_path / "run", earlier, **agreeing)
    for changes, message in (
        ({"pooling": "baseline"}, "pooling is 'baseline', but training starts from .* which has 'cap_vema'"),
        ({"heads": 8}, "heads is 8, .* which has 4"),
        ({"pooling_options": {"norm": "post"}}, "norm in pooling_options is 'post', .* which has 'pre'"),
        ({"backbone": "timm:resnet18"}, "which has 'compact_cnn'"),
        ({"backbone_options": {"grid": 4}}, "grid in backbone_options is 4, .* which has 2"),
    ):
        with pytest.raises(MIVError, match=message):
            go(tmp_path / "other", earlier, **changes)
    assert not (tmp_path / "other").exists()


def test_instances_that_do_not_fit_are_refused_before_any_work(earlier: Path, tmp_path: Path) -> None:
    with pytest.raises(MIVError, match="instances are feature vectors, but the backbone takes images"):
        go(tmp_path / "run", earlier, kind="features")
    pool = InstancePool("image", np.zeros((4, 9, 8), np.uint8))
    larger = ExemplarSet.from_lists(pool, [0, 1], [[2], [3]], labels=[1, 0])
    machine = Machine(tmp_path / "cache", quiet=True)
    with pytest.raises(MIVError, match=r"images are 9 × 8 pixels in grey.*trained on images of 8 × 8 pixels in grey"):
        train({"train": larger, "validation": larger}, IMAGES, tmp_path / "run", machine, start_from=earlier)
    Verifier("baseline", channels=9).save_pretrained(tmp_path / "nine")
    with pytest.raises(MIVError, match="Expected float32"):
        go(tmp_path / "run", tmp_path / "nine", kind="features")
    assert not (tmp_path / "run").exists()


def test_a_run_goes_on_only_from_its_own_start(earlier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(stage: Any, *arguments: Any) -> Any:
        if stage.name == "all":
            raise InterruptedError
        return run_stage(stage, *arguments)

    start = tmp_path / "start"
    Verifier.from_pretrained(earlier).save_pretrained(start)
    expected = go(tmp_path / "unbroken", start)
    with monkeypatch.context() as patched:
        patched.setattr("miv.training.planned_stages.run_stage", interrupt)
        with pytest.raises(InterruptedError):
            go(tmp_path / "run", start)
    for other, message in (
        (None, r"--from .*start, but now --from is not given"),
        ("miv/digits", "now --from is miv/digits"),
    ):
        model: dict[str, Any] = {} if other else {"pooling": "cap_vema", "heads": 4}
        with pytest.raises(MIVError, match=message):
            go(tmp_path / "run", other, resume=True, **model)
    go(tmp_path / "run", earlier, resume=True)  # the same weights under another name
    name = "verifier/model.safetensors"
    assert (tmp_path / "run" / name).read_bytes() == (expected / name).read_bytes()
    changed = Verifier.from_pretrained(start)
    with torch.no_grad():
        changed.pooling.norm.bias.add_(0.1)
    changed.save_pretrained(start)
    with pytest.raises(MIVError, match="with other weights"):
        go(expected, start, resume=True)
    with pytest.raises(MIVError, match="was started without --from, but now --from is"):
        go(go(tmp_path / "fresh", None), start, resume=True)


def test_a_verifier_that_starts_as_a_cosine_goes_on_with_what_it_has_learned(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "cache", quiet=True)
    similar = FEATURES.changed({"start": "similar", "heads": 2, "optimiser": "adamw", "select_by": "auroc"})
    train(tiny_sets("features"), similar.changed({"max_epochs": 6}), tmp_path / "first", machine)
    again = similar.changed({"max_epochs": 1, "align_epochs": 1, "align_learning_rate": 1e-9})
    train(tiny_sets("features"), again, tmp_path / "second", machine, start_from=tmp_path / "first")
    reached = json.loads((tmp_path / "first/evaluation.json").read_text())["validation"]["classification"]["auroc"]
    state = torch.load(tmp_path / "second/checkpoints/frozen/last.ckpt", weights_only=True)["stage"]
    assert state["start"]["validation_auroc"] >= reached - 0.002  # an untrained one has 0.88
    assert RunFolder(tmp_path / "second").read_config()["start"] == "similar"


def test_a_start_other_than_that_of_the_verifier_is_refused_where_it_was_asked_for(earlier: Path) -> None:
    start = EarlierVerifier.of(earlier)
    config = IMAGES.changed({"start": "similar", "align_epochs": 4})
    assert (start.adopted(config).start, start.adopted(config).align_epochs) == ("paper", 0)
    with pytest.raises(MIVError, match=r"start is 'similar', but training starts from .* which has 'paper'"):
        start.adopted(config, {"start": "similar"})
