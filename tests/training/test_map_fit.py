"""The map of the norm, fitted to the labels of the train bags."""

import numpy as np
import pytest
import torch

from miv import ExemplarSet, InstancePool, Verifier
from miv.evaluation import auroc
from miv.evaluation.cosines import cosines
from miv.poolings.similar import AlignedNorm
from miv.training.fits import fit_all
from miv.training.map_fit import STRENGTHS_OF_FEW, fit_map

CHANNELS, CLASSES = 12, 3


def few_classes(seed: int, count: int = 300) -> ExemplarSet:
    """Three classes, told by the first two channels; the others vary as much in every class."""
    random = np.random.default_rng(seed)
    centres = 2.0 * np.array([[1, 0], [-0.5, 0.9], [-0.5, -0.9]])
    classes = random.integers(CLASSES, size=(count, 4))  # of a query and its three targets
    label = (np.arange(count) % 2).astype(np.int8)
    classes[:, 1:] = (classes[:, :1] + random.integers(1, CLASSES, size=(count, 3))) % CLASSES  # another class
    classes[label == 1, 1] = classes[label == 1, 0]
    values = random.normal(size=(count, 4, CHANNELS))
    values[..., :2] += centres[classes]
    first = 4 * np.arange(count)
    return ExemplarSet(
        InstancePool("features", values.reshape(-1, CHANNELS).astype(np.float32)),
        first,
        3 * np.arange(count + 1),
        (first[:, None] + np.array([1, 2, 3])).ravel(),
        label,
    )


def with_labels(exemplars: ExemplarSet, label: np.ndarray) -> ExemplarSet:
    return ExemplarSet(exemplars.pool, exemplars.query, exemplars.bag_ptr, exemplars.bag_index, label.astype(np.int8))


def new_verifier(channels: int = CHANNELS) -> Verifier:
    return Verifier("cap_dba_l2", channels=channels, pooling_options={"heads": 1})


def norm_of(verifier: Verifier) -> AlignedNorm:
    assert isinstance(verifier.pooling.norm, AlignedNorm)
    return verifier.pooling.norm


def nearest(verifier: Verifier, exemplars: ExemplarSet) -> float:
    with torch.no_grad():
        directions = norm_of(verifier).direction(torch.from_numpy(exemplars.pool.values)).numpy()
    return auroc(exemplars.label, cosines(exemplars, directions).nearest)


def test_few_classes_are_told_apart_in_new_bags() -> None:
    train, test = few_classes(0), few_classes(1)
    verifier = new_verifier()
    before = nearest(verifier, test)
    assert fit_map(verifier, train, train.pool.values) in STRENGTHS_OF_FEW[1:]
    assert nearest(verifier, test) > before + 0.05


def test_more_channels_than_directions() -> None:
    train, test = few_classes(0), few_classes(1)
    wide = [np.pad(one.pool.values, ((0, 0), (0, 188))) for one in (train, test)]  # 200 channels
    train, test = (
        ExemplarSet(InstancePool("features", values), one.query, one.bag_ptr, one.bag_index, one.label)
        for one, values in zip((train, test), wide, strict=True)
    )
    verifier = new_verifier(200)
    before = nearest(verifier, test)
    fit_map(verifier, train, train.pool.values)
    assert nearest(verifier, test) > before + 0.05


def test_validation_can_reject_it() -> None:
    train, validation = few_classes(0), few_classes(1)
    against = with_labels(validation, 1 - validation.label)
    verifier = new_verifier()
    values = validation.pool.values
    assert fit_map(verifier, train, train.pool.values, validation=against, validation_features=values) is None
    assert not norm_of(verifier).has_map


@pytest.mark.parametrize("label", [0, 1])
def test_bags_of_one_label_say_nothing(label: int) -> None:
    train = few_classes(0)
    verifier = new_verifier()
    assert fit_map(verifier, with_labels(train, np.full(len(train), label)), train.pool.values) is None
    assert not norm_of(verifier).has_map


def test_bags_that_do_not_fit_in_memory_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    train = few_classes(0)
    monkeypatch.setattr("miv.training.map_fit._MOST_TARGETS", 2)  # every bag has three
    assert fit_map(new_verifier(), train, train.pool.values) is None
    monkeypatch.setattr("miv.training.map_fit._MOST_TARGETS", 600)
    monkeypatch.setattr("miv.training.map_fit._MOST_TARGETS_FOR_CHOOSING", 450)
    assert fit_map(new_verifier(), train, train.pool.values) in STRENGTHS_OF_FEW[1:]


def test_same_seed_gives_the_same_map_and_weights_of_one_change_nothing() -> None:
    train = few_classes(0)
    weighted = ExemplarSet(
        train.pool, train.query, train.bag_ptr, train.bag_index, train.label, weight=np.full(len(train), 3.0)
    )
    maps = []
    for exemplars in (train, train, weighted):
        verifier = new_verifier()
        fit_map(verifier, exemplars, train.pool.values)
        maps.append(norm_of(verifier).map.detach())
    assert torch.equal(maps[0], maps[1])
    assert torch.equal(maps[0], maps[2])


def test_what_an_earlier_verifier_learned_is_kept() -> None:
    train = few_classes(0)
    sets, known = {"train": train, "validation": train}, {"train": train.pool.values, "validation": train.pool.values}
    verifier = new_verifier()
    with torch.no_grad():
        verifier.pooling.similarity.weight[0] = 2.0
    fit_all(verifier, sets, known, 0, only_scale=False, with_head=True)
    assert not norm_of(verifier).has_map


def test_it_is_told() -> None:
    train, validation = few_classes(0), few_classes(1)
    sets = {"train": train, "validation": validation}
    known = {split: one.pool.values for split, one in sets.items()}
    told = fit_all(new_verifier(), sets, known, 0, only_scale=False, with_head=True)
    assert any(line.startswith("A map of the features is fitted to the labels") for line in told)
