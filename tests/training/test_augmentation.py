import torch

from miv.training.stage_module import DRAWS, affine


def test_the_middle_of_the_draws_changes_nothing() -> None:
    images = torch.rand(3, 1, 9, 9)
    torch.testing.assert_close(affine(images, torch.full((3, DRAWS), 0.5)), images)


def test_a_shift_moves_the_ink() -> None:
    images = torch.zeros(1, 1, 28, 28)
    images[0, 0, 10:18, 10:18] = 1
    draws = torch.full((1, DRAWS), 0.5)
    draws[0, 3] = 1.0  # as far to the right as possible, seen from the image: the ink moves left
    moved = affine(images, draws)[0, 0]
    columns = torch.arange(28.0)
    centre = (moved.sum(0) * columns).sum() / moved.sum()
    assert abs(float(centre) - (13.5 - 28 * 0.08)) < 0.05
    assert abs(float(moved.sum() - images.sum())) < 0.5
