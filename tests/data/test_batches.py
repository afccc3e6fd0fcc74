"""Batches hold each instance once; weights of exemplars are kept, saved and used."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from miv import ExemplarSet, InstancePool, MIVError
from miv.backbones import Backbone, create_backbone
from miv.backbones.base import embed
from miv.data.batches import make_batch


def random_set(seed: int, instances: int = 12, exemplars: int = 7) -> ExemplarSet:
    random = np.random.default_rng(seed)
    pool = InstancePool("features", random.normal(size=(instances, 4)).astype(np.float32))
    bags = [random.integers(0, instances, random.integers(1, 6)) for _ in range(exemplars)]
    queries, labels = random.integers(0, instances, exemplars), random.integers(0, 2, exemplars)
    return ExemplarSet.from_lists(pool, queries, bags, labels)


@given(seed=st.integers(0, 10_000), chosen=st.lists(st.integers(0, 6), min_size=1, max_size=9))
def test_a_batch_is_its_exemplars_one_by_one_with_each_instance_once(seed: int, chosen: list[int]) -> None:
    exemplars = random_set(seed)
    values = exemplars.pool.values
    batch = make_batch(exemplars, np.array(chosen), lambda rows: torch.from_numpy(values[rows]))
    query, bags = batch.queries_and_bags()
    assert len(set(batch.instance.tolist())) == len(batch.instances)
    used = {int(exemplars.query[c]) for c in chosen} | {int(i) for c in chosen for i in exemplars.bag(c)}
    assert set(batch.instance.tolist()) == used
    for place, exemplar in enumerate(chosen):
        assert query[place].tolist() == values[exemplars.query[exemplar]].tolist()
        assert bags.split(bags.values)[place].tolist() == values[exemplars.bag(exemplar)].tolist()
        assert batch.label[place] == exemplars.label[exemplar]


def test_what_fills_a_batch_up_changes_neither_features_nor_gradients() -> None:
    torch.manual_seed(0)
    backbone = create_backbone("compact_cnn")
    images = torch.rand(5, 1, 12, 12)
    results = {}
    for bucket in (1, 8):
        backbone.zero_grad()
        features = embed(backbone, images, bucket)
        features.square().sum().backward()
        results[bucket] = [features, *(weight.grad for weight in backbone.parameters())]
    for plain, filled in zip(results[1], results[8], strict=True):
        torch.testing.assert_close(plain, filled, rtol=1e-4, atol=1e-5)


def test_a_batch_is_not_filled_up_where_batch_norm_learns_from_it() -> None:
    class Normed(Backbone):
        channels, instance_shape = 3, (3,)

        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(3)

        def forward(self, instances: torch.Tensor) -> torch.Tensor:
            features: torch.Tensor = self.norm(instances)
            return features

    instances = torch.rand(5, 3)
    alone, filled = Normed().train(), Normed().train()
    assert torch.equal(embed(alone, instances, 1), embed(filled, instances, 8))
    assert torch.equal(alone.norm.running_mean, filled.norm.running_mean)


# Weights of exemplars: kept, saved and used.


def weighted(weight: object) -> ExemplarSet:
    pool = InstancePool("features", np.eye(4, dtype=np.float32))
    exemplars = ExemplarSet.from_lists(pool, [0, 1, 2], [[1], [2, 3], [0]], labels=[1, 0, 1])
    return replace(exemplars, weight=weight)  # type: ignore[arg-type]


def test_weights_follow_their_exemplars_and_are_saved(tmp_path: Path) -> None:
    exemplars = weighted(np.array([1, 2, 6]))
    assert exemplars.subset([2, 0]).weight.tolist() == [6.0, 1.0]
    assert exemplars.subset([0]).compact().weight.tolist() == [1.0]
    exemplars.save(tmp_path / "set", builder="test", options={}, seed=None)
    assert ExemplarSet.load(tmp_path / "set").weight.tolist() == [1.0, 2.0, 6.0]
    assert ExemplarSet.load(tmp_path / "set").fingerprint == exemplars.fingerprint != weighted(None).fingerprint


def test_a_batch_has_them_with_a_mean_of_1_over_the_set() -> None:
    exemplars = weighted(np.array([1.0, 2.0, 6.0]))
    batch = make_batch(exemplars, np.array([2, 1]), lambda rows: torch.zeros(len(rows), 4)).to("cpu")
    assert batch.weight.tolist() == pytest.approx([2.0, 2 / 3])


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.array([1.0, 0.0, 1.0]), r"weight of exemplar 1 is 0\.0"),
        (np.array([1.0, np.nan, 1.0]), "weight of exemplar 1 is nan"),
        (np.ones(2), "weight has 2 entries. Expected 3"),
        ([1, 2, 3], "weight is a list"),
    ],
)
def test_wrong_weights_are_named(weight: object, message: str) -> None:
    with pytest.raises(MIVError, match=message):
        weighted(weight)
