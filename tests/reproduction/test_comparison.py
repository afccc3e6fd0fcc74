"""Standard errors, paired differences and Holm's correction, against computations written out in full."""

import itertools
import math
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import norm, t

from miv.errors import MIVError
from miv.evaluation import classification_metrics, witness_scores
from miv.evaluation.metrics import holm
from miv.evaluation.witnesses import influence
from miv.reproduction.comparison import Estimate, difference, estimate
from tests.reproduction.examples import answers_of, finish, job_of

T = TypeVar("T")
scores = st.lists(st.integers(-3, 3).map(float), min_size=4, max_size=12)


def known(value: T | None) -> T:
    assert value is not None
    return value


def kernel(positive: float, negative: float) -> float:
    return 1.0 if positive > negative else 0.5 if positive == negative else 0.0


def delong_naive(label: list[int], one: list[float], other: list[float]) -> float:
    """The variance of the difference of two AUROCs, by the definition of DeLong et al. (1988)."""
    places = {value: [i for i, given in enumerate(label) if given == value] for value in (0, 1)}
    components = []
    for score in (one, other):
        v10 = [np.mean([kernel(score[i], score[j]) for j in places[0]]) for i in places[1]]
        v01 = [np.mean([kernel(score[i], score[j]) for i in places[1]]) for j in places[0]]
        components.append((v10, v01))
    variance = 0.0
    for side in (0, 1):
        gap = np.array(components[0][side]) - np.array(components[1][side])
        variance += sum((gap - gap.mean()) ** 2) / (len(gap) - 1) / len(gap)
    return variance


@given(scores, st.randoms(use_true_random=False))
def test_the_variance_of_a_difference_of_aurocs_is_delongs(one: list[float], random: object) -> None:
    label = [place % 2 for place in range(len(one))]
    other = [float(random.randint(-3, 3)) for _ in one]  # type: ignore[attr-defined]
    gap = influence(answers_of(one, label), "auroc") - influence(answers_of(other, label), "auroc")
    assert (gap**2).sum() == pytest.approx(delong_naive(label, one, other))


@pytest.mark.parametrize("metric", ["accuracy", "precision", "recall", "f1"])
@settings(max_examples=10)  # scikit-learn takes its time
@given(scores)
def test_figures_of_the_confusion_table_have_the_error_of_the_jackknife(metric: str, logit: list[float]) -> None:
    label = [int(place % 3 == 0) for place in range(len(logit))]
    left_out = []
    for place in range(len(logit)):
        kept = [i for i in range(len(logit)) if i != place]
        found = classification_metrics([label[i] for i in kept], [logit[i] for i in kept], threshold=0.0)
        left_out.append(found[metric])
    count = len(logit)
    naive = (count - 1) / count * sum((value - np.mean(left_out)) ** 2 for value in left_out)
    assert (influence(answers_of(logit, label), metric) ** 2).sum() == pytest.approx(naive)


@pytest.mark.parametrize("metric", ["i_auroc", "i_ap"])
def test_witness_metrics_have_the_error_of_a_mean_over_positives(metric: str) -> None:
    answers = answers_of([0.0] * 6, [1, 1, 1, 1, 0, 0], found=[True, True, True, False, True, False])
    assert answers.attention is not None
    assert answers.witness is not None
    values = getattr(witness_scores(answers.ptr, answers.witness, answers.attention), metric)[:4]
    expected = np.std(values, ddof=1) / math.sqrt(4)
    assert math.sqrt((influence(answers, metric) ** 2).sum()) == pytest.approx(expected)


def test_a_paired_difference_by_eye(tmp_path: Path) -> None:
    """Of eight exemplars one model gets all right and the other six: a gap of 0.25."""
    label = [1, 1, 1, 1, 0, 0, 0, 0]
    right = [1.0 if one else -1.0 for one in label]
    wrong = [-1.0, 1.0, 1.0, 1.0, 1.0, -1.0, -1.0, -1.0]
    better = finish(job_of("cap_vema"), answers_of(right, label), tmp_path)
    worse = finish(job_of("baseline"), answers_of(wrong, label), tmp_path)
    gap = known(difference([better], [worse], "accuracy"))
    assert (gap.value, gap.rounds, gap.over_rounds) == (0.25, 1, None)
    # The differences of the exemplars are 1 1 0 0 0 0 0 0: deviation 0.463, over the root of eight.
    assert gap.standard_error == pytest.approx(np.std([1, 1, 0, 0, 0, 0, 0, 0], ddof=1) / math.sqrt(8))
    assert gap.p == pytest.approx(2 * norm.sf(0.25 / known(gap.over_exemplars)))
    assert difference([better], [worse], "i_auroc") is None  # no attention


def test_rounds_are_paired_and_give_the_error(tmp_path: Path) -> None:
    label = [1, 1, 0, 0]
    logits = {0: [1.0, 1.0, -1.0, -1.0], 1: [1.0, -1.0, -1.0, -1.0], 2: [1.0, 1.0, -1.0, 1.0]}
    ours = [finish(job_of("cap_vema", n), answers_of(logit, label), tmp_path) for n, logit in logits.items()]
    one = known(estimate(ours, "accuracy"))
    assert one.value == pytest.approx((1 + 0.75 + 0.75) / 3)
    assert one.over_rounds == pytest.approx(np.std([1, 0.75, 0.75], ddof=1) / math.sqrt(3))
    base = [finish(job_of("baseline", 1), answers_of([-1.0] * 4, label), tmp_path)]
    gap = known(difference(ours, base, "accuracy"))  # one round in common
    assert (gap.value, gap.rounds) == (0.25, 1)
    assert difference(ours, [], "accuracy") is None


def test_a_p_value_by_eye() -> None:
    """0.0145 with an error of 0.0033 over three rounds: 4.39 errors, which Student's law with 2 degrees forgives."""
    few_rounds = Estimate(0.0145, 3, 0.0030, 0.0033)
    assert few_rounds.p == pytest.approx(0.048, abs=0.001)
    assert few_rounds.p_above(0.0) == few_rounds.p / 2
    assert few_rounds.p_below(0.0) > 0.5
    assert few_rounds.p_below(0.02) == pytest.approx(t.sf(0.0055 / 0.0033, 2))
    few_exemplars = Estimate(0.0145, 3, 0.0145, 0.0001)
    assert few_exemplars.p == pytest.approx(0.317, abs=0.001)  # one error of the normal law
    assert math.isnan(Estimate(0.1, 1, math.nan, None).p)
    certain = Estimate(0.1, 2, 0.0, 0.0)
    assert (certain.p, certain.p_above(0.05), certain.p_above(0.1), certain.p_above(0.2)) == (0.0, 0.0, 0.5, 1.0)


def test_the_same_exemplars_in_all_rounds_are_not_more_exemplars(tmp_path: Path) -> None:
    answers = answers_of([1.0, -1.0, -1.0, 1.0, 1.0], [1, 1, 0, 0, 1])
    apart = [finish(job_of("pma", n), answers, tmp_path) for n in range(3)]
    shared = [finish(job_of("msa", n), answers, tmp_path, test="the one test file") for n in range(3)]
    one, independent, dependent = (
        known(known(estimate(some, "accuracy")).over_exemplars) for some in (apart[:1], apart, shared)
    )
    assert independent == pytest.approx(one / math.sqrt(3))
    assert dependent == pytest.approx(one)


def test_models_that_were_tested_on_other_exemplars_are_not_paired(tmp_path: Path) -> None:
    answers = answers_of([1.0, -1.0], [1, 0])
    one = finish(job_of("pma"), answers, tmp_path, test="a")
    other = finish(job_of("msa"), answers, tmp_path, test="b")
    with pytest.raises(MIVError, match="tested on different exemplars"):
        difference([one], [other], "auroc")


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_holm_is_the_closed_test_of_bonferroni(p_values: list[float]) -> None:
    """By the closure principle: the largest p of all sets of hypotheses that contain it, each by Bonferroni."""
    places = range(len(p_values))
    for place, corrected in enumerate(holm(p_values)):
        sets = [some for size in places for some in itertools.combinations(places, size + 1) if place in some]
        closed = max(min(1.0, len(some) * min(p_values[one] for one in some)) for some in sets)
        assert corrected == pytest.approx(closed)
    undefined = holm([*p_values, math.nan])
    assert undefined[:-1] == holm(p_values)
    assert math.isnan(undefined[-1])


def test_without_the_predictions_of_both_a_difference_has_no_error_over_exemplars(tmp_path: Path) -> None:
    """They were computed on machines that share no work folder."""
    label = [1, 1, 0, 0]
    logits = ([1.0, 1.0, -1.0, -1.0], [1.0, -1.0, -1.0, -1.0])
    ours = [finish(job_of("cap_vema", n), answers_of(logit, label), tmp_path / "a") for n, logit in enumerate(logits)]
    theirs = [finish(job_of("baseline", n), answers_of([-1.0] * 4, label), tmp_path / "b") for n in range(2)]
    gap = known(difference(ours, theirs, "accuracy"))
    assert (gap.value, gap.over_exemplars) == (0.375, None)
    assert gap.p == pytest.approx(2 * t.sf(0.375 / gap.standard_error, 1))
    assert math.isnan(known(difference(ours[:1], theirs, "accuracy")).p)
