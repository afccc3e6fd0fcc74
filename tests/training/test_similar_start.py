"""The start, fitted to the train bags, is as good as the nearest target by cosine where a pooling promises it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from miv import Verifier, list_poolings
from miv.data import ExemplarSet, InstancePool
from miv.evaluation import auroc
from miv.evaluation.baselines import cosines
from miv.evaluation.predicting import predict
from miv.poolings import POOLINGS
from miv.poolings.cap import CrossAttentionPooling
from miv.poolings.cap_tokens import SHARE, CapTokensPooling, MatchedProduct
from miv.poolings.similar import ScaledProduct
from miv.training.similar_start import OF_ANSWERS, SHARPER, SHARPNESS, fit_scale_and_sharpness, fit_share, told_share
from miv.training.start import fit_start
from tests.training.tiny import tiny_sets

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


def test_scale_and_intercept_are_those_of_the_least_loss() -> None:
    train = clustered(0)
    fit = fit_scale_and_sharpness(verifier := verifier_of("cap_ma"), train, train.pool.values)
    assert fit is not None
    similarity = verifier.pooling.similarity
    assert isinstance(similarity, ScaledProduct)
    for scale, intercept in ((1.1, 0.0), (0.9, 0.0), (1.0, 0.3), (1.0, -0.3)):
        similarity.scale.data.fill_(fit.scale * scale)
        similarity.intercept.data.fill_(fit.intercept * scale + intercept)
        logit = torch.from_numpy(predict(verifier, train).logit)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logit, torch.from_numpy(train.label).float())
        assert float(loss) > fit.loss - 2e-3  # a weak penalty on the scale keeps it finite


def test_features_that_tell_nothing_get_a_positive_scale() -> None:
    random = np.random.default_rng(0)
    given = clustered(0)
    useless = random.normal(size=(400, CHANNELS)).astype(np.float32)
    against = ExemplarSet(given.pool, given.query, given.bag_ptr, given.bag_index, 1 - given.label)  # near is no
    for exemplars, features in ((given, useless), (against, given.pool.values)):
        verifier = verifier_of("nearest")
        fit = fit_scale_and_sharpness(verifier, exemplars, features)
        assert fit is not None
        assert fit.scale > 0
        assert fit.loss < 1.0


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


def test_the_start_of_the_paper_is_left_alone() -> None:
    train = clustered(0, exemplars=40)
    verifier = Verifier("cap_dba_l2", channels=CHANNELS, start="paper")
    assert fit_scale_and_sharpness(verifier, train, train.pool.values) is None


def test_a_verifier_that_has_learned_keeps_what_it_learned() -> None:
    """Sharpness of its own for each head, weights of the similarity, a centre: no candidate of the grid has those."""
    train = clustered(0)
    torch.manual_seed(0)
    verifier = Verifier("cap_dba_l2", channels=CHANNELS, pooling_options={"heads": 2})
    fit_scale_and_sharpness(verifier, train, train.pool.values)
    pooling = verifier.pooling
    assert isinstance(pooling, CrossAttentionPooling)
    assert pooling.sharpness is not None
    with torch.no_grad():
        pooling.sharpness.copy_(torch.tensor([5.0, 6.0]))
        pooling.similarity.weight[:16] = 0  # only the second head counts, and so it does in the fit
    logits = torch.from_numpy(predict(verifier, train).logit)
    fit = fit_scale_and_sharpness(verifier, train, train.pool.values)
    assert fit is not None
    again = torch.from_numpy(predict(verifier, train).logit)
    labels = torch.from_numpy(train.label).float()
    loss = torch.nn.functional.binary_cross_entropy_with_logits
    assert float(loss(again, labels)) <= float(loss(logits, labels)) + 2e-3
    assert fit.loss == pytest.approx(float(loss(again, labels)), abs=1e-4)


def bags_with(witnesses: int, others: int, seed: int) -> ExemplarSet:
    """Positive bags hold so many of the query's class, among targets of other classes."""
    given = clustered(seed, noise=1.0, offset=0.0)
    random, classes = np.random.default_rng(seed), np.arange(400) % 20
    queries, bags, labels = [], [], []
    for number in range(600):
        query = int(random.integers(400))
        own = random.permutation(np.flatnonzero((classes == classes[query]) & (np.arange(400) != query)))[:witnesses]
        strangers = random.permutation(np.flatnonzero(classes != classes[query]))
        bags.append(np.concatenate([own, strangers[:others]]) if number % 2 else strangers[: others + witnesses])
        queries.append(query)
        labels.append(number % 2)
    return ExemplarSet.from_lists(given.pool, queries, bags, labels)


def test_soft_attention_that_only_suits_train_is_not_taken() -> None:
    """Nearly all of a train bag is of the query's class, one of sixteen in validation."""
    train, validation = bags_with(6, 1, seed=0), bags_with(1, 15, seed=1)
    alone, checked = verifier_of("cap_dba_l2"), verifier_of("cap_dba_l2")
    by_train = fit_scale_and_sharpness(alone, train, train.pool.values)
    by_both = fit_scale_and_sharpness(
        checked, train, train.pool.values, validation=validation, validation_features=validation.pool.values
    )
    assert by_train is not None
    assert by_both is not None
    assert by_train.sharpness is not None
    assert by_both.sharpness is not None
    assert float(by_train.sharpness) < float(by_both.sharpness)
    assert measured(checked, validation) > measured(alone, validation) + 0.02


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


# After a map was learned on the train bags, only scale and intercept are fitted to them again.


def test_centre_and_sharpness_stay_as_they_are() -> None:
    train = tiny_sets("features")["train"]
    verifier = Verifier("cap_dba_l2", channels=8, pooling_options={"heads": 1}, start="similar")
    pooling = verifier.pooling
    assert isinstance(pooling.sharpness, nn.Parameter)
    assert isinstance(pooling.similarity, ScaledProduct)
    pooling.sharpness.data.fill_(3.0)  # none of those that are tried
    pooling.norm.get_buffer("centre").fill_(0.05)
    before = float(pooling.similarity.scale)
    fitted = fit_scale_and_sharpness(verifier, train, train.pool.values, only_scale=True)
    assert pooling.sharpness.tolist() == [3.0]
    assert torch.equal(pooling.norm.get_buffer("centre"), torch.full((8,), 0.05))
    assert fitted is not None
    assert float(pooling.similarity.scale) == torch.tensor(fitted.scale).item() != before


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
