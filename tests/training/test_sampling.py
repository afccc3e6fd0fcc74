from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from miv.data import ExemplarSet, InstancePool
from miv.runtime import ProcessShare
from miv.training.checkpoint import StageState
from miv.training.stage_module import DRAWS, BatchSampler, affine, draw_batches, draw_order, draw_positives
from tests.training.tiny import tiny_sets


def three_pages() -> ExemplarSet:
    """Nine exemplars in three families; an instance belongs to one family."""
    pool = InstancePool("features", np.zeros((30, 1), np.float32))
    families = [0, 1, 2] * 3
    return ExemplarSet.from_lists(
        pool,
        [10 * f for f in families],
        [[10 * f + 1, 10 * f + 2 + n // 3] for n, f in enumerate(families)],
        [0, 1, 0] * 3,
    )


@given(seed=st.integers(0, 1000), grouping=st.sampled_from([1, 2, 3, 5, 44, 100]))
def test_every_exemplar_comes_once(seed: int, grouping: int) -> None:
    exemplars = tiny_sets("image")["train"]
    order = draw_order(exemplars, grouping, np.random.default_rng(seed))
    assert sorted(order.tolist()) == list(range(len(exemplars)))
    assert order.tolist() == draw_order(exemplars, grouping, np.random.default_rng(seed)).tolist()


@given(seed=st.integers(0, 1000))
def test_grouping_puts_those_together_that_share_instances(seed: int) -> None:
    order = draw_order(three_pages(), 3, np.random.default_rng(seed))
    families = (order % 3).reshape(3, 3)
    assert (families == families[:, :1]).all()


@pytest.mark.parametrize("world", [1, 2, 3, 5])
def test_processes_share_every_batch_and_its_mean(world: int, monkeypatch: pytest.MonkeyPatch) -> None:
    exemplars = tiny_sets("image")["train"]  # 44
    state = StageState()
    sampler = BatchSampler(state, partial(draw_batches, exemplars, 7, 1), 7, (0, 1))
    whole = [part.tolist() for part, _ in sampler]
    assert len(whole) == len(sampler) == 7
    assert len(whole[-1]) == 2  # fewer than some numbers of processes
    weights = np.zeros((len(sampler), len(exemplars)))
    for rank in range(world):
        monkeypatch.setattr(ProcessShare, "of_this_process", lambda rank=rank: ProcessShare(rank, world))
        for step, (part, factor) in enumerate(sampler):
            weights[step, part] += factor / world
    for step, batch in enumerate(whole):
        expected = np.zeros(len(exemplars))
        expected[batch] = 1 / len(batch)
        np.testing.assert_allclose(weights[step], expected)


def test_a_sampler_goes_on_where_the_state_says() -> None:
    exemplars, state = tiny_sets("image")["train"], StageState()
    sampler = BatchSampler(state, partial(draw_batches, exemplars, 10, 4), 5, (0, 0))
    first = [part.tolist() for part, _ in sampler]
    state.step = 3
    assert [part.tolist() for part, _ in sampler] == first[3:]
    state.history.append({"validation_accuracy": 0.5})
    state.step = 0
    assert [part.tolist() for part, _ in sampler] != first


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
