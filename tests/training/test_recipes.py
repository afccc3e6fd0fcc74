"""One contract for every recipe, and the fits behind them beside independent naive computations."""

import math
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from scipy.linalg import fractional_matrix_power
from sklearn.linear_model import LogisticRegression

from miv import ExemplarSet, InstancePool, Verifier
from miv.evaluation import auroc
from miv.evaluation.predicting import predict
from miv.poolings.cap_tokens import CapTokensPooling
from miv.training.config import TrainingConfig
from miv.training.fits import BagData, Moments, contrast_maps, label_maps, logistic, solve
from miv.training.fitting import recipes_for, token_matches
from miv.training.recipes import RECIPES, Form, set_form

CHANNELS, CLASSES = 6, 4
Values = NDArray[np.float64]


def bags_of_classes(seed: int, count: int = 60) -> tuple[ExemplarSet, Values, NDArray[np.int64]]:
    """A query and three targets per exemplar, all distinct: the set, values to change ``(E, 4, C)``, and classes."""
    random = np.random.default_rng(seed)
    label = (np.arange(count) % 2).astype(np.int8)
    kinds = random.integers(CLASSES, size=(count, 4))
    kinds[:, 1:] = (kinds[:, :1] + random.integers(1, CLASSES, size=(count, 3))) % CLASSES  # another class
    kinds[label == 1, 1] = kinds[label == 1, 0]
    values = random.normal(size=(count, 4, CHANNELS))
    rows = np.arange(4 * count).reshape(count, 4)
    pool = InstancePool("features", values.reshape(-1, CHANNELS).astype(np.float32))
    return ExemplarSet.from_lists(pool, rows[:, 0], list(rows[:, 1:]), label), values, kinds


def exemplars_of(seed: int = 0, count: int = 60, spread: float = 1.5) -> ExemplarSet:
    exemplars, values, kinds = bags_of_classes(seed, count)
    return filled(exemplars, values + spread * np.eye(CHANNELS)[kinds])


def filled(exemplars: ExemplarSet, values: Values) -> ExemplarSet:
    pool = InstancePool("features", values.reshape(-1, values.shape[-1]).astype(np.float32))
    return replace(exemplars, pool=pool)


def data_of(exemplars: ExemplarSet, *, with_match: bool = True) -> BagData:
    data = BagData.of(exemplars, exemplars.pool.values)
    match = np.random.default_rng(5).random(len(data.target)) + (data.label[data.owner] == 1)
    return replace(data, match=match) if with_match else data


def forms_of(name: str, data: BagData, base: Form | None = None) -> dict[str, Form]:
    return RECIPES[name].make().fit(data, base or Form(scale=5.0, intercept=-2.0), 0)


def numbers(form: Any) -> list[float]:
    """All numbers of a form, one after the other."""
    parts = [getattr(form, field.name) for field in fields(form)]
    return [
        float(number)
        for part in parts
        if part is not None
        for number in (numbers(part) if is_dataclass(part) else np.ravel(part))
    ]


# The contract.


@pytest.mark.parametrize("name", RECIPES.names())
def test_a_recipe_is_deterministic_and_leaves_the_data_alone(name: str) -> None:
    data, again = data_of(exemplars_of()), data_of(exemplars_of())
    first, second = forms_of(name, data), forms_of(name, again)
    assert list(first) == list(second)
    assert first
    for variant in first:
        assert numbers(first[variant]) == numbers(second[variant]), variant
    np.testing.assert_array_equal(data.units, again.units)
    assert RECIPES[name].summary


@pytest.mark.parametrize("degenerate", ["zeros", "some zeros", "constant", "nearly constant", "one label", "one bag"])
@pytest.mark.parametrize("name", RECIPES.names())
def test_a_recipe_never_gives_nan(name: str, degenerate: str) -> None:
    exemplars = exemplars_of()
    values = exemplars.pool.values.copy()
    if "zeros" in degenerate:
        values[:: 3 if degenerate == "some zeros" else 1] = 0
    elif "constant" in degenerate:
        noise = 1e-6 * np.random.default_rng(0).normal(size=values.shape)
        values[:] = values[0] * (1 + noise * (degenerate == "nearly constant"))
    elif degenerate == "one label":
        exemplars = exemplars.subset(exemplars.label == 1)
    else:
        exemplars = exemplars.subset([1])
    exemplars = replace(exemplars, pool=InstancePool("features", values))
    data = data_of(exemplars)
    for variant, form in forms_of(name, data).items():
        assert np.isfinite(numbers(form)).all(), variant
        logit, similarity = form.logits(data)
        assert np.isfinite(logit).all(), variant
        assert np.isfinite(similarity).all(), variant


@pytest.mark.parametrize("name", RECIPES.names())
def test_the_references_of_a_query_count_as_often_as_its_weight_says(name: str) -> None:
    """Each query given twice is the set itself."""
    exemplars = exemplars_of()
    twice = replace(
        exemplars, reference_ptr=2 * np.arange(len(exemplars) + 1), reference_index=np.repeat(exemplars.query, 2)
    )
    expected = forms_of(name, data_of(exemplars, with_match=name == "tokens"))
    of_twice = data_of(twice, with_match=False)
    if name == "tokens":
        match = data_of(exemplars).match.reshape(-1, 3).repeat(2, axis=0).ravel()
        of_twice = replace(of_twice, match=match)
    for variant, form in forms_of(name, of_twice).items():
        np.testing.assert_allclose(numbers(form), numbers(expected[variant]), rtol=1e-2, atol=1e-2, err_msg=variant)


BASES: dict[str, Form] = {
    "plain": Form(scale=6.0, intercept=-2.0),
    "mapped": Form(
        centre=np.full(CHANNELS, 0.1, np.float32),
        map=(np.eye(CHANNELS) + 0.2 * np.random.default_rng(1).normal(size=(CHANNELS, CHANNELS))).astype(np.float32),
        sharpness=4.0,
        scale=3.0,
        intercept=1.0,
    ),
}
CAP = {"heads": 1, "norm": "none"}
POOLINGS: dict[str, dict[str, Any]] = {"cap_dba_l2": CAP, "cap_vema": CAP, "cap_ma": CAP, "baseline": {}, "nearest": {}}
SETTINGS = {pooling: TrainingConfig(pooling, options, start="similar") for pooling, options in POOLINGS.items()}


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize(
    ("pooling", "name"), [(pooling, name) for pooling in POOLINGS for name in recipes_for(SETTINGS[pooling])]
)
def test_a_form_set_in_a_pooling_gives_its_own_logits(pooling: str, name: str, base: str) -> None:
    exemplars = exemplars_of()
    data = data_of(exemplars, with_match=False)
    for variant, form in forms_of(name, data, BASES[base]).items():
        verifier = Verifier(pooling, channels=CHANNELS, pooling_options=POOLINGS[pooling]).eval()
        # Attention cannot take the nearest target alone, so it is very sharp; the others take no other.
        wanted = replace(form, sharpness=form.sharpness or 1024.0 if POOLINGS[pooling] else None)
        set_form(verifier.pooling, wanted)
        tolerance = 2e-2 if wanted.sharpness == 1024 else 1e-3
        found = predict(verifier, exemplars).logit
        np.testing.assert_allclose(found, wanted.logits(data)[0], atol=tolerance, err_msg=variant)


def test_tokens_set_in_their_pooling_give_the_logits_of_the_form() -> None:
    """Vectors of six channels with a mean of 0, two tokens of four, and bags of one."""
    random = np.random.default_rng(0)
    exemplars = exemplars_of(count=20)
    vectors = exemplars.pool.values - exemplars.pool.values.mean(axis=1, keepdims=True)
    values = np.concatenate([vectors, random.normal(size=(80, 8)).astype(np.float32)], axis=1)
    bags = [exemplars.bag(number)[:1] for number in range(20)]
    exemplars = ExemplarSet.from_lists(InstancePool("features", values), exemplars.query, bags, exemplars.label)
    verifier = Verifier("cap_tokens", channels=14, pooling_options={"vector": 6, "width": 4, "heads": 1}).eval()
    assert isinstance(verifier.pooling, CapTokensPooling)
    data = BagData.of(exemplars, values, CHANNELS)
    match = token_matches(verifier.pooling, exemplars, values)
    naive = []
    for number, query in enumerate(exemplars.query):
        asked = values[query, 6:].reshape(2, 4)
        for target in exemplars.bag(number):
            told = values[target, 6:].reshape(2, 4)
            best = [max(0, *(cosine(one, other) for other in told)) for one in asked]
            naive.append(np.average(best, weights=np.linalg.norm(asked, axis=1)))
    tokens = verifier.pooling.tokens
    scale, intercept = float(tokens.scale.detach()), float(tokens.intercept.detach())
    np.testing.assert_allclose(match, scale * np.array(naive) + intercept, atol=1e-4)
    data = replace(data, match=match)
    for variant, form in forms_of("tokens", data, BASES["plain"]).items():
        set_form(verifier.pooling, form)
        np.testing.assert_allclose(predict(verifier, exemplars).logit, form.logits(data)[0], atol=1e-3, err_msg=variant)


def cosine(one: NDArray[Any], other: NDArray[Any]) -> float:
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


@pytest.mark.parametrize("sharpness", [None, 3.0])
def test_logits_are_those_of_a_naive_loop(sharpness: float | None) -> None:
    exemplars, random = exemplars_of(count=8), np.random.default_rng(2)
    data = data_of(exemplars)
    form = replace(BASES["mapped"], share=0.5, sharpness=sharpness, query=random.normal(size=CHANNELS))
    assert form.query is not None
    assert form.centre is not None
    assert form.map is not None
    found, each = form.logits(data)
    for number in range(len(exemplars)):
        rows = [exemplars.query[number], *exemplars.bag(number)]
        moved = [form.map @ (v / np.linalg.norm(v) - form.centre) for v in exemplars.pool.values[rows]]
        query, *targets = [vector / np.linalg.norm(vector) for vector in moved]
        cosines, matches = [float(query @ t) for t in targets], data.match[3 * number : 3 * number + 3]
        scores = [c + 0.5 * m for c, m in zip(cosines, matches, strict=True)]
        assert each[3 * number : 3 * number + 3] == pytest.approx(scores, abs=1e-5)
        share = [math.exp(sharpness * c) if sharpness else float(c == max(scores)) for c in scores]
        wanted = 3 * sum(a * c for a, c in zip(share, cosines, strict=True)) / sum(share) + 3 * 0.5 * max(matches) + 1
        wanted += form.query @ query
        assert found[number] == pytest.approx(wanted, abs=1e-4)


# What each recipe is for: sets on which plain cosines fail.


def made_for(name: str, seed: int) -> BagData:
    exemplars, values, kinds = bags_of_classes(seed, 300)
    places = np.eye(CHANNELS)[kinds]
    if name == "centred":  # all share a direction
        values = 0.5 * values + 2 * places + (6 + 3 * values) * [0, 0, 0, 0, 0, 1]
    elif name == "whitened":  # one direction varies the same way in every class
        values = 0.7 * values + 2 * places + 3 * values * [0, 0, 0, 0, 0, 1]
    elif name in ("contrast_map", "label_map"):  # strong noise beside the classes
        values = values * [0.3, 0.3, 0.3, 0.3, 2, 2] + 1.5 * places
    elif name == "cap":  # of label 1, all targets are a little similar; of label 0, one is more so
        positive = exemplars.label[:, None, None] == 1
        near = np.where(positive, 0.8, np.array([[0.9], [0.0], [0.0]]))
        values[:, 1:] = near * values[:, :1] + (1 - near) * values[:, 1:]
    elif name == "query":  # the query alone
        values[:, 0, 0] = np.where(exemplars.label == 1, 2, -2)
    return data_of(filled(exemplars, values), with_match=name == "tokens")


@pytest.mark.parametrize("name", RECIPES.names()[1:])
def test_a_recipe_helps_on_new_bags_where_it_should(name: str) -> None:
    train, test = made_for(name, 0), made_for(name, 1)
    plain = Form().scaled(train)
    before = auroc(test.label, plain.logits(test)[0])
    after = max(auroc(test.label, form.logits(test)[0]) for form in forms_of(name, train, plain).values())
    assert after > before + 0.02


# The fits.


@pytest.mark.parametrize("power", [0.25, 1.0])
def test_whitening_is_a_power_of_the_ridged_covariance(power: float) -> None:
    units = data_of(exemplars_of()).units
    moments = Moments.of(units)
    matrix = moments.whitening(power)
    np.testing.assert_allclose(moments.mean, units.mean(axis=0), atol=1e-6)
    covariance = np.cov(units.T.astype(float), bias=True)
    ridge = (0.1 + 0.3 * CHANNELS / len(units)) * np.trace(covariance) / CHANNELS
    expected = fractional_matrix_power(covariance + ridge * np.eye(CHANNELS), -power / 2)
    expected /= math.sqrt(np.trace(expected @ expected) / CHANNELS)  # gains of a mean square of 1
    np.testing.assert_allclose(matrix, expected, atol=1e-4)


def test_the_regressions_are_those_of_scikit_learn() -> None:
    random = np.random.default_rng(0)
    inputs, weight = random.normal(size=(200, 3)), random.uniform(0.5, 1.5, 200)
    label = (inputs[:, 0] + random.normal(size=200) > 0).astype(np.int8)
    found = solve(inputs, np.zeros(200), label, weight, pull=4.0)
    expected = LogisticRegression(C=1 / 4, tol=1e-8).fit(inputs, label, weight)
    assert found == pytest.approx([*expected.coef_[0], expected.intercept_[0]], abs=1e-3)
    score = 3 + 0.01 * inputs[:, 0]
    slope, intercept = logistic(score, label, weight)
    scaled = (score - score.mean()) / score.std()
    expected = LogisticRegression(C=1.0, tol=1e-8).fit(scaled[:, None], label, weight)
    logit = expected.decision_function(scaled[:, None])
    assert slope * score + intercept == pytest.approx(logit, abs=1e-2)
    assert logistic(-score, label, weight)[0] == 1.0  # no verifier is turned around


def test_a_map_for_labels_lowers_the_loss_the_more_the_weaker_it_is_pulled() -> None:
    data = data_of(exemplars_of(), with_match=False)

    def loss(matrix: Any) -> float:
        logit = Form(map=matrix, sharpness=16.0).scaled(data).logits(data)[0]
        return float(np.logaddexp(0, (1 - 2.0 * data.label) * logit).mean())

    losses = [loss(matrix) for matrix in label_maps(data, data.units, data.match, (100.0, 10.0, 1.0))]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] < loss(None)
    assert losses[-1] < loss(None) - 0.05


def test_a_contrast_map_is_at_the_lowest_point_of_a_naive_loop() -> None:
    """Found by small changes of each number of the map."""
    exemplars = exemplars_of(count=16)
    data, pull = data_of(exemplars, with_match=False), 10.0

    def objective(matrix: Values) -> float:
        moved = [matrix @ row / np.linalg.norm(matrix @ row) for row in exemplars.pool.values.astype(float)]
        positive = [number for number in range(16) if exemplars.label[number]]
        everything = [target for number in positive for target in exemplars.bag(number)]
        loss = pull / 2 * ((matrix - np.eye(CHANNELS)) ** 2).sum()
        for number in positive:
            near = {target: math.exp(moved[exemplars.query[number]] @ moved[target] / 0.1) for target in everything}
            loss -= math.log(sum(near[target] for target in exemplars.bag(number)) / sum(near.values()))
        return float(loss)

    def slopes(matrix: Values) -> float:
        steps = np.eye(CHANNELS**2).reshape(-1, CHANNELS, CHANNELS) * 1e-4
        return float(np.linalg.norm([objective(matrix + step) - objective(matrix - step) for step in steps]) / 2e-4)

    positives = data.subset(data.label == 1)
    (matrix,) = contrast_maps(positives, positives.units, (pull,))
    assert objective(matrix.astype(float)) < objective(np.eye(CHANNELS)) - 0.5
    assert slopes(matrix.astype(float)) < 0.1 * slopes(np.eye(CHANNELS))


def test_a_map_of_many_channels_changes_only_the_main_directions() -> None:
    exemplars, values, _ = bags_of_classes(0, 40)
    wide = filled(exemplars, values @ np.random.default_rng(0).normal(size=(CHANNELS, 140)))
    data = data_of(wide, with_match=False)
    (matrix,) = label_maps(data, data.units, data.match, (1.0,))
    assert 0 < np.linalg.matrix_rank(matrix - np.eye(140), tol=1e-4) <= 128
    outside = np.linalg.svd(data.units)[2][CHANNELS:]  # directions in which no instance lies
    np.testing.assert_allclose(outside @ matrix.T, outside, atol=1e-3)


def test_of_very_many_channels_only_the_main_directions_are_known() -> None:
    """Eight strong directions among 2,100 channels."""
    random = np.random.default_rng(0)
    units = random.normal(size=(60, 8)) @ random.normal(size=(8, 2_100)) + 0.01 * random.normal(size=(60, 2_100))
    units = (units / np.linalg.norm(units, axis=1, keepdims=True)).astype(np.float32)
    moments = Moments.of(units)
    strong = np.linalg.svd(units - units.mean(axis=0), full_matrices=False)[2][:8]
    np.testing.assert_allclose(np.linalg.norm(moments.directions[:, -8:].T @ strong.T, axis=0), 1, atol=1e-3)
    assert np.diff(moments.variance[-8:]).min() >= 0


# Bags as arrays.


def listed(data: BagData) -> list[tuple[Any, ...]]:
    """Each query with its bag, label and weight, as plain values."""
    return [
        (
            data.units[data.query[row]].tolist(),
            data.units[data.target[data.ptr[row] : data.ptr[row + 1]]].tolist(),
            data.match[data.ptr[row] : data.ptr[row + 1]].tolist(),
            *(float(part[row]) for part in (data.label, data.weight, data.group, data.exemplar)),
        )
        for row in range(len(data))
    ]


@st.composite
def any_data(draw: st.DrawFn) -> BagData:
    rows = st.integers(0, 9)
    bags = draw(st.lists(st.lists(rows, min_size=1, max_size=4), min_size=1, max_size=8))
    references = [draw(st.lists(rows, min_size=1, max_size=3)) for _ in bags]
    labels = [draw(st.integers(0, 1)) for _ in bags]
    values = np.random.default_rng(draw(st.integers(0, 99))).normal(size=(10, 3)).astype(np.float32)
    pool = InstancePool("features", values)
    exemplars = ExemplarSet.from_lists(pool, None, bags, labels, references=references)
    data = BagData.of(exemplars, values)
    return replace(data, match=np.arange(len(data.target), dtype=float))


@settings(max_examples=60, deadline=None)
@given(any_data(), st.integers(0, 1000))
def test_a_subset_is_what_a_list_keeps(data: BagData, seed: int) -> None:
    keep = np.random.default_rng(seed).random(len(data)) < 0.5
    keep[seed % len(data)] = True
    part = data.subset(keep)
    assert listed(part) == [row for row, stays in zip(listed(data), keep, strict=True) if stays]
    assert len(part.units) == len({*part.query.tolist(), *part.target.tolist()})  # none that is not used
    assert sum(data.weight) == pytest.approx(len(set(data.exemplar)))
    assert data.per_exemplar(data.label.astype(float)).tolist() == data.label[data.first].tolist()
    assert data.weight_of_exemplars == pytest.approx(np.ones(len(data.first)))


@settings(max_examples=60, deadline=None)
@given(any_data(), st.integers(1, 4))
def test_the_nearest_targets_of_each_bag_stay(data: BagData, most: int) -> None:
    similarity = np.random.default_rng(0).permutation(len(data.target)).astype(float)
    part = data.nearest(similarity, most)
    places = np.split(np.arange(len(similarity)), data.ptr[1:-1])
    chosen = [sorted(sorted(bag, key=lambda place: -similarity[place])[:most]) for bag in places]
    assert [row[1] for row in listed(part)] == [data.units[data.target[bag]].tolist() for bag in chosen]
    assert part.match.tolist() == [data.match[place] for bag in chosen for place in bag]


@settings(max_examples=60, deadline=None)
@given(any_data(), st.integers(1, 12), st.integers(1, 20), st.integers(0, 1000))
def test_a_sample_has_whole_exemplars_within_its_limits(data: BagData, most: int, targets: int, seed: int) -> None:
    part = data.sample(most, targets, np.random.default_rng(seed))
    if len(data) <= most and len(data.target) <= targets:
        assert part is data
        return
    assert len(part) <= most
    assert len(part.target) <= targets
    chosen = set(part.exemplar.tolist())
    assert listed(part) == [row for row, number in zip(listed(data), data.exemplar, strict=True) if number in chosen]
    assert listed(part) == listed(data.sample(most, targets, np.random.default_rng(seed)))
