"""Positions in a bag (``order="position"``): they change nothing until learned."""

import pytest
import torch

from miv import Bags, Verifier
from miv.poolings.pooling_base import Start

CAPS = ("cap_vema", "cap_dba_l1", "cap_dba_l2", "cap_ma")
CHANNELS = 12


def made(name: str, order: str, start: Start = "similar") -> Verifier:
    torch.manual_seed(0)
    return Verifier(name, channels=CHANNELS, pooling_options={"order": order}, start=start)


@pytest.mark.parametrize("start", ["paper", "similar"])
@pytest.mark.parametrize("name", CAPS)
def test_a_code_that_is_not_learned_changes_nothing(name: str, start: Start) -> None:
    query, bags = torch.randn(2, CHANNELS), Bags.from_list([torch.randn(size, CHANNELS) for size in (4, 9)])
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
