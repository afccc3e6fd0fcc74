"""When `auto` standardises vectors, and what it does with few channels."""

import numpy as np
from numpy.typing import NDArray

from miv import ExemplarSet, InstancePool
from miv.training.auto import FEW_CHANNELS, choose, should_standardise


def of_classes(scale: NDArray[np.float64], told_by: int, seed: int = 0) -> ExemplarSet:
    """Classes differ only in the first ``told_by`` channels; all channels are multiplied by ``scale``."""
    random = np.random.default_rng(seed)
    classes = np.repeat(np.arange(20), 10)
    values = random.normal(size=(200, len(scale)))
    values[:, :told_by] = 3 * random.normal(size=(20, told_by))[classes] + 0.3 * random.normal(size=(200, told_by))
    queries, bags, labels = [], [], []
    for number in range(300):
        query = int(random.integers(200))
        other = random.choice(np.flatnonzero(classes != classes[query]), 5)
        if number % 2:
            other[0] = random.choice(np.flatnonzero((classes == classes[query]) & (np.arange(200) != query)))
        queries.append(query)
        bags.append(other)
        labels.append(number % 2)
    pool = InstancePool("features", (values * scale).astype(np.float32))
    return ExemplarSet.from_lists(pool, queries, bags, labels)


def test_a_column_in_large_units_that_says_nothing_is_tamed() -> None:
    large = np.array([1.0] * 6 + [1000.0] * 2)
    assert should_standardise(of_classes(large, told_by=6))
    assert not should_standardise(of_classes(np.ones(8), told_by=6))


def test_a_column_in_large_units_that_says_everything_stays_large() -> None:
    large = np.array([1000.0] * 4 + [1.0] * 12)
    assert not should_standardise(of_classes(large, told_by=4))


def test_columns_in_other_units_are_standardised_if_the_bags_do_not_tell() -> None:
    scale = np.geomspace(0.1, 1000, 8)
    assert should_standardise(of_classes(scale, told_by=0))
    assert should_standardise(of_classes(np.ones(8), told_by=0))  # a table, too
    assert not should_standardise(of_classes(np.ones(FEW_CHANNELS), told_by=0))


def test_one_label_says_nothing() -> None:
    train = of_classes(np.array([1.0] * 6 + [1000.0] * 2), told_by=6)
    assert not should_standardise(train.subset(np.flatnonzero(train.label == 1)))


def test_few_channels_have_no_layer_norm_of_the_targets() -> None:
    few, many = ({"train": of_classes(np.ones(count), told_by=4)} for count in (8, FEW_CHANNELS))
    assert choose(few, {}).config.pooling_options == {"norm": "none"}
    assert choose(few, {"pooling": "baseline"}).config.pooling_options == {}
    assert choose(few, {"pooling_options": {"norm": "pre"}}).config.pooling_options == {}  # what is given comes later
    assert choose(few, {"start": "paper"}).config.pooling_options == {}
    assert choose(many, {}).config.pooling_options == {}
