"""How much tokens count beside vectors is fitted to the bags."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from miv import Verifier
from miv.data import ExemplarSet, InstancePool
from miv.poolings.cap_tokens import SHARE, CapTokensPooling, MatchedProduct
from miv.training.similar_start import OF_ANSWERS, fit_share, told_share
from miv.training.start import fit_start

EXEMPLARS, BAG, VECTOR, WIDTH = 200, 4, 8, 6


def made(*, in_vectors: bool, in_tokens: bool) -> tuple[ExemplarSet, np.ndarray]:
    """Bags whose first target is near to the query in its vector, in its tokens, or in both, if the label is 1."""
    random = np.random.default_rng(0)
    features = random.normal(size=(EXEMPLARS * (BAG + 1), VECTOR + 2 * WIDTH)).astype(np.float32)
    label = (np.arange(EXEMPLARS) % 2).astype(np.int8)
    for number in np.flatnonzero(label):
        query = number * (BAG + 1)
        if in_vectors:
            features[query + 1, :VECTOR] = features[query, :VECTOR]
        if in_tokens:
            features[query + 1, VECTOR:] = features[query, VECTOR:]
    rows = np.arange(len(features)).reshape(EXEMPLARS, BAG + 1)
    pool = InstancePool("features", features)
    return ExemplarSet.from_lists(pool, rows[:, 0].tolist(), rows[:, 1:].tolist(), label.tolist()), features


def verifier() -> Verifier:
    torch.manual_seed(0)
    options = {"vector": VECTOR, "width": WIDTH}
    return Verifier("cap_tokens", channels=VECTOR + 2 * WIDTH, pooling_options=options).eval()


@pytest.mark.parametrize(("in_vectors", "in_tokens"), [(False, True), (True, False)])
def test_what_tells_the_bags_apart_counts(in_vectors: bool, in_tokens: bool) -> None:
    one = verifier()
    exemplars, features = made(in_vectors=in_vectors, in_tokens=in_tokens)
    share = fit_share(one, exemplars, features)
    assert share is not None
    assert share > OF_ANSWERS if in_tokens else share < OF_ANSWERS
    assert isinstance(one.pooling, CapTokensPooling)
    assert isinstance(one.pooling.similarity, MatchedProduct)
    assert one.pooling.share.item() == one.pooling.similarity.share.item() == pytest.approx(share)


@pytest.mark.parametrize(("asked_too", "default"), [(0, OF_ANSWERS), (60, SHARE)])
def test_the_default_follows_from_the_kinds_of_texts(asked_too: int, default: float) -> None:
    """Random bags say nothing, so that only queries that are targets too decide."""
    exemplars, features = made(in_vectors=False, in_tokens=False)
    bags = [exemplars.bag(row).tolist() for row in range(EXEMPLARS)]
    for row in range(asked_too):  # the query of the next bag becomes a target of this one
        bags[row][0] = int(exemplars.query[row + 1])
    changed = ExemplarSet.from_lists(exemplars.pool, exemplars.query.tolist(), bags, exemplars.label.tolist())
    assert fit_share(verifier(), changed, features) == default


def test_validation_counts_too() -> None:
    few, many = np.arange(10), np.arange(10, EXEMPLARS)
    (vectors, known), (tokens, unseen) = made(in_vectors=True, in_tokens=False), made(in_vectors=False, in_tokens=True)
    share = fit_share(
        verifier(), vectors.subset(few), known, validation=tokens.subset(many), validation_features=unseen
    )
    assert share is not None
    assert share > OF_ANSWERS


@pytest.mark.parametrize("size", [0.001, 1000.0])
def test_only_ratios_of_weights_count(size: float) -> None:
    """Weights of one split say nothing about the other split."""
    vectors, known = made(in_vectors=True, in_tokens=False)
    tokens, unseen = made(in_vectors=False, in_tokens=True)
    few = vectors.subset(np.arange(40))
    expected = fit_share(verifier(), few, known, validation=tokens, validation_features=unseen)
    weighted = replace(few, weight=np.full(40, size))
    assert fit_share(verifier(), weighted, known, validation=tokens, validation_features=unseen) == expected


def test_other_poolings_have_no_share() -> None:
    exemplars, features = made(in_vectors=True, in_tokens=False)
    assert fit_share(Verifier("cap_dba_l2", channels=features.shape[1]), exemplars, features) is None


def test_a_share_that_was_learned_stays() -> None:
    exemplars, features = made(in_vectors=True, in_tokens=False)
    one = verifier()
    assert isinstance(one.pooling, CapTokensPooling)
    assert isinstance(one.pooling.similarity, MatchedProduct)
    with torch.no_grad():
        one.pooling.share.fill_(0.5)
        one.pooling.similarity.weight.fill_(2.0)  # an earlier training changed it
    sets, known = {"train": exemplars, "validation": exemplars}, {"train": features, "validation": features}
    fit_start(one, sets, known, 0, only_scale=False, with_head=False)
    assert one.pooling.share.item() == 0.5


def test_the_choice_is_told() -> None:
    assert "weight 0.04" in told_share(SHARE)
    assert told_share(0.0).startswith("Token matching is off")
