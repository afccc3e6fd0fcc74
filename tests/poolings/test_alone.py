"""A pooling without a verifier: its own norm, padded tensors, and wrong things in its place."""

import pytest
import torch

from miv import Bags, MIVError, Verifier, create_pooling, list_poolings


@pytest.mark.parametrize("name", list_poolings())
def test_a_pooling_alone_gives_the_logits_of_its_verifier(name: str) -> None:
    torch.manual_seed(0)
    verifier = Verifier(name, channels=4, start="similar").eval()
    query, bags = 5 * torch.randn(2, 4) + 1, Bags.from_list([torch.randn(3, 4), torch.randn(1, 4)])
    output = verifier.pooling(query, bags)
    logit = verifier.pooling.similarity(output.query_vector, output.bag_vector)
    assert torch.equal(logit, verifier(query, bags).logit)


def test_wrong_things_get_a_sentence() -> None:
    pooling = create_pooling("gabmil", channels=4)
    query, bags = torch.randn(1, 4), Bags.from_list([torch.randn(2, 4)])
    for given, words in (
        ((query, torch.randn(1, 2, 4)), "from_padded"),
        ((query, [torch.randn(2, 4)]), "bags is a list"),
        ((bags, query), "query is a Bags"),
        (([1.0], bags), "query is a list"),
        ((query.double(), bags.to(torch.float64)), "Convert one of them"),
    ):
        with pytest.raises(MIVError, match=words):
            pooling(*given)
