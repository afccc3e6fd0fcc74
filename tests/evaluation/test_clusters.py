"""Exemplars of one query: what they count as, and that nothing tears them apart."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from miv.errors import MIVError
from miv.evaluation import Predictions, calibrate
from miv.evaluation.calibration_fits import fit_witness_rule
from miv.evaluation.clusters import ErrorEvidence, clusters_of, folds_of, upper_bound


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(2, 60), st.integers(1, 12))
def test_the_design_effect_by_a_loop(seed: int, exemplars: int, clusters: int) -> None:
    random = np.random.default_rng(seed)
    score, cluster = random.normal(size=exemplars), random.integers(0, clusters, exemplars)
    evidence = ErrorEvidence.of(score, cluster)
    groups = np.unique(cluster)
    sizes = np.array([(cluster == group).sum() for group in groups])
    assert evidence.clusters == len(groups)
    for errors in range(1, exemplars):
        wrong = score >= np.sort(score)[-errors]
        share = errors / exemplars
        scatter = sum((wrong[cluster == g].sum() - share * size) ** 2 for g, size in zip(groups, sizes, strict=True))
        effect = scatter / (exemplars * share * (1 - share)) * len(groups) / max(len(groups) - 1, 1)
        effect *= (exemplars - 1) / exemplars
        expected = min(max(effect, 1), (sizes**2).sum() / exemplars)
        assert evidence.effect[errors] == pytest.approx(expected)
    bounds = evidence.upper_bound(np.arange(exemplars + 1))
    assert (np.diff(bounds) > -1e-9).all()


@given(st.integers(1, 200), st.integers(0, 2**32 - 1))
def test_exemplars_of_their_own_count_in_full(exemplars: int, seed: int) -> None:
    evidence = ErrorEvidence.of(np.random.default_rng(seed).normal(size=exemplars), np.arange(exemplars))
    errors = np.arange(exemplars + 1)
    assert evidence.effective(errors) == pytest.approx(np.full(exemplars + 1, exemplars))
    assert evidence.upper_bound(errors) == pytest.approx(upper_bound(errors, exemplars))


@given(st.integers(0, 2**32 - 1), st.integers(2, 40), st.integers(2, 5))
def test_no_query_is_in_two_folds(seed: int, clusters: int, folds: int) -> None:
    random = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(clusters), random.integers(2, 5, clusters))
    label = (np.concatenate([[True], cluster[1:] != cluster[:-1]])).astype(np.int8)  # one positive a query
    fold = folds_of(label, cluster, folds)
    assert all(len(np.unique(fold[cluster == one])) == 1 for one in range(clusters))
    for number in range(min(folds, clusters)):
        assert 0 < label[fold != number].sum() < (fold != number).sum()


def test_two_queries_of_each_class_are_the_least() -> None:
    label = np.array([1, 1, 0, 0], np.int8)
    with pytest.raises(MIVError, match=r"come from 1 queries.*each of two queries"):
        folds_of(label, np.array([0, 0, 1, 2]), 5)


def answers(queries: bool) -> Predictions:
    """Two hundred queries of two bags each, a positive one and a negative one, with one witness in the positive."""
    random = np.random.default_rng(1)
    shared = np.repeat(random.normal(size=200), 2)
    label = np.arange(400) % 2
    ptr = np.arange(0, 1201, 3)
    attention = np.tile([0.6, 0.3, 0.1], 400)
    witness = (np.tile([True, False, False], 400)) & np.repeat(label == 1, 3)
    query = np.repeat(np.arange(200) * 7, 2)
    logit = 3 * label - 1.5 + shared + random.normal(size=400)
    return Predictions(logit, label, ptr, attention, witness, query=query if queries else None)


def test_what_is_measured_says_on_how_many_queries() -> None:
    known, unknown = calibrate(answers(True)), calibrate(answers(False))
    assert (known.point.measured["queries"], unknown.point.measured["queries"]) == (200, None)
    assert "clusters   200 queries" in known.text()
    assert "all exemplars count as independent" in unknown.text()
    assert clusters_of(answers(True)).tolist() == np.repeat(np.arange(200), 2).tolist()


def test_the_interval_of_a_rate_is_as_wide_as_the_queries_make_it() -> None:
    """Forty copies of ten exemplars: the rates of forty times ten are no surer than those of ten."""
    logit, label = np.array([-3.0, -2, -1, 0.5, 2, -2, -0.5, 1, 2, 3]), np.repeat([0, 1], 5)
    few = Predictions(logit, label, np.arange(11))
    copies = Predictions(np.tile(logit, 40), np.tile(label, 40), np.arange(401), query=np.tile(np.arange(10), 40))
    widths = []
    for given_answers in (few, copies):
        rate = calibrate(given_answers, scaling="none").point.measured["false_accept_rate"]
        widths.append(rate["high"] - rate["low"])
        assert rate["effective_exemplars"] <= 5.001
    assert widths[1] >= widths[0]


def test_witnesses_of_one_query_are_missed_together() -> None:
    """Twenty queries with five bags of one witness each: 0.1 · 100 - 0.9 · 5, so 5 may be missed, and not 9."""
    scores, logit = np.linspace(0.1, 0.9, 100), np.full(100, 50.0)
    attention = np.stack([scores, 1 - scores], 1).ravel()
    given_answers = [
        Predictions(logit, np.ones(100), np.arange(0, 201, 2), attention, np.tile([True, False], 100), query=query)
        for query in (None, np.repeat(np.arange(20), 5))
    ]
    thresholds = [fit_witness_rule(one, one.probability, 0.1).threshold for one in given_answers]
    assert thresholds == pytest.approx([2 * scores[9], 2 * scores[5]])
