import torch
from tools import judge_shipping as shipping


def test_packed_matrices_come_back_within_half_a_step() -> None:
    matrix = torch.randn(3, 128, generator=torch.Generator().manual_seed(0)) * torch.tensor([[1e-3], [1.0], [30.0]])
    values, scale = shipping.packed(matrix)
    assert (values.shape, values.dtype, scale.shape) == ((3, 64), torch.uint8, (3, 2))
    again = shipping.unpacked(values, scale)
    error = (again - matrix).square().mean(dim=1).sqrt() / matrix.square().mean(dim=1).sqrt()
    assert error.max() < 0.15


def test_a_matrix_of_few_levels_is_exact() -> None:
    matrix = torch.arange(-7.0, 8.0).repeat(9)[:128].reshape(1, 128) / 8
    assert torch.equal(shipping.unpacked(*shipping.packed(matrix)), matrix)
    assert torch.count_nonzero(shipping.unpacked(*shipping.packed(torch.zeros(2, 64)))) == 0
