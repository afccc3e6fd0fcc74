"""One bag, in the form for export, computes what ``Bags`` computes."""

from typing import Any

import pytest
import torch

from miv import Bags, create_pooling
from miv.export.one_bag import OneBag

OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("cap_ma", {"heads": 1, "projection": False, "co_excitation": False, "norm": "none"}),
    ("cap_vema", {"heads": 3, "norm": "post"}),
    ("cap_dba_l1", {"co_excitation": False}),
    ("cap_dba_l2", {"gate_reads": "projected_query", "norm": "none"}),
    ("cap_dba_l2", {"order": "position"}),
    ("mi_net", {"pool": "mean"}),
    ("mi_net", {"pool": "lse"}),
    ("pma", {"seeds": 1}),
    ("bi_lstm", {}),
    ("msa", {}),
    ("nearest", {}),
    ("cap_dba_l2", {"start": "similar"}),
]


@pytest.mark.parametrize(("name", "options"), OPTIONS)
@pytest.mark.parametrize("size", [1, 5])
def test_poolings_do_not_notice(name: str, options: dict[str, Any], size: int) -> None:
    torch.manual_seed(size)
    pooling = create_pooling(name, channels=6, **options).eval()
    for parameter in pooling.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    # A second bag in the batch, so that nothing can rest on there being one.
    bags = Bags.from_list([torch.randn(size, 6), torch.randn(3, 6)])
    query = torch.randn(2, 6)
    with torch.inference_mode():
        expected, given = pooling(query, bags), pooling(query[:1], OneBag(bags.values[:size]))
    torch.testing.assert_close(given.query_vector, expected.query_vector[:1], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(given.bag_vector, expected.bag_vector[:1], atol=1e-5, rtol=1e-5)
    if expected.attention is not None:
        torch.testing.assert_close(given.attention, expected.attention[:size], atol=1e-5, rtol=1e-5)
