from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from miv.errors import MIVError
from miv.evaluation.out_of_distribution import fit_out_of_distribution
from miv.verifier.out_of_distribution import LIMIT_NAME, OutOfDistributionLimit

MIX = np.random.default_rng(9).normal(size=(12, 12)) * np.geomspace(1, 0.01, 12)


def features(random: np.random.Generator, count: int) -> np.ndarray[Any, Any]:
    """Skewed features with strongly correlated channels."""
    return (random.exponential(size=(count, 12)) @ MIX.T + 3).astype(np.float32)


def test_the_false_alarm_rate_on_new_instances_is_the_requested_one() -> None:
    rates = []
    for seed in range(60):
        random = np.random.default_rng(seed)
        limit = fit_out_of_distribution(features(random, 100), features(random, 150), rate=0.05)
        rates.append(limit.is_beyond(features(random, 1000)).mean())
    assert 0.04 < np.mean(rates) < 0.055


def test_the_rate_holds_for_new_classes_if_instances_of_a_class_are_alike() -> None:
    def of_classes(random: np.random.Generator, count: int) -> np.ndarray[Any, Any]:
        own = random.normal(size=(count, 1, 4)) * random.exponential(size=(count, 1, 1))
        return (own + 0.1 * random.normal(size=(count, 20, 4))).reshape(-1, 4).astype(np.float32)

    by_class, by_instance = [], []
    for seed in range(60):
        random = np.random.default_rng(seed)
        train, validation, new = of_classes(random, 40), of_classes(random, 25), of_classes(random, 200)
        limit = fit_out_of_distribution(train, validation, 0.05, np.repeat(np.arange(25), 20))
        by_class.append(limit.is_beyond(new).mean())
        by_instance.append(fit_out_of_distribution(train, validation, 0.05).is_beyond(new).mean())
    assert np.mean(by_class) < 0.055
    assert np.mean(by_instance) > 0.06  # counted as independent, the instances promise too much


def test_instances_of_another_kind_are_unlike_even_if_each_channel_is_in_its_usual_range() -> None:
    random = np.random.default_rng(0)
    train = features(random, 300)
    limit = fit_out_of_distribution(train, features(random, 300), rate=0.01)
    shuffled = random.permuted(features(random, 200), axis=0)  # every channel as before, but from other instances
    assert limit.is_beyond(shuffled).mean() > 0.9
    assert limit.is_beyond(features(random, 200)).mean() < 0.05


def test_distance_is_that_of_the_full_covariance_if_all_directions_are_kept() -> None:
    random = np.random.default_rng(0)
    train, new = features(random, 4000), features(random, 5)
    limit = fit_out_of_distribution(train, features(random, 200))
    covariance = np.cov(train.T.astype(np.float64), bias=True)
    ridge = (0.001 + 0.01 * 12 / 4000) * np.trace(covariance) / 12
    centred = new.astype(np.float64) - train.mean(axis=0)
    expected = np.einsum("nc,cd,nd->n", centred, np.linalg.inv(covariance + ridge * np.eye(12)), centred)
    np.testing.assert_allclose(limit.distance(new), expected, rtol=1e-3)


def test_the_file_is_small_and_gives_the_same_limit(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    wide = random.normal(size=(400, 2048)).astype(np.float32)
    limit = fit_out_of_distribution(wide[:200], wide[200:])
    limit.save(tmp_path)
    assert (tmp_path / LIMIT_NAME).stat().st_size < 320_000
    again = OutOfDistributionLimit.load(tmp_path, 2048)
    assert again is not None
    assert again.distance(wide).tolist() == limit.distance(wide).tolist()
    assert again.document() == limit.document()
    with pytest.raises(MIVError, match="is for 2048 channels, the verifier has 8"):
        OutOfDistributionLimit.load(tmp_path, 8)
    with pytest.raises(MIVError, match=r"Expected \(C,\)"):
        replace(limit, mean=np.zeros(0, np.float32), directions=np.zeros((limit.directions.shape[0], 0), np.float32))
    with pytest.raises(MIVError, match="not for instances of text"):
        replace(limit, statistics=limit).is_foreign("text", np.array(["a text"]))
    content = (tmp_path / LIMIT_NAME).read_bytes()
    with safe_open(tmp_path / LIMIT_NAME, "numpy") as file:
        [(name, about)] = file.metadata().items()  # several entries would differ in order between processes
        parts = {part: file.get_tensor(part) for part in file.keys()}  # noqa: SIM118 - not a dictionary
    save_file(parts, tmp_path / LIMIT_NAME, metadata={name: about.replace("format", "was"), "format": "miv-unlike"})
    older = OutOfDistributionLimit.load(tmp_path, 2048)
    assert older is not None
    assert older.fingerprint == limit.fingerprint
    for damaged in (
        content[:-100],
        b"",
        content.replace(b"miv-unlike", b"mov-unlike"),
        content.replace(b"rate", b"rats"),
    ):
        (tmp_path / LIMIT_NAME).write_bytes(damaged)
        with pytest.raises(MIVError, match=r"is damaged: .* Copy the verifier's folder"):
            OutOfDistributionLimit.load(tmp_path, 2048)


@pytest.mark.parametrize(
    ("counts", "rate", "said"),
    [
        ((50, 98), 0.01, "cannot be promised with 98 classes or instances. Expected at least 99.* of 0.011 or more"),
        ((1, 100), 0.01, "Train has 1 instances"),
        ((50, 100), 0.0, "Expected a number between 0 and 1"),
    ],
)
def test_says_what_is_missing(counts: tuple[int, int], rate: float, said: str) -> None:
    random = np.random.default_rng(0)
    with pytest.raises(MIVError, match=said):
        fit_out_of_distribution(features(random, counts[0]), features(random, counts[1]), rate)


def test_equal_train_instances_give_a_limit_too() -> None:
    limit = fit_out_of_distribution(np.ones((10, 3), np.float32), np.ones((100, 3), np.float32))
    assert not limit.is_beyond(np.ones((1, 3), np.float32)).any()
    assert limit.is_beyond(np.zeros((1, 3), np.float32)).all()
