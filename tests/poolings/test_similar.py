"""The first norm of the start "similar"."""

import torch

from miv.poolings import AlignedNorm


def test_a_map_counts_as_soon_as_it_is_not_the_identity() -> None:
    norm, rows = AlignedNorm(4), torch.randn(3, 4)
    with torch.enable_grad():
        expected = norm(rows).detach()  # by the product
    with torch.no_grad():
        assert torch.equal(norm(rows), expected)
        norm.map[0, 1] = 2.0
        changed = norm(rows)
        assert not torch.allclose(changed, expected)
        norm.map.copy_(torch.eye(4))
        assert torch.equal(norm(rows), expected)
        norm.load_state_dict({**norm.state_dict(), "map": torch.full((4, 4), 0.5)}, assign=True)
        assert not torch.allclose(norm(rows), expected)
