"""The map of the norm, fitted to the covariance of the train instances."""

import numpy as np
import torch
from numpy.typing import NDArray

from miv import ExemplarSet, InstancePool, Verifier
from miv.backbones import create_backbone
from miv.evaluation import auroc
from miv.evaluation.predicting import predict
from miv.poolings import AlignedNorm
from miv.training.centring import POWERS, assumed_power, fit_whitening
from miv.training.similar_start import fit_scale_and_sharpness

CHANNELS, CLASSES = 16, 40


def exemplars(seed: int, common: float, count: int = 300, own: float = 1.0, noise: float = 0.5) -> ExemplarSet:
    """Bags of three; classes differ in all channels, and two directions vary the same way in every class.

    Classes differ ``own`` times as much in these two directions as in the others.
    """
    random = np.random.default_rng(seed)
    centres = random.normal(size=(CLASSES, CHANNELS))
    centres[:, :2] *= own
    kind = random.integers(CLASSES, size=(count, 4))  # of a query and its three targets
    label = (np.arange(count) % 2).astype(np.int8)
    kind[:, 1:] = (kind[:, :1] + random.integers(1, CLASSES, size=(count, 3))) % CLASSES  # another class
    kind[label == 1, 1] = kind[label == 1, 0]
    values = centres[kind] + random.normal(scale=noise, size=(count, 4, CHANNELS))
    values[..., :2] += random.normal(scale=common, size=(count, 4, 2))
    pool = InstancePool("features", values.reshape(-1, CHANNELS).astype(np.float32), kind.ravel().astype(str))
    first = 4 * np.arange(count)
    return ExemplarSet(pool, first, 3 * np.arange(count + 1), (first[:, None] + np.array([1, 2, 3])).ravel(), label)


def verifier_for(pooling: str = "cap_dba_l2") -> Verifier:
    return Verifier(pooling, channels=CHANNELS, pooling_options={"heads": 1} if pooling.startswith("cap") else {})


def norm_of(verifier: Verifier) -> AlignedNorm:
    assert isinstance(verifier.pooling.norm, AlignedNorm)
    return verifier.pooling.norm


def test_shared_variation_is_removed() -> None:
    train, test = exemplars(0, common=4.0), exemplars(1, common=4.0)
    verifier = verifier_for()
    power = fit_whitening(verifier, train, train.pool.values)
    fit_scale_and_sharpness(verifier, train, train.pool.values, keep_centre=True)
    plain = auroc(test.label, predict(verifier_for("nearest"), test).logit)
    assert power in POWERS[1:]
    assert auroc(test.label, predict(verifier, test).logit) > plain + 0.1


def test_map_is_the_power_of_the_covariance() -> None:
    train = exemplars(0, common=4.0)
    verifier = verifier_for()
    power = fit_whitening(verifier, train, train.pool.values)
    assert power is not None
    units = train.pool.values / np.linalg.norm(train.pool.values, axis=1, keepdims=True)
    covariance = np.cov(units.T, bias=True)
    ridge = (0.1 + 0.3 * CHANNELS / len(units)) * np.trace(covariance) / CHANNELS
    wanted = _power(covariance + ridge * np.eye(CHANNELS), -power / 2)
    wanted /= np.sqrt(np.mean(np.linalg.eigvalsh(wanted) ** 2))
    np.testing.assert_allclose(norm_of(verifier).map.numpy(), wanted, atol=1e-4)
    np.testing.assert_allclose(norm_of(verifier).centre.numpy(), units.mean(axis=0), atol=1e-6)


def _power(matrix: NDArray[np.float64], exponent: float) -> NDArray[np.float64]:
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * values**exponent) @ vectors.T


def test_labels_that_say_nothing_leave_the_cosine() -> None:
    train = exemplars(0, common=0.0)
    shuffled = ExemplarSet(
        train.pool, train.query, train.bag_ptr, train.bag_index, np.random.default_rng(5).permutation(train.label)
    )
    verifier = verifier_for()
    assert fit_whitening(verifier, shuffled, train.pool.values, seed=1) is None
    assert torch.equal(norm_of(verifier).map, torch.eye(CHANNELS))


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


def test_an_assumed_power_stays_if_nothing_can_be_compared() -> None:
    """Bags of one label choose nothing."""
    train = exemplars(0, common=0.0)
    alike = train.subset(train.label == 1)
    verifier = verifier_for()
    assert fit_whitening(verifier, alike, train.pool.values) is None
    assert fit_whitening(verifier, alike, train.pool.values, assumed=0.5) == 0.5


def test_an_assumed_power_may_be_between_the_candidates() -> None:
    train = exemplars(0, common=0.0)
    one_label = train.subset(train.label == 1)
    assert fit_whitening(verifier_for(), one_label, train.pool.values, assumed=0.3) == 0.3
    assert fit_whitening(verifier_for(), train, train.pool.values) is None
    assert fit_whitening(verifier_for(), train, train.pool.values, assumed=0.3) == 0.3
    assert assumed_power(create_backbone("hog")) > 0 == assumed_power(create_backbone("pixels"))


def test_a_small_gain_is_enough_to_whiten_less_but_not_to_whiten_more() -> None:
    """Classes differ most where features vary most. Less than 1 gains 0.017, and 0.25 gains 0.005 over 0.5."""
    train = exemplars(0, common=0.0, count=1500, own=3.0, noise=1.5)
    for assumed in (1.0, 0.5):
        assert fit_whitening(verifier_for(), train, train.pool.values, assumed=assumed) is None
    # Some whitening gains up to 0.004 here, with a standard error of 0.002.
    train = exemplars(0, common=0.0, count=1500, own=1.5, noise=1.0)
    assert fit_whitening(verifier_for(), train, train.pool.values) is None


def test_all_references_choose_the_power() -> None:
    """The first reference of each query is noise; with this draw, it alone shows no gain for any power."""
    train = exemplars(0, common=4.0)
    noise = np.random.default_rng(4).normal(size=(len(train), CHANNELS)).astype(np.float32)
    pool = InstancePool("features", np.concatenate([train.pool.values, noise]))
    asked = [[len(train.pool) + row, train.query[row]] for row in range(len(train))]
    bags = [train.bag(row) for row in range(len(train))]
    several = ExemplarSet.from_lists(pool, None, bags, train.label, references=asked)
    assert fit_whitening(verifier_for(), several.with_first_reference(), pool.values) is None
    assert fit_whitening(verifier_for(), several, pool.values) in POWERS[1:]


def test_nearest_stays_the_plain_cosine() -> None:
    train = exemplars(0, common=4.0)
    verifier = verifier_for("nearest")
    assert fit_whitening(verifier, train, train.pool.values) is None
    assert torch.equal(norm_of(verifier).map, torch.eye(CHANNELS))


def test_a_learned_map_is_kept() -> None:
    train = exemplars(0, common=4.0)
    verifier = verifier_for()
    norm_of(verifier).map.data.mul_(2)
    assert fit_whitening(verifier, train, train.pool.values) is None
    assert torch.equal(norm_of(verifier).map, 2 * torch.eye(CHANNELS))
