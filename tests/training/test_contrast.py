"""The contrast stage: its loss, that runs share it, and what happens to a damaged one in the cache."""

import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from miv import MIVError, Verifier
from miv.data import ExemplarSet, InstancePool
from miv.data.batches import make_batch
from miv.errors import MIVWarning
from miv.training.new_verifier import create_verifier, resolve_backbone
from miv.training.run import Machine, train
from miv.training.stages import contrast_losses
from tests.training.tiny import IMAGES, assert_same_run, run_tiny, tiny_sets


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
