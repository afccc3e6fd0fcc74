"""Positions in a bag (``order="position"``): nothing until learned, for bags of any length, and learned if needed."""

import numpy as np
import pytest
import torch
from torch import Tensor

from miv import Bags, Verifier
from miv.poolings.pooling_base import Start

CAPS = ("cap_vema", "cap_dba_l1", "cap_dba_l2", "cap_ma")
CHANNELS = 12
Drawn = tuple[Tensor, Bags, Tensor]


def made(name: str, order: str, start: Start = "similar") -> Verifier:
    torch.manual_seed(0)
    return Verifier(name, channels=CHANNELS, pooling_options={"order": order}, start=start)


def in_first_half(count: int, seed: int, longest: int = 10) -> Drawn:
    """The label says whether the query's class is in the first half of the bag, not in the second, nor missing."""
    random = np.random.default_rng(seed)
    label = np.arange(count) % 2
    query = random.normal(size=(count, CHANNELS))
    bags = []
    for number in range(count):
        bag = random.normal(size=(random.integers(4, longest + 1), CHANNELS))
        place = int(random.integers(len(bag) // 2))
        if number % 4:  # else it is missing
            bag[place if label[number] else -1 - place] = query[number] + 0.3 * random.normal(size=CHANNELS)
        bags.append(torch.tensor(bag, dtype=torch.float32))
    return torch.tensor(query, dtype=torch.float32), Bags.from_list(bags), torch.tensor(label, dtype=torch.float32)


@pytest.mark.parametrize("start", ["paper", "similar"])
@pytest.mark.parametrize("name", CAPS)
def test_a_code_that_is_not_learned_changes_nothing(name: str, start: Start) -> None:
    query, bags, _ = in_first_half(6, seed=1)
    plain, ordered = (made(name, order, start)(query, bags) for order in ("none", "position"))
    assert torch.equal(plain.logit, ordered.logit)
    assert plain.attention is not None
    assert ordered.attention is not None
    assert torch.equal(plain.attention, ordered.attention)


@pytest.mark.parametrize("name", CAPS)
def test_a_learned_code_sees_the_order(name: str) -> None:
    verifier = made(name, "position")
    for parameter in verifier.pooling.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    query, bag = torch.randn(1, CHANNELS), torch.randn(5, CHANNELS)
    forwards, backwards = (verifier(query, Bags.from_list([one])).logit.item() for one in (bag, bag.flip(0)))
    assert abs(forwards - backwards) > 1e-3
