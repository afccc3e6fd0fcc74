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


@pytest.mark.parametrize("name", ["cap_dba_l2", "msa"])
def test_padded_targets_have_padded_attention(name: str) -> None:
    torch.manual_seed(0)
    pooling = create_pooling(name, channels=4)
    query, padded = torch.randn(2, 4), torch.randn(2, 3, 4)
    mask = torch.tensor([[True, True, True], [False, True, False]])
    padded[~mask] = torch.nan  # never looked at
    given = pooling(query, padded, mask)
    expected = pooling(query, Bags.from_list([padded[0], padded[1, 1:2]]))
    assert torch.equal(given.bag_vector, expected.bag_vector)
    if expected.attention is None:
        assert given.attention is None
        return
    assert given.attention is not None
    assert given.attention.shape == (2, 3, 2)
    assert given.attention[1].tolist() == [[0, 0], [1, 1], [0, 0]]
    assert torch.equal(given.attention[0], expected.attention[:3])
    given.attention.sum().backward()  # part of the graph


def test_wrong_things_get_a_sentence() -> None:
    pooling = create_pooling("gabmil", channels=4)
    query, bags = torch.randn(1, 4), Bags.from_list([torch.randn(2, 4)])
    for given, words in (
        ((query, torch.randn(1, 2, 4)), "needs its mask"),
        ((query, [torch.randn(2, 4)]), "bags is a list"),
        ((query, bags, torch.ones(1, 2, dtype=torch.bool)), "Omit the mask"),
        ((query, torch.randn(1, 2, 4), torch.ones(1, 2)), "a bool mask"),
        ((bags, query), "query is a Bags"),
        (([1.0], bags), "query is a list"),
        ((query.double(), bags.to(torch.float64)), "Convert one of them"),
    ):
        with pytest.raises(MIVError, match=words):
            pooling(*given)
