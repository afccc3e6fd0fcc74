"""A direction that all features share is taken away, unless texts answer others."""

import numpy as np
import pytest
import torch

from miv import Verifier
from miv.backbones.descriptors import Features
from miv.data import ExemplarSet, InstancePool
from miv.evaluation import auroc
from miv.evaluation.cosines import cosines
from miv.poolings.similar import AlignedNorm
from miv.training.centring import are_of_one_kind, assume_centre, use_requested_centre
from miv.training.start import fit_start, logits_of

CHANNELS, EXEMPLARS, POOL = 64, 60, 90


def made(shared: float, kind: str = "features", *, asked_once: bool = False) -> tuple[ExemplarSet, np.ndarray]:
    """Bags with a copy of the query if the label is 1; all features have ``shared`` along the first channel."""
    random = np.random.default_rng(3)
    features = random.normal(size=(POOL, CHANNELS)).astype(np.float32)
    features[:, 0] += shared
    copies = features + 0.3 * random.normal(size=features.shape).astype(np.float32)
    values = np.concatenate([features, copies])
    queries = np.arange(EXEMPLARS) if asked_once else random.integers(POOL, size=EXEMPLARS)
    label = np.arange(EXEMPLARS) % 2
    least = EXEMPLARS if asked_once else 0  # then no query is a target
    bags = [random.choice(np.setdiff1d(np.arange(least, POOL), [query]), 5, replace=False) for query in queries]
    for number in np.flatnonzero(label):
        bags[number][0] = POOL + queries[number]
    texts = np.array([f"text {number}" for number in range(2 * POOL)], object)
    pool = InstancePool("features", values) if kind == "features" else InstancePool("text", texts)
    return ExemplarSet.from_lists(pool, queries.tolist(), bags, label.tolist()), values


def centre_of(verifier: Verifier) -> torch.Tensor:
    assert isinstance(verifier.pooling.norm, AlignedNorm)
    return verifier.pooling.norm.centre


@pytest.mark.parametrize(("shared", "expected"), [(0.0, False), (3.0, True)])
def test_a_shared_direction_is_found(shared: float, expected: bool) -> None:
    exemplars, values = made(shared)
    verifier = Verifier("cap_dba_l2", channels=CHANNELS)
    assert assume_centre(verifier, exemplars, values) is expected
    units = values[exemplars.used] / np.linalg.norm(values[exemplars.used], axis=1, keepdims=True)
    np.testing.assert_allclose(centre_of(verifier).numpy(), units.mean(axis=0) * expected, atol=1e-6)


@pytest.mark.parametrize("asked_once", [True, False])
def test_texts_that_answer_others_keep_their_direction(asked_once: bool) -> None:
    exemplars, values = made(3.0, "text", asked_once=asked_once)
    assert are_of_one_kind(exemplars) is not asked_once
    verifier = Verifier("cap_dba_l2", channels=CHANNELS)
    assert assume_centre(verifier, exemplars, values) is not asked_once


def test_the_plain_cosine_and_columns_of_a_table_have_no_centre() -> None:
    exemplars, values = made(3.0)
    assert not assume_centre(Verifier("nearest", channels=CHANNELS), exemplars, values)
    assert not assume_centre(Verifier("cap_dba_l2", Features(CHANNELS, standardise=True)), exemplars, values)
    assert not assume_centre(Verifier("cap_dba_l2", Features(8)), exemplars, np.hstack([values, values[:, :2]]))


def test_the_pooling_nearest_is_centred_if_asked() -> None:
    exemplars, values = made(3.0)
    sets, features = {"train": exemplars, "validation": exemplars}, {"train": values, "validation": values}
    mean = (values / np.linalg.norm(values, axis=1, keepdims=True))[exemplars.used].mean(axis=0)
    for centred in (False, True):
        verifier = Verifier("nearest", channels=CHANNELS, pooling_options={"centred": centred}).eval()
        fit_start(verifier, sets, features, 0, only_scale=True, with_head=True)
        np.testing.assert_allclose(centre_of(verifier).numpy(), mean * centred, atol=1e-6)
        nearest = cosines(exemplars, values, mean if centred else None).nearest
        assert np.corrcoef(logits_of(verifier, exemplars, values), nearest)[0, 1] == pytest.approx(1)
    again, others = made(1.0)  # an earlier verifier goes on with other data
    fit_start(
        verifier,
        {"train": again, "validation": again},
        {"train": others, "validation": others},
        0,
        only_scale=True,
        with_head=True,
    )
    np.testing.assert_allclose(centre_of(verifier).numpy(), mean, atol=1e-6)
    # Its backbone is trained further, so that its features are others.
    use_requested_centre(verifier, again, others, has_learned_features=True)
    new = (others / np.linalg.norm(others, axis=1, keepdims=True))[again.used].mean(axis=0)
    np.testing.assert_allclose(centre_of(verifier).numpy(), new, atol=1e-6)


def test_the_start_keeps_the_centre_if_features_are_not_learned() -> None:
    exemplars, values = made(6.0)
    sets, features = {"train": exemplars, "validation": exemplars}, {"train": values, "validation": values}
    verifier = Verifier("cap_dba_l2", channels=CHANNELS, pooling_options={"norm": "none", "heads": 1}).eval()
    fit_start(verifier, sets, features, 0, only_scale=False, with_head=False)
    assert centre_of(verifier).any()
    mean = (values / np.linalg.norm(values, axis=1, keepdims=True))[exemplars.used].mean(axis=0)
    units = values / np.linalg.norm(values, axis=1, keepdims=True) - mean
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    nearest = [(units[exemplars.bag(row)] @ units[exemplars.query[row]]).max() for row in range(EXEMPLARS)]
    found = auroc(exemplars.label, logits_of(verifier, exemplars, values))
    assert found >= auroc(exemplars.label, np.array(nearest)) - 0.02
