"""Vectors of two kinds side by side: one linear map then is a map per kind."""

import numpy as np
import pytest

from miv import MIVError
from miv.data import bag_side, query_side


def test_a_map_of_both_is_a_map_of_each() -> None:
    random = np.random.default_rng(0)
    query, bag, joint = random.normal(size=(4, 3)), random.normal(size=(2, 5, 6)), random.normal(size=(9, 9))
    np.testing.assert_allclose(query_side(query, bag_channels=6) @ joint.T, query @ joint[:, :3].T)
    np.testing.assert_allclose(bag_side(bag, query_channels=3) @ joint.T, bag @ joint[:, 3:].T)


@pytest.mark.parametrize("wrong", [np.zeros((2, 0)), np.array("words"), np.float64(3)])
def test_what_is_no_vector_is_refused(wrong: np.ndarray) -> None:
    with pytest.raises(MIVError, match="Expected numbers"):
        query_side(wrong, 3)
    with pytest.raises(MIVError, match="at least 1"):
        bag_side(np.ones(3), 0)
