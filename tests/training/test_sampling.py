"""Which exemplars a step gets, and how their images change."""

import numpy as np
import pytest
import torch

from miv.training.steps import DRAWS, affine, draw_batches, draw_positives
from tests.training.tiny import tiny_sets


@pytest.mark.parametrize("size", [1, 7, 44, 100])
def test_every_exemplar_comes_once(size: int) -> None:
    exemplars = tiny_sets("image")["train"]
    batches = draw_batches(exemplars, size, np.random.default_rng(0))
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(exemplars)))
    assert {len(batch) for batch in batches[:-1]} <= {size}
    again = draw_batches(exemplars, size, np.random.default_rng(0))
    assert [batch.tolist() for batch in batches] == [batch.tolist() for batch in again]


@pytest.mark.parametrize("size", [2, 5, 100])
def test_every_positive_is_drawn_once_beside_its_own_group(size: int) -> None:
    exemplars = tiny_sets("image")["train"]
    batches = draw_positives(exemplars, size, np.random.default_rng(0))
    assert sorted(np.concatenate(batches).tolist()) == np.flatnonzero(exemplars.label).tolist()
    assert exemplars.group is not None
    assert all(len(batch) <= size and len(set(exemplars.group[batch])) == 1 for batch in batches)
    assert len(batches) == len(draw_positives(exemplars, size, np.random.default_rng(1)))


def test_a_shift_moves_the_ink() -> None:
    images = torch.zeros(1, 1, 28, 28)
    images[0, 0, 10:18, 10:18] = 1
    draws = torch.full((1, DRAWS), 0.5)
    draws[0, 3] = 1.0  # as far to the right as possible, seen from the image: the ink moves left
    moved = affine(images, draws)[0, 0]
    columns = torch.arange(28.0)
    centre = (moved.sum(0) * columns).sum() / moved.sum()
    assert abs(float(centre) - (13.5 - 28 * 0.08)) < 0.05
    assert abs(float(moved.sum() - images.sum())) < 0.5
