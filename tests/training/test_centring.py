"""A direction that all features share is taken away, unless texts answer others."""

import numpy as np
import pytest
import torch

from miv import ExemplarSet, InstancePool, Verifier
from miv.backbones import create_backbone
from miv.evaluation import auroc
from miv.evaluation.baselines import cosines
from miv.evaluation.predicting import predict
from miv.poolings.similar import AlignedNorm
from miv.training.centring import (
    POWERS,
    are_of_one_kind,
    assume_centre,
    assumed_power,
    fit_whitening,
    use_requested_centre,
)
from miv.training.similar_start import fit_scale_and_sharpness
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


# The map of the norm, fitted to the covariance of the train instances.

WHITE_CHANNELS, CLASSES = 16, 40


def exemplars(seed: int, common: float, count: int = 300, own: float = 1.0, noise: float = 0.5) -> ExemplarSet:
    """Bags of three; classes differ in all channels, and two directions vary the same way in every class.

    Classes differ ``own`` times as much in these two directions as in the others.
    """
    random = np.random.default_rng(seed)
    centres = random.normal(size=(CLASSES, WHITE_CHANNELS))
    centres[:, :2] *= own
    kind = random.integers(CLASSES, size=(count, 4))  # of a query and its three targets
    label = (np.arange(count) % 2).astype(np.int8)
    kind[:, 1:] = (kind[:, :1] + random.integers(1, CLASSES, size=(count, 3))) % CLASSES  # another class
    kind[label == 1, 1] = kind[label == 1, 0]
    values = centres[kind] + random.normal(scale=noise, size=(count, 4, WHITE_CHANNELS))
    values[..., :2] += random.normal(scale=common, size=(count, 4, 2))
    pool = InstancePool("features", values.reshape(-1, WHITE_CHANNELS).astype(np.float32), kind.ravel().astype(str))
    first = 4 * np.arange(count)
    return ExemplarSet(pool, first, 3 * np.arange(count + 1), (first[:, None] + np.array([1, 2, 3])).ravel(), label)


def verifier_for(pooling: str = "cap_dba_l2") -> Verifier:
    return Verifier(pooling, channels=WHITE_CHANNELS, pooling_options={"heads": 1} if pooling.startswith("cap") else {})


def test_shared_variation_is_removed() -> None:
    train, test = exemplars(0, common=4.0), exemplars(1, common=4.0)
    verifier = verifier_for()
    power = fit_whitening(verifier, train, train.pool.values)
    fit_scale_and_sharpness(verifier, train, train.pool.values, keep_centre=True)
    plain = auroc(test.label, predict(verifier_for("nearest"), test).logit)
    assert power in POWERS[1:]
    assert auroc(test.label, predict(verifier, test).logit) > plain + 0.1


def test_validation_can_reject_it() -> None:
    """Whitening helps train here, but harms validation, where the two strong directions are what classes differ in."""
    train, validation = exemplars(0, common=1.5, count=60), exemplars(1, common=0.0, count=1500)
    values = validation.pool.values.copy()
    kinds = np.unique(validation.pool.classes.astype(int), return_inverse=True)[1]  # type: ignore[union-attr]
    values[:, :2] = 20 * np.random.default_rng(2).normal(size=(CLASSES, 2))[kinds]
    values[:, 2:] = np.random.default_rng(3).normal(size=values[:, 2:].shape)
    changed = ExemplarSet(
        InstancePool("features", values), validation.query, validation.bag_ptr, validation.bag_index, validation.label
    )
    assert fit_whitening(verifier_for(), train, train.pool.values) is not None
    told = fit_whitening(
        verifier_for(), train, train.pool.values, validation=changed, validation_features=changed.pool.values
    )
    assert told is None


def test_an_assumed_power_may_be_between_the_candidates() -> None:
    train = exemplars(0, common=0.0)
    one_label = train.subset(train.label == 1)  # chooses nothing
    assert fit_whitening(verifier_for(), one_label, train.pool.values) is None
    assert fit_whitening(verifier_for(), one_label, train.pool.values, assumed=0.3) == 0.3
    assert fit_whitening(verifier_for(), train, train.pool.values) is None
    assert fit_whitening(verifier_for(), train, train.pool.values, assumed=0.3) == 0.3
    assert assumed_power(create_backbone("hog")) > 0 == assumed_power(create_backbone("pixels"))
