"""A damaged cache is discarded and made again; one that cannot be written is left out. A run never fails for it."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightning.pytorch import Trainer

from miv import MIVError, Verifier
from miv.data import ExemplarSet, InstancePool
from miv.data.batches import make_batch
from miv.errors import MIVWarning
from miv.evaluation import auroc
from miv.evaluation.baselines import cosines
from miv.poolings.similar import AlignedNorm
from miv.training.checkpoint import CheckpointCallback
from miv.training.new_verifier import create_verifier, resolve_backbone
from miv.training.run import Machine, train
from miv.training.stages import contrast_losses
from miv.training.start import fit_start
from tests.training.test_pilot import SIMILAR
from tests.training.tiny import FEATURES, IMAGES, assert_same_run, rows, run_tiny, tiny_sets


def losses(vectors: list[list[float]], queries: list[int], bags: list[list[int]], temperature: float) -> list[float]:
    pool = InstancePool("features", np.array(vectors, np.float32))
    exemplars = ExemplarSet.from_lists(pool, queries, bags, labels=[1] * len(queries))
    batch = make_batch(exemplars, np.arange(len(queries)), lambda rows: torch.from_numpy(pool.values[rows]).double())
    return contrast_losses(batch, temperature).tolist()


@given(st.integers(0, 10_000), st.integers(1, 5), st.sampled_from([0.05, 0.5]))
def test_losses_are_those_of_a_naive_loop(seed: int, exemplars: int, temperature: float) -> None:
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(12, 3)).astype(np.float32)
    queries = random.integers(0, 4, exemplars).tolist()
    bags = [random.permutation(np.arange(4, 12))[: random.integers(1, 5)].tolist() for _ in queries]
    directions = vectors.astype(float) / np.linalg.norm(vectors.astype(float), axis=1, keepdims=True)
    everything = {target for bag in bags for target in bag}
    expected = []
    for query, bag in zip(queries, bags, strict=True):
        near = {target: math.exp(float(directions[query] @ directions[target]) / temperature) for target in everything}
        expected.append(-math.log(sum(near[target] for target in bag) / sum(near.values())))
    assert losses(vectors.tolist(), queries, bags, temperature) == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_the_stage_comes_first_and_can_be_repeated(tmp_path: Path) -> None:
    settings = {"contrast_epochs": 2, "contrast_batch_size": 8}
    whole = run_tiny("image", tmp_path / "one" / "whole", **settings)
    stages = [line.split(",")[0] for line in (tmp_path / "one" / "whole" / "metrics.csv").read_text().splitlines()[1:]]
    assert stages[:3] == ["contrast", "contrast", "frozen"]
    assert stages[-1] == "all"
    assert run_tiny("image", tmp_path / "another" / "cache of its own", **settings) == whole


def test_runs_with_other_poolings_share_the_stage(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run_tiny("image", tmp_path / "cap", contrast_epochs=2)
    assert "contrast epoch" in capfd.readouterr().err
    run_tiny("image", tmp_path / "other", contrast_epochs=2, pooling="gabmil")
    assert "contrast epoch" not in capfd.readouterr().err
    backbones = [
        Verifier.from_pretrained(tmp_path / run / "checkpoints" / "contrast" / "best").backbone.fingerprint()
        for run in ("cap", "other")
    ]
    assert backbones[0] == backbones[1]
    assert (tmp_path / "other" / "metrics.csv").read_text().count("\ncontrast") == 2
    run_tiny("image", tmp_path / "longer", contrast_epochs=3)
    assert "contrast epoch" in capfd.readouterr().err


def test_a_stage_that_was_killed_gives_way_to_one_that_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    class KilledError(BaseException):
        pass

    save = CheckpointCallback._save

    def save_and_die(keeper: CheckpointCallback, trainer: Trainer) -> None:
        save(keeper, trainer)
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(CheckpointCallback, "_save", save_and_die)
        with pytest.raises(KilledError):
            run_tiny("image", tmp_path / "killed", contrast_epochs=3)
    assert (tmp_path / "killed" / "checkpoints" / "contrast" / "last.ckpt").is_file()
    run_tiny("image", tmp_path / "other", contrast_epochs=3, pooling="gabmil")
    capfd.readouterr()
    run_tiny("image", tmp_path / "killed", contrast_epochs=3)
    assert "contrast epoch" not in capfd.readouterr().err
    assert (tmp_path / "killed" / "metrics.csv").read_text().count("\ncontrast") == 3
    about = json.loads((tmp_path / "killed" / "run.json").read_text())
    assert list(about["stage_seconds"]) == ["contrast", "frozen", "all"]
    assert about["seconds"] == pytest.approx(sum(about["stage_seconds"].values()), abs=0.2)


def test_several_processes_are_refused(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "cache", devices=2)
    with pytest.raises(
        MIVError, match=r"contrast_epochs is 1 with 2 processes.* cannot divide a batch .* Expected one process"
    ):
        train(tiny_sets("image"), IMAGES.changed({"contrast_epochs": 1}), tmp_path / "run", machine)
    assert not (tmp_path / "run").exists()


# A damaged cache is discarded and made again; one that cannot be written is left out. A run never fails for it.

CONTRAST = {"contrast_epochs": 1, "contrast_batch_size": 8, "max_epochs": 1}


@pytest.fixture(scope="module")
def contrast_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("reference") / "run"
    run_tiny("image", run, **CONTRAST)
    return run


def test_it_moves_the_backbone_and_nothing_else(contrast_run: Path) -> None:
    pool = tiny_sets("image")["train"].pool
    before = create_verifier(resolve_backbone(IMAGES, pool), pool).state_dict()
    after = Verifier.from_pretrained(contrast_run / "checkpoints" / "contrast" / "best").state_dict()
    assert {name.split(".")[0] for name, weight in after.items() if not torch.equal(weight, before[name])} == {
        "backbone"
    }


@pytest.mark.parametrize(
    ("name", "damage"), [("last.ckpt", "cut"), ("last.ckpt", "changed"), ("best/model.safetensors", "cut")]
)
def test_a_damaged_contrast_stage_is_made_again(contrast_run: Path, tmp_path: Path, name: str, damage: str) -> None:
    shutil.copytree(contrast_run.parent / "cache", tmp_path / "cache")
    kept = next(path for path in (tmp_path / "cache" / "contrast").iterdir() if path.is_dir())
    whole = (kept / name).read_bytes()
    middle = len(whole) // 2
    changed = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    (kept / name).write_bytes(whole[:middle] if damage == "cut" else changed)
    with pytest.warns(MIVWarning, match="contrast.*is damaged .*computed again"):
        run_tiny("image", tmp_path / "run", **CONTRAST)
    assert_same_run(contrast_run, tmp_path / "run")
    assert (kept / "best/model.safetensors").read_bytes() == (
        contrast_run / "checkpoints/contrast/best/model.safetensors"
    ).read_bytes()


# A map of frozen features: learned where it helps, and left alone where it does not.

CLASSES, INSTANCES, CHANNELS = 40, 600, 24
ALIGNED: dict[str, Any] = {
    **SIMILAR,
    "align_epochs": 12,
    "align_learning_rate": 1e-2,
    "contrast_batch_size": 16,
    "pull": 0.0,
}


def hidden(split: int, nuisance: float, signal: float = 1.0) -> ExemplarSet:
    """Classes are told by the first eight channels; the others are noise of a strength of its own."""
    random = np.random.default_rng(split)
    centres = np.random.default_rng(100 + split).normal(size=(CLASSES, 8))  # other classes in every split
    classes = np.arange(INSTANCES) % CLASSES
    values = np.concatenate(
        [
            signal * centres[classes] + 0.3 * random.normal(size=(INSTANCES, 8)),
            nuisance * random.normal(size=(INSTANCES, CHANNELS - 8)),
        ],
        axis=1,
    )
    queries, bags, labels = [], [], []
    for number in range(400):
        query = int(random.integers(INSTANCES))
        others = random.permutation(np.flatnonzero(classes != classes[query]))[:5]
        own = random.permutation(np.flatnonzero((classes == classes[query]) & (np.arange(INSTANCES) != query)))[:1]
        queries.append(query)
        bags.append(np.concatenate([others[1:], own if number % 2 else others[:1]]))
        labels.append(number % 2)
    return ExemplarSet.from_lists(InstancePool("features", values.astype(np.float32)), queries, bags, labels)


def aligned(tmp_path: Path, sets: dict[str, ExemplarSet], **changes: Any) -> Verifier:
    config = FEATURES.changed({**ALIGNED, **changes})
    train(sets, config, tmp_path / "run", Machine(tmp_path / "cache", quiet=True))
    return Verifier.from_pretrained(tmp_path / "run" / "checkpoints" / "align" / "best")


def nearest(exemplars: ExemplarSet, verifier: Verifier | None = None) -> float:
    values = exemplars.pool.values
    if verifier is not None:
        assert isinstance(verifier.pooling.norm, AlignedNorm)
        with torch.inference_mode():
            values = verifier.pooling.norm.direction(torch.from_numpy(values)).numpy()
    return auroc(exemplars.label, cosines(exemplars, values).nearest)


def test_a_map_finds_classes_under_strong_nuisance(tmp_path: Path) -> None:
    sets = {split: hidden(number, nuisance=1.3) for number, split in enumerate(("train", "validation", "test"))}
    verifier = aligned(tmp_path, sets, pooling="baseline")
    assert nearest(sets["test"], verifier) > nearest(sets["test"]) + 0.1  # on classes that it has never seen
    found = json.loads((tmp_path / "run" / "evaluation.json").read_text())["test"]["classification"]["auroc"]
    assert found > nearest(sets["test"]) + 0.1


def assert_map_of_start(verifier: Verifier, sets: dict[str, ExemplarSet]) -> None:
    start = Verifier("cap_dba_l2", channels=CHANNELS)
    known = {split: one.pool.values for split, one in sets.items()}
    fit_start(start, sets, known, FEATURES.seed, only_scale=False, with_head=False)
    assert isinstance(verifier.pooling.norm, AlignedNorm)
    assert isinstance(start.pooling.norm, AlignedNorm)
    assert torch.equal(verifier.pooling.norm.map, start.pooling.norm.map)


def test_it_moves_the_map_and_nothing_else_and_the_next_stage_does_not(tmp_path: Path) -> None:
    sets = {split: hidden(number, nuisance=1.3) for number, split in enumerate(("train", "validation", "test"))}
    verifier = aligned(tmp_path, sets, align_epochs=2)
    fitted = {"norm.centre", "norm.map", "sharpness", "similarity.scale", "similarity.intercept"}
    torch.manual_seed(0)
    fresh = Verifier("cap_dba_l2", channels=CHANNELS, pooling_options={"heads": 1})
    before, after = fresh.state_dict(), verifier.state_dict()
    moved = {name for name, weight in after.items() if not torch.equal(weight, before[name])}
    assert "pooling.norm.map" in moved
    assert moved <= {f"pooling.{name}" for name in fitted}
    final = Verifier.from_pretrained(tmp_path / "run").state_dict()
    assert torch.equal(final["pooling.norm.map"], after["pooling.norm.map"])
    assert [row["stage"] for row in rows(tmp_path / "run")][:3] == ["align", "align", "frozen"]


@pytest.mark.filterwarnings("ignore:The verifier is no better than chance")
def test_a_gain_that_may_be_chance_is_not_kept(tmp_path: Path) -> None:
    splits = enumerate(("train", "validation", "test"))
    sets = {split: hidden(number, nuisance=0.6, signal=0.1) for number, split in splits}
    verifier = aligned(tmp_path, sets)
    state = torch.load(tmp_path / "run/checkpoints/align/last.ckpt", weights_only=True)["stage"]
    assert max(row["validation_auroc"] for row in state["history"]) > state["start"]["validation_auroc"]
    assert_map_of_start(verifier, sets)
