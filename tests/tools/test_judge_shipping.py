import torch
from tools import judge_shipping as shipping, judge_training as training
from torch.nn import functional

from miv.backbones.pairs import _unpacked


def test_packed_matrices_come_back_within_half_a_step() -> None:
    matrix = torch.randn(3, 128, generator=torch.Generator().manual_seed(0)) * torch.tensor([[1e-3], [1.0], [30.0]])
    values, scale = shipping.packed(matrix)
    assert (values.shape, values.dtype, scale.shape) == ((3, 64), torch.uint8, (3, 2))
    again = _unpacked(values, scale)
    error = (again - matrix).square().mean(dim=1).sqrt() / matrix.square().mean(dim=1).sqrt()
    assert error.max() < 0.15


def test_a_matrix_of_few_levels_is_exact() -> None:
    matrix = torch.arange(-7.0, 8.0).repeat(9)[:128].reshape(1, 128) / 8
    assert torch.equal(_unpacked(*shipping.packed(matrix)), matrix)
    assert torch.count_nonzero(_unpacked(*shipping.packed(torch.zeros(2, 64)))) == 0


def test_the_attention_of_training_is_the_usual_one() -> None:
    random = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(2, 3, 5, 4, generator=random) for _ in range(3))  # (P, heads, L, D)
    allowed = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])[:, None, None, :]
    expected = functional.scaled_dot_product_attention(query, key, value, allowed).transpose(1, 2)
    torch.testing.assert_close(training.attention(None, query, key, value, allowed)[0], expected)
