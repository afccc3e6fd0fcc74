import math

import pytest
import torch

from miv.training.config import TrainingConfig
from miv.training.optimisers import KerasRMSprop, create_optimiser, learning_rate


@pytest.mark.parametrize("size", [1.0, 1e-4])
def test_rmsprop_is_that_of_keras(size: float) -> None:
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
    optimiser = KerasRMSprop([weight], lr=0.01)
    expected, squares = [1.0, -2.0], [0.0, 0.0]
    for step in range(5):
        gradients = [size * math.sin(step + place) for place in range(2)]
        weight.grad = torch.tensor(gradients, dtype=torch.float64)
        optimiser.step()
        for place, gradient in enumerate(gradients):
            squares[place] = 0.9 * squares[place] + 0.1 * gradient**2
            expected[place] -= 0.01 * gradient / math.sqrt(squares[place] + 1e-7)
    assert weight.tolist() == pytest.approx(expected, abs=1e-12)


def test_rmsprop_takes_what_has_no_gradient_as_it_is() -> None:
    frozen, learning = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
    learning.grad = torch.ones(2)
    KerasRMSprop([frozen, learning], lr=0.1).step()
    assert frozen.tolist() == [1, 1]
    assert learning[0] < 1


def test_weight_decay_is_for_matrices() -> None:
    optimiser = create_optimiser(TrainingConfig(optimiser="adamw", weight_decay=0.3), torch.nn.Linear(2, 3))
    decays = {group["params"][0].ndim: group["weight_decay"] for group in optimiser.param_groups}
    assert decays == {2: 0.3, 1: 0.0}


def test_one_cycle_rises_and_falls() -> None:
    config = TrainingConfig(schedule="one_cycle", learning_rates=((0, 1.0),))
    rates = [learning_rate(config, 0, done) for done in (0.0, 0.1, 0.2, 0.6, 1.0)]
    assert rates == pytest.approx([0.04, 0.52, 1.0, 0.5, 0.0])
