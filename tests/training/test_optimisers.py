import math
from pathlib import Path

import pytest
import torch

from miv import Verifier
from miv.training.config import TrainingConfig
from miv.training.optimisers import AdamWL2SP, KerasRMSprop, create_optimiser, learning_rate


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


def test_one_cycle_rises_and_falls() -> None:
    config = TrainingConfig(schedule="one_cycle", learning_rates=((0, 1.0),))
    rates = [learning_rate(config, 0, done) for done in (0.0, 0.1, 0.2, 0.6, 1.0)]
    assert rates == pytest.approx([0.04, 0.52, 1.0, 0.5, 0.0])


def naive_adamw(start: list[float], gradients: list[list[float]], rate: float, pull: float) -> list[float]:
    """Adam (Kingma and Ba 2015) step by step, and after each step a pull toward the start."""
    weights, mean, square = list(start), [0.0] * len(start), [0.0] * len(start)
    for step, gradient in enumerate(gradients, start=1):
        for place, slope in enumerate(gradient):
            mean[place] = 0.9 * mean[place] + 0.1 * slope
            square[place] = 0.999 * square[place] + 0.001 * slope**2
            root = math.sqrt(square[place] / (1 - 0.999**step)) + 1e-8
            weights[place] -= rate * mean[place] / (1 - 0.9**step) / root
            weights[place] -= rate * pull * (weights[place] - start[place])
    return weights


GRADIENTS = [[0.5, -2.0], [-0.1, 0.4]]


def pulled(start: list[float], pull: float) -> tuple[torch.nn.Parameter, AdamWL2SP]:
    weight = torch.nn.Parameter(torch.tensor(start, dtype=torch.float64))
    return weight, AdamWL2SP([{"params": [weight], "weight_decay": 0.0, "pull": pull}], lr=0.1)


@pytest.mark.parametrize("pull", [0.0, 3.0])
def test_weights_are_pulled_to_where_they_started(pull: float) -> None:
    weight, optimiser = pulled([1.0, -2.0], pull)
    for gradient in GRADIENTS:
        weight.grad = torch.tensor(gradient, dtype=torch.float64)
        optimiser.step()
    assert weight.tolist() == pytest.approx(naive_adamw([1.0, -2.0], GRADIENTS, 0.1, pull), abs=1e-9)


def test_the_start_survives_a_checkpoint(tmp_path: Path) -> None:
    """A resumed run creates its optimiser from weights that have already left the start."""
    unbroken, optimiser = pulled([1.0, -2.0], pull=3.0)
    unbroken.grad = torch.tensor(GRADIENTS[0], dtype=torch.float64)
    optimiser.step()
    torch.save(optimiser.state_dict(), tmp_path / "state")
    gone_on, later = pulled(unbroken.tolist(), pull=3.0)
    later.load_state_dict(torch.load(tmp_path / "state", weights_only=True))
    for weight, one in ((unbroken, optimiser), (gone_on, later)):
        weight.grad = torch.tensor(GRADIENTS[1], dtype=torch.float64)
        one.step()
    assert torch.equal(unbroken, gone_on)
    assert later.param_groups[0]["start"][0].tolist() == [1.0, -2.0]


def test_rates_of_wide_matrices_are_lower_and_few_exemplars_pull_more() -> None:
    config = TrainingConfig(
        start="similar", optimiser="adamw", learning_rates=((0, 1e-3),), pull=10.0, weight_decay=0.02
    )
    for channels, factor in ((64, 1.0), (512, 0.25)):
        verifier = Verifier("cap_dba_l2", channels=channels, pooling_options={"heads": 1})
        optimiser = create_optimiser(config, verifier, exemplars=500)
        groups = {id(weight): group for group in optimiser.param_groups for weight in group["params"]}
        matrix, vector = verifier.get_parameter("pooling.project.weight"), verifier.pooling.similarity.weight
        assert groups[id(matrix)]["lr"] == pytest.approx(1e-3 * factor)
        assert groups[id(vector)]["lr"] == pytest.approx(1e-3)
        assert {group["pull"] for group in optimiser.param_groups} == {40.0}  # half the exemplars, four times the pull
        assert {group["weight_decay"] for group in optimiser.param_groups} == {0.0}
        assert id(verifier.get_parameter("pooling.norm.map")) not in groups  # learned by a stage of its own
