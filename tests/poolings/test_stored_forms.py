"""The pass over stored rows gives the logits of the verifier, for every pooling and several queries at once."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from miv import Verifier, list_poolings
from miv.bags import Bags
from miv.poolings import POOLINGS, CrossAttentionPooling, NearestPooling, PoolingOutput, ScaledProduct, form_of
from miv.runtime import evaluating

SIZES = [1, 4, 2, 7, 1, 3, 300, 5]
CHANNELS = 12
VARIANTS: dict[str, dict[str, Any]] = {
    "one head": {"heads": 1},
    "no projection": {"heads": 1, "projection": False},
    "no gate": {"co_excitation": False},
    "norm of the sum": {"norm": "post"},
    "no norm": {"norm": "none"},
    "gate of the projected query": {"gate_reads": "projected_query", "heads": 3},
}
OPTIONS: list[tuple[str, dict[str, Any]]] = [(name, {}) for name in list_poolings()]
CAP = [entry.name for entry in POOLINGS if issubclass(entry.make, CrossAttentionPooling)]
OPTIONS += [(name, options) for name in CAP for options in VARIANTS.values()]
OPTIONS += [("cap_tokens", {"vector": 6, "width": 3})]
OPTIONS += [("pma", {"seeds": 1}), ("mi_net", {"pool": "lse"})]


def verifier_of(pooling: str, options: dict[str, Any], start: Any) -> Verifier:
    """A verifier in which every weight does something."""
    torch.manual_seed(5)
    verifier = Verifier(pooling, channels=CHANNELS, pooling_options=options, start=start).eval()
    with torch.no_grad():
        for weight in verifier.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    return verifier


def both_ways(verifier: Verifier, offset: float = 0.0) -> tuple[NDArray[Any], NDArray[Any]]:
    random = np.random.default_rng(3)
    ptr = np.concatenate([[0], np.cumsum(SIZES)])
    features = (random.normal(size=(ptr[-1], CHANNELS)) + offset).astype(np.float32)
    queries = random.normal(size=(3, CHANNELS)).astype(np.float32)
    with torch.inference_mode(), evaluating(verifier):
        form = form_of(verifier.pooling)
        rows = form.rows(features, ptr)
        assert rows.shape == (len(SIZES) if form.per == "bag" else ptr[-1], form.width)
        rows = rows.copy()
        rows.flags.writeable = False  # as mapped from a file
        found = form.prepare(queries).logits(rows, ptr)
        bags = Bags(torch.from_numpy(features), torch.from_numpy(ptr))
        expected = [verifier.verify_features(torch.from_numpy(one).expand(len(bags), -1), bags) for one in queries]
    return found, np.stack([one.logit.numpy() for one in expected])


@pytest.mark.parametrize("start", ["similar", "paper"])
@pytest.mark.parametrize(("pooling", "options"), OPTIONS)
def test_the_pass_equals_the_verifier(pooling: str, options: dict[str, Any], start: str) -> None:
    found, expected = both_ways(verifier_of(pooling, options, start))
    assert found.shape == (3, len(SIZES))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("pooling", ["cap_dba_l2", "cap_ma", "baseline", "nearest"])
def test_a_similarity_without_distances_takes_the_short_way_to_the_same_logits(pooling: str) -> None:
    verifier = verifier_of(pooling, {}, "similar")
    assert isinstance(verifier.pooling.similarity, ScaledProduct)
    with torch.no_grad():
        verifier.pooling.similarity.distance.zero_()
    found, expected = both_ways(verifier)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_keys_far_from_zero_keep_their_digits() -> None:
    verifier = verifier_of("cap_ma", {"heads": 2, "co_excitation": False}, "similar")
    with torch.no_grad():
        verifier.pooling.project.bias += 300.0  # type: ignore[union-attr, operator]
    found, expected = both_ways(verifier)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_a_subclass_does_not_inherit_a_form_that_may_not_fit_it() -> None:
    class Farthest(NearestPooling):
        def forward(self, query: torch.Tensor, bags: Bags) -> PoolingOutput:
            return super().forward(-query, bags)

    assert form_of(NearestPooling(CHANNELS)).is_stored_apart
    assert not form_of(Farthest(CHANNELS)).is_stored_apart
