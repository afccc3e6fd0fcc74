"""The map of the norm, fitted to the labels of the train bags."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from miv import ExemplarSet, InstancePool, Verifier
from miv.evaluation import auroc
from miv.evaluation.baselines import cosines
from miv.poolings.cap_tokens import CapTokensPooling
from miv.poolings.similar import AlignedNorm
from miv.training.label_map import STRENGTHS_OF_FEW, MapPairs, _main_directions, fit_map, units_after
from miv.training.start import fit_start

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


def new_verifier(channels: int = CHANNELS) -> Verifier:
    return Verifier("cap_dba_l2", channels=channels, pooling_options={"heads": 1})


def norm_of(verifier: Verifier) -> AlignedNorm:
    assert isinstance(verifier.pooling.norm, AlignedNorm)
    return verifier.pooling.norm


def fit(verifier: Verifier, train: ExemplarSet, validation: ExemplarSet | None = None) -> float | None:
    checked = few_classes(2) if validation is None else validation
    return fit_map(verifier, train, train.pool.values, validation=checked, validation_features=checked.pool.values)


def nearest(verifier: Verifier, exemplars: ExemplarSet) -> float:
    with torch.no_grad():
        directions = norm_of(verifier).direction(torch.from_numpy(exemplars.pool.values)).numpy()
    return auroc(exemplars.label, cosines(exemplars, directions).nearest)


def test_few_classes_are_told_apart_in_new_bags() -> None:
    train, test = few_classes(0), few_classes(1)
    verifier = new_verifier()
    before = nearest(verifier, test)
    assert fit(verifier, train) in STRENGTHS_OF_FEW[1:]
    assert nearest(verifier, test) > before + 0.05


def test_many_channels_of_which_the_map_changes_some_agree_with_a_naive_loop() -> None:
    """200 dense channels, a norm with a centre and a map, and attention over the three targets of each bag."""
    train = few_classes(0, count=40)
    random = np.random.default_rng(3)
    values = (train.pool.values @ random.normal(size=(CHANNELS, 200))).astype(np.float32)
    values += random.normal(size=values.shape).astype(np.float32)
    wide = ExemplarSet(InstancePool("features", values), train.query, train.bag_ptr, train.bag_index, train.label)
    verifier = new_verifier(200)
    norm = norm_of(verifier)
    with torch.no_grad():
        norm.centre.copy_(torch.from_numpy(0.01 * random.normal(size=200)))
        norm.map.add_(torch.from_numpy(0.02 * random.normal(size=(200, 200))))
    directions = _main_directions(units_after(norm, values))
    count = directions.shape[1]
    change = torch.eye(count) + 0.1 * torch.from_numpy(random.normal(size=(count, count))).float()
    found = MapPairs.of(verifier, wide, values, directions).pooled(change)
    with torch.no_grad():
        whole = torch.eye(200) + directions @ (change - torch.eye(count)) @ directions.T
        norm.map.copy_(whole @ norm.map)
        turned = norm.direction(torch.from_numpy(values)).numpy()
    for number in range(len(wide)):
        cosine = [float(turned[wide.query[number]] @ turned[one]) for one in wide.bag(number)]
        share = [math.exp(16 * one) for one in cosine]
        wanted = sum(one * two for one, two in zip(share, cosine, strict=True)) / sum(share)
        assert float(found[number]) == pytest.approx(wanted, abs=1e-5)


def test_tokens_add_to_the_cosine_of_a_target() -> None:
    """Texts with two tokens of four channels each, after a vector of six."""
    random = np.random.default_rng(0)
    values = random.normal(size=(8, 6 + 2 * 4)).astype(np.float32)
    texts = ExemplarSet.from_lists(InstancePool("features", values), [0, 4], [[1, 2, 3], [5, 6, 7]], [1, 0])
    verifier = Verifier("cap_tokens", channels=14, pooling_options={"vector": 6, "width": 4, "heads": 1}).eval()
    assert isinstance(verifier.pooling, CapTokensPooling)
    with torch.no_grad():
        verifier.pooling.share.fill_(0.5)
        verifier.pooling.tokens.scale.fill_(1.0)
        verifier.pooling.tokens.intercept.fill_(0.0)
    found = MapPairs.of(verifier, texts, values, torch.eye(6)).pooled(torch.eye(6))
    for number, query in enumerate(texts.query):
        scores = []
        for target in texts.bag(number):
            asked, told = (values[one, 6:].reshape(2, 4) for one in (query, target))
            best = [max(0, *(_cosine(one, other) for other in told)) for one in asked]
            tokens = np.average(best, weights=np.linalg.norm(asked, axis=1))
            scores.append(_cosine(values[query, :6], values[target, :6]) + 0.5 * tokens)
        share = np.exp(16 * np.array(scores))
        assert float(found[number]) == pytest.approx(share @ scores / share.sum(), abs=1e-5)


def _cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


def with_two_references(exemplars: ExemplarSet) -> ExemplarSet:
    """The query of each exemplar, given twice."""
    borders, rows = 2 * np.arange(len(exemplars) + 1), np.repeat(exemplars.query, 2)
    return replace(exemplars, reference_ptr=borders, reference_index=rows)


def test_references_share_the_weight_of_their_exemplar() -> None:
    one, two = new_verifier(), new_verifier()
    train, validation = few_classes(0), few_classes(2)
    assert fit(one, train, validation) == fit(two, with_two_references(train), with_two_references(validation))
    assert torch.allclose(norm_of(one).map, norm_of(two).map, atol=1e-3)


def test_validation_can_reject_it() -> None:
    train, validation = few_classes(0), few_classes(1)
    verifier = new_verifier()
    assert fit(verifier, train, replace(validation, label=1 - validation.label)) is None
    assert fit_map(verifier, train, train.pool.values, validation=None, validation_features=train.pool.values) is None
    assert not norm_of(verifier).has_map


def test_what_an_earlier_verifier_learned_is_kept() -> None:
    train = few_classes(0)
    sets = {"train": train, "validation": few_classes(2)}
    known = {split: one.pool.values for split, one in sets.items()}
    verifier = new_verifier()
    with torch.no_grad():
        verifier.pooling.similarity.weight[0] = 2.0
    fit_start(verifier, sets, known, 0, only_scale=False, with_head=True)
    assert not norm_of(verifier).has_map


@pytest.mark.parametrize("with_head", [True, False])
def test_a_map_with_which_the_head_is_worse_leaves_no_trace(monkeypatch: pytest.MonkeyPatch, with_head: bool) -> None:
    """A map that leaves out the two channels which tell the classes apart."""

    def blinding(verifier: Verifier, *_given: object, **_named: object) -> float:
        with torch.no_grad():
            norm_of(verifier).map[:2] = 0
        return 100.0

    sets = {"train": few_classes(0), "validation": few_classes(1)}
    known = {split: one.pool.values for split, one in sets.items()}
    fitted = []
    for fit_one in (blinding, lambda *_given, **_named: None):
        monkeypatch.setattr("miv.training.start.fit_map", fit_one)
        torch.manual_seed(0)
        fitted.append(new_verifier())
        assert fit_start(fitted[-1], sets, known, 0, only_scale=False, with_head=with_head) == []
    wanted = fitted[1].state_dict()
    assert all(torch.equal(value, wanted[name]) for name, value in fitted[0].state_dict().items())
