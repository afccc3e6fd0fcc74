"""Arrays and tensors that would silently lose something, or have no numbers at all."""

import numpy as np
import pytest
import torch

from miv import Bags, ExemplarSet, InstancePool, MIVError, Verifier


def test_a_mask_is_not_dropped() -> None:
    masked = np.ma.masked_greater(np.array([[1.0, 9.0], [1.0, 2.0]], np.float32), 5)
    with pytest.raises(MIVError, match=r"1 masked entries. Fill them"):
        InstancePool("features", masked)
    with pytest.raises(MIVError, match=r"1 masked entries. Fill them"):
        ExemplarSet.from_arrays([masked[0]], [[masked[1]]], [1])
    with pytest.raises(MIVError, match=r"1 masked entries. Fill them"):
        Verifier("baseline", channels=2).verify([1.0, 0.0], masked)
    assert len(InstancePool("features", np.ma.array(np.ones((2, 2), np.float32)))) == 2  # nothing is masked


@pytest.mark.parametrize("values", [torch.eye(2).to_sparse(), torch.empty(2, 2, device="meta")])
def test_tensors_without_dense_numbers_are_refused(values: torch.Tensor) -> None:
    with pytest.raises(MIVError, match="Expected a dense tensor"):
        Bags(values, torch.tensor([0, 2]))
