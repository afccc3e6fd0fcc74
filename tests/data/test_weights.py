"""Weights of exemplars: kept, saved and used."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from miv import ExemplarSet, InstancePool, MIVError
from miv.data.batches import make_batch


def weighted(weight: object) -> ExemplarSet:
    pool = InstancePool("features", np.eye(4, dtype=np.float32))
    exemplars = ExemplarSet.from_lists(pool, [0, 1, 2], [[1], [2, 3], [0]], labels=[1, 0, 1])
    return replace(exemplars, weight=weight)  # type: ignore[arg-type]


def test_weights_follow_their_exemplars_and_are_saved(tmp_path: Path) -> None:
    exemplars = weighted(np.array([1, 2, 6]))
    assert exemplars.weight is not None
    assert exemplars.subset([2, 0]).weight.tolist() == [6.0, 1.0]  # type: ignore[union-attr]
    assert exemplars.subset([0]).compact().weight.tolist() == [1.0]  # type: ignore[union-attr]
    exemplars.save(tmp_path / "set", builder="test", options={}, seed=None)
    assert ExemplarSet.load(tmp_path / "set").weight.tolist() == [1.0, 2.0, 6.0]  # type: ignore[union-attr]
    assert ExemplarSet.load(tmp_path / "set").fingerprint == exemplars.fingerprint != weighted(None).fingerprint


def test_without_weights_the_manifest_is_as_it_was(tmp_path: Path) -> None:
    weighted(None).save(tmp_path / "set", builder="test", options={}, seed=None)
    assert "weight" not in (tmp_path / "set" / "manifest.json").read_text()
    assert ExemplarSet.load(tmp_path / "set").weight is None


def test_a_batch_has_them_with_a_mean_of_1_over_the_set() -> None:
    exemplars = weighted(np.array([1.0, 2.0, 6.0]))
    batch = make_batch(exemplars, np.array([2, 1]), lambda rows: torch.zeros(len(rows), 4)).to("cpu")
    assert batch.weight is not None
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
