"""The contrast stage: its loss, and what it moves."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from miv import Verifier
from miv.data import ExemplarSet, InstancePool
from miv.data.batches import make_batch
from miv.training.new_verifier import create_verifier, resolve
from miv.training.stages import contrast_losses
from tests.training.tiny import IMAGES, run_tiny, tiny_sets


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


def test_it_moves_the_backbone_and_nothing_else(tmp_path: Path) -> None:
    run_tiny("image", tmp_path, contrast_epochs=1, contrast_batch_size=8, max_epochs=1)
    pool = tiny_sets("image")["train"].pool
    before = create_verifier(resolve(IMAGES, pool), pool).state_dict()
    after = Verifier.from_pretrained(tmp_path / "checkpoints" / "contrast" / "best").state_dict()
    assert {name.split(".")[0] for name, weight in after.items() if not torch.equal(weight, before[name])} == {
        "backbone"
    }
