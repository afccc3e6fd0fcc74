"""The start, fitted to the train bags, is as good as the nearest target by cosine where a pooling promises it."""

import numpy as np
import pytest
import torch

from miv import Verifier, list_poolings
from miv.data import ExemplarSet, InstancePool
from miv.evaluation import auroc
from miv.evaluation.baselines import cosines
from miv.evaluation.predicting import predict
from miv.poolings import POOLINGS
from miv.poolings.cap_tokens import SHARE, CapTokensPooling, MatchedProduct
from miv.training.similar_start import OF_ANSWERS, SHARPER, SHARPNESS, fit_scale_and_sharpness, fit_share

PROMISED = ["baseline", "cap_vema", "cap_dba_l1", "cap_dba_l2", "cap_ma", "nearest", "cap_tokens"]
CHANNELS = 32


def clustered(seed: int, exemplars: int = 300, noise: float = 1.2, offset: float = 1.0) -> ExemplarSet:
    """Classes are random directions, all lie off the origin by the offset; a bag of 3 to 8 has one of the query's."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(20, CHANNELS))
    classes = np.arange(400) % 20
    values = centres[classes] + noise * random.normal(size=(400, CHANNELS)) + offset
    queries, bags, labels = [], [], []
    for number in range(exemplars):
        query = int(random.integers(400))
        others = random.permutation(np.flatnonzero(classes != classes[query]))[: random.integers(2, 8)]
        own = random.permutation(np.flatnonzero((classes == classes[query]) & (np.arange(400) != query)))[:1]
        queries.append(query)
        bags.append(np.concatenate([others, own if number % 2 else others[:1]]))
        labels.append(number % 2)
    return ExemplarSet.from_lists(InstancePool("features", values.astype(np.float32)), queries, bags, labels)


def verifier_of(pooling: str) -> Verifier:
    torch.manual_seed(0)
    return Verifier(pooling, channels=CHANNELS, pooling_options={"heads": 1} if pooling.startswith("cap") else {})


def measured(verifier: Verifier, exemplars: ExemplarSet) -> float:
    return auroc(exemplars.label, predict(verifier, exemplars).logit)


def test_a_pooling_says_whether_it_promises_to_start_as_the_nearest() -> None:
    assert [name for name in list_poolings() if POOLINGS[name].make.starts_as_nearest] == PROMISED


@pytest.mark.parametrize("offset", [0.0, 1.0])
@pytest.mark.parametrize("pooling", PROMISED)
def test_the_fitted_start_is_as_good_as_the_nearest_target(pooling: str, offset: float) -> None:
    train, validation = clustered(0, offset=offset), clustered(1, exemplars=800, offset=offset)
    nearest = auroc(validation.label, cosines(validation, validation.pool.values).nearest)
    assert 0.6 < nearest < 0.99, "an example that could not tell"
    verifier = verifier_of(pooling)
    fit = fit_scale_and_sharpness(verifier, train, train.pool.values)
    assert fit is not None
    assert fit.loss < np.log(2)
    assert measured(verifier, validation) >= nearest - 0.01


def test_what_was_fitted_is_in_the_verifier_and_nothing_else_was_touched() -> None:
    train = clustered(0)
    verifier = verifier_of("cap_dba_l2")
    before = {name: weight.clone() for name, weight in verifier.state_dict().items()}
    fit = fit_scale_and_sharpness(verifier, train, train.pool.values)
    assert fit is not None
    after = verifier.state_dict()
    changed = {name for name, weight in after.items() if not torch.equal(weight, before[name])}
    fitted = {"norm.centre", "sharpness", "similarity.scale", "similarity.intercept"}
    assert changed <= {f"pooling.{name}" for name in fitted}
    assert after["pooling.similarity.scale"].item() == pytest.approx(fit.scale)
    assert after["pooling.similarity.intercept"].item() == pytest.approx(fit.intercept)
    assert fit.sharpness is not None
    assert torch.equal(after["pooling.sharpness"], fit.sharpness)
    assert any(float(fit.sharpness) == pytest.approx(sharp) for sharp in SHARPNESS + SHARPER)
    assert bool(fit.centre.any()) == bool(after["pooling.norm.centre"].any())
    answers = predict(verifier, train)
    loss = torch.nn.functional.binary_cross_entropy_with_logits(
        torch.from_numpy(answers.logit), torch.from_numpy(train.label).float()
    )
    assert fit.loss == pytest.approx(float(loss), abs=1e-4)
    again = verifier_of("cap_dba_l2")
    fit_scale_and_sharpness(again, train, train.pool.values)
    assert all(torch.equal(weight, after[name]) for name, weight in again.state_dict().items())


@pytest.mark.parametrize("pooling", [*PROMISED, "gabmil", "pma", "msa", "mi_net", "bi_lstm"])
@pytest.mark.parametrize("degenerate", ["zeros", "some zeros", "constant", "nearly constant"])
def test_features_without_directions_break_nothing(pooling: str, degenerate: str) -> None:
    train = clustered(0, exemplars=40)
    values = train.pool.values.copy()
    if degenerate == "zeros":
        values[:] = 0
    elif degenerate == "some zeros":
        values[::3] = 0
    else:
        values[:] = values[0]
        if degenerate == "nearly constant":
            values *= 1 + 1e-6 * np.random.default_rng(0).normal(size=values.shape).astype(np.float32)
    verifier = verifier_of(pooling)
    fit = fit_scale_and_sharpness(verifier, train, values)
    assert fit is not None
    assert fit.scale > 0
    answers = predict(verifier, train, values)
    assert np.isfinite(answers.logit).all()
    assert np.abs(answers.logit).max() < 30
    if degenerate in ("zeros", "constant"):
        assert fit.loss == pytest.approx(np.log(2), abs=0.05)


def test_one_class_gives_nothing_to_fit() -> None:
    train = clustered(0, exemplars=40)
    verifier = verifier_of("cap_dba_l2")
    before = {name: weight.clone() for name, weight in verifier.state_dict().items()}
    assert fit_scale_and_sharpness(verifier, train.subset(np.flatnonzero(train.label == 1)), train.pool.values) is None
    assert all(torch.equal(weight, before[name]) for name, weight in verifier.state_dict().items())


def test_attention_is_not_so_sharp_that_far_targets_have_no_rank() -> None:
    """A sharpness of 256 fits these bags best, but the targets opposite to the query would have shares of 0."""
    random = np.random.default_rng(0)
    angle = random.uniform(-np.pi, np.pi, size=200)
    label = np.arange(200) % 2
    nearest = np.where(label == 1, 0.1, 0.3)
    turns = np.stack([np.zeros(200), nearest, nearest + 0.3, np.full(200, 2.0), np.full(200, 3.0)], axis=1)
    angles = (angle[:, None] + turns).ravel()
    values = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    rows = np.arange(1000).reshape(200, 5)
    train = ExemplarSet.from_lists(
        InstancePool("features", values), rows[:, 0].tolist(), rows[:, 1:].tolist(), label.tolist()
    )
    verifier = Verifier("cap_dba_l2", channels=2, pooling_options={"heads": 1})
    fit_scale_and_sharpness(verifier, train, values)
    shares = predict(verifier, train).attention
    assert shares is not None
    assert shares.min() > 0


# How much tokens count beside vectors is fitted to the bags.

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
