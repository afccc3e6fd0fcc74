"""How the logit of a bag is divided among its instances."""

import pytest
import torch

from miv import Bags, Verifier
from miv.poolings import POOLINGS
from miv.verifier.explain import contributions, explain_features

BAGS = Bags.from_list([torch.randn(4, 8), torch.randn(1, 8), torch.randn(3, 8)])
QUERY = torch.randn(3, 8)


def verifier_of(pooling: str, **options: object) -> Verifier:
    torch.manual_seed(0)
    made = Verifier(pooling, channels=8, pooling_options=options, start="paper")
    for weight in made.parameters():  # away from starting values that hide mistakes
        torch.nn.init.normal_(weight, std=0.4)
    return made.eval()


@pytest.mark.parametrize("pooling", ["cap_vema", "cap_dba_l1", "cap_dba_l2", "cap_ma", "gabmil"])
@pytest.mark.parametrize("norm", ["pre", "none"])
def test_contributions_add_up_to_what_the_bag_adds_to_the_logit(pooling: str, norm: str) -> None:
    options = {} if pooling == "gabmil" else {"norm": norm}
    verifier = verifier_of(pooling, **options)
    with torch.inference_mode():
        found = contributions(verifier, QUERY, BAGS)
        answer = verifier.verify_features(QUERY, BAGS)
        offset = torch.zeros(3)
        if options.get("norm") == "pre":  # the offset of the norm, which no instance brings
            offset = verifier.pooling.similarity(answer.query_vector, verifier.pooling.pre_norm.bias)  # type: ignore[union-attr]
    assert found is not None
    torch.testing.assert_close(BAGS.sum(found[:, None])[:, 0], answer.logit - offset, rtol=1e-4, atol=1e-4)


def test_a_contribution_by_hand() -> None:
    """Gated attention: an instance adds its attention times its similarity."""
    verifier = verifier_of("gabmil")
    found = contributions(verifier, QUERY, BAGS)
    with torch.no_grad():
        attention = verifier.verify_features(QUERY, BAGS).attention
        similarity = explain_features(verifier, QUERY, BAGS, "alone").clone()
    assert found is not None
    assert attention is not None
    torch.testing.assert_close(found, attention * similarity, rtol=1e-4, atol=1e-5)


def test_who_can_divide_its_logit() -> None:
    divides = {name for name in POOLINGS.names() if contributions(verifier_of(name), QUERY, BAGS) is not None}
    assert divides == {"gabmil", "pma", "cap_vema", "cap_dba_l1", "cap_dba_l2", "cap_ma"}
