"""After a map was learned on the train bags, only scale and intercept are fitted to them again."""

import torch
from torch import nn

from miv.poolings.similar import ScaledProduct
from miv.training.similar_start import fit_scale_and_sharpness
from miv.verifier.network import Verifier
from tests.training.tiny import tiny_sets


def test_centre_and_sharpness_stay_as_they_are() -> None:
    train = tiny_sets("features")["train"]
    verifier = Verifier("cap_dba_l2", channels=8, pooling_options={"heads": 1}, start="similar")
    pooling = verifier.pooling
    assert isinstance(pooling.sharpness, nn.Parameter)
    assert isinstance(pooling.similarity, ScaledProduct)
    pooling.sharpness.data.fill_(3.0)  # none of those that are tried
    pooling.norm.get_buffer("centre").fill_(0.05)
    before = float(pooling.similarity.scale)
    fitted = fit_scale_and_sharpness(verifier, train, train.pool.values, only_scale=True)
    assert pooling.sharpness.tolist() == [3.0]
    assert torch.equal(pooling.norm.get_buffer("centre"), torch.full((8,), 0.05))
    assert fitted is not None
    assert float(pooling.similarity.scale) == torch.tensor(fitted.scale).item() != before
