"""A promise about new classes: which clusters count, how few can carry a rate, and what is said about it."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr

from miv.errors import MIVError
from miv.evaluation import Predictions, calibrate, evaluate
from miv.evaluation.clusters import ErrorEvidence, rate_interval
from miv.evaluation.goals import ErrorCurve, parse_goal
from miv.verifier.decisions import OperatingPoint

SIGNERS, SIZE = 19, 18


def of_signers(random: np.random.Generator, correlation: float, signers: int = SIGNERS) -> NDArray[np.float64]:
    shared = math.sqrt(correlation) * np.repeat(random.normal(size=signers), SIZE)
    return shared + math.sqrt(1 - correlation) * random.normal(size=signers * SIZE)


@pytest.mark.parametrize(("correlation", "as_queries"), [(0.36, 0.08), (0.7, 0.2)])
def test_a_rate_holds_for_new_signers_and_is_not_refused(correlation: float, as_queries: float) -> None:
    """With 19 signers; counted by queries, the same threshold would be broken far more often."""
    random, goal, trials = np.random.default_rng(0), parse_goal("far=0.05"), 200
    positives = np.arange(-1, 9, 0.05)
    label = np.repeat([0, 1], [SIGNERS * SIZE, len(positives)]).astype(np.int8)
    own = 10_000 + np.arange(len(positives))
    signer = np.append(np.repeat(np.arange(SIGNERS), SIZE), own)
    query = np.append(np.arange(SIGNERS * SIZE) // 2, own)
    broken = {"signer": 0, "query": 0}
    for _ in range(trials):
        score = np.append(of_signers(random, correlation), positives)
        for name, cluster in (("signer", signer), ("query", query)):
            curve = ErrorCurve.of(score, label, cluster)
            broken[name] += ndtr(-float(curve.cuts[goal.cuts(curve)[1]])) > 0.05
    assert broken["signer"] / trials <= 0.05
    assert broken["query"] / trials > as_queries


@pytest.mark.parametrize("signers", [10, SIGNERS])
def test_a_rate_holds_if_one_class_in_ten_is_far_worse(signers: int) -> None:
    """Often no such class is in the data; the model alone would be broken in a third of the sets."""
    random, goal, trials, broken = np.random.default_rng(0), parse_goal("far=0.05"), 200, 0
    positives = np.arange(-1, 9, 0.05)
    label = np.repeat([0, 1], [signers * SIZE, len(positives)]).astype(np.int8)
    cluster = np.append(np.repeat(np.arange(signers), SIZE), 10_000 + np.arange(len(positives)))
    for _ in range(trials):
        worse = np.repeat(np.where(random.random(signers) < 0.1, 2.0, 0.0), SIZE)
        curve = ErrorCurve.of(np.append(worse + random.normal(size=len(worse)), positives), label, cluster)
        cut = float(curve.cuts[goal.cuts(curve)[1]])
        broken += 0.9 * ndtr(-cut) + 0.1 * ndtr(2 - cut) > 0.05
    assert broken / trials <= 0.08  # 0.05, and twice its standard error


def answers(signers: int = SIGNERS, apart: float = 6.0, classes: bool = True) -> Predictions:
    """Each signer has 18 negatives and 18 positives, two of each per query."""
    random = np.random.default_rng(3)
    negative, positive = of_signers(random, 0.5, signers), of_signers(random, 0.5, signers) + apart
    signer = np.tile(np.repeat(np.arange(signers), SIZE), 2)
    label = np.repeat([0, 1], signers * SIZE)
    query = np.tile(np.arange(signers * SIZE) // 2, 2)
    logit = np.concatenate([negative, positive]) - apart / 2
    names = np.char.add("signer ", signer.astype(str)) if classes else None
    return Predictions(logit, label, np.arange(len(label) + 1), query=query, query_class=names)


def test_the_class_of_the_query_is_the_cluster_where_known() -> None:
    by_class = calibrate(answers(), "far=0.05")
    by_query = calibrate(answers(classes=False), "far=0.05")
    counts = {"count": 19, "negatives": 19, "positives": 19}
    assert by_class.point.measured["clusters"] == {"by": "class", **counts}
    assert by_query.point.measured["clusters"]["by"] == "query"
    assert by_query.point.measured["clusters"]["count"] == by_query.point.measured["queries"] == 171
    assert by_class.point.threshold > by_query.point.threshold
    asked = calibrate(answers(), "far=0.05", cluster_by="query")
    assert asked.point.threshold == by_query.point.threshold
    text = by_class.text()
    assert "clusters   19 classes, 19 with negatives and 19 with positives; rates are promised for new classes" in text
    assert "rests on negatives of 19 classes. Fewer than 59 cannot show it whatever the difference" in text
    assert by_class.point.measured["false_accept_rate"]["at_most"] <= 0.05


def test_ids_of_queries_come_before_the_queries() -> None:
    given = answers(classes=False)
    signer = np.tile(np.repeat(np.arange(SIGNERS), SIZE), 2).astype(str)
    known = Predictions(given.logit, given.label, given.ptr, query=given.query, query_id=signer)
    found = calibrate(known)
    assert found.point.measured["clusters"]["by"] == "query_id"
    assert "clusters   19 query ids" in found.text()
    alone = Predictions(given.logit, given.label, given.ptr, query=given.query, query_class=["ann"] * len(given))
    assert calibrate(alone).point.measured["clusters"]["by"] == "query"


def test_too_few_classes_are_refused_with_the_number_that_would_do() -> None:
    with pytest.raises(
        MIVError,
        match=r"rate <= 0.05 cannot be promised for new classes with 144 negatives of 8 classes.*Expected negatives of "
        r"at least 10 classes.*or a rate of 0.063 or more",
    ):
        calibrate(answers(signers=8), "far=0.05")
    with pytest.raises(MIVError, match=r"of at least 3 classes. Use more data for validation .*0.34\)\.$"):
        calibrate(answers(signers=2), "far=0.3")
    assert calibrate(answers(signers=8), "far=0.063").point.goal == "false-accept rate <= 0.063"
    assert calibrate(answers(signers=10), "far=0.05").point.measured["clusters"]["count"] == 10
    whole, query = answers(classes=False), np.tile(np.repeat(np.arange(19), 9), 2)
    by_signer = Predictions(whole.logit[1::2], whole.label[1::2], np.arange(343), query=query)
    with pytest.raises(MIVError, match=r"171 negatives of 19 queries.*Expected at least 299 negatives of 50 queries"):
        calibrate(by_signer, "far=0.01")


def test_enough_classes_carry_a_rate_whatever_their_difference() -> None:
    """Sixty classes with one logit each, ten times over: as good as sixty exemplars, of which none may be wrong."""
    negative = np.repeat(np.linspace(-1, 0, 60) ** 3, 10)
    label = np.repeat([0, 1], [600, 20]).astype(np.int8)
    cluster = np.append(np.repeat(np.arange(60), 10), 60 + np.arange(20))
    curve = ErrorCurve.of(np.append(negative, np.linspace(0.1, 1, 20)), label, cluster)
    goal = parse_goal("far=0.05")
    assert curve.false_accepts[goal.cuts(curve)[1]] == 0
    assert goal.notes(curve) == []


def test_the_limit_of_the_model_by_its_known_distribution() -> None:
    """With many clusters, the limit is the quantile itself; with few, well above it."""
    random = np.random.default_rng(0)
    limits = []
    for clusters in (3000, 10):
        score = of_signers(random, 0.5, clusters)
        limits.append(ErrorEvidence.of(score, np.repeat(np.arange(clusters), SIZE)).limit(0.05))
    assert limits[0] == pytest.approx(1.645, abs=0.1)
    assert limits[1] > 2
    assert ErrorEvidence.of(np.arange(5.0), np.arange(5)).model is None


@pytest.mark.parametrize(
    ("goal", "side", "does"),
    [("far=0.15", 1, "accepts any of the 72 positives"), ("frr=0.15", -1, "rejects any of the 72 negatives")],
)
def test_classes_that_differ_too_much_are_the_reason_of_an_error(goal: str, side: int, does: str) -> None:
    """The verifier tells all exemplars apart, but from four means that differ so much, new ones may be anywhere."""
    within = np.tile(np.linspace(-0.1, 0.1, SIZE), 4)
    logit = np.append(np.repeat([-6.0, -5.0, -1.0, 0.0], SIZE) + within, 1 + within)
    label = np.repeat([0, 1], 4 * SIZE)
    signer = np.tile(np.repeat(["a", "b", "c", "d"], SIZE), 2)
    given = Predictions(side * logit, label if side == 1 else 1 - label, np.arange(len(label) + 1), query_class=signer)
    assert calibrate(given).point.measured["eer"]["value"] == 0
    reason = "the 4 classes of the data differ too much for so few of them"
    with pytest.raises(MIVError, match=f"for new classes {does}: {reason}"):
        calibrate(given, goal, "none")


@pytest.mark.parametrize(("by", "message"), [("group", "do not have the groups"), ("clas", "Did you mean 'class'")])
def test_clusters_that_are_not_known_are_refused(by: str, message: str) -> None:
    with pytest.raises(MIVError, match=message):
        calibrate(answers(), cluster_by=by)  # type: ignore[arg-type]


def test_a_goal_that_is_missed_is_flagged_with_its_interval() -> None:
    given = answers(apart=2.0)
    two = "false-accept rate <= 0.05, false-reject rate <= 0.9"
    found = evaluate(given, point=OperatingPoint(threshold=0.5, goal=two))
    far, frr = found.document()["operating_point"]["goals"]
    assert (far["missed"], frr["missed"]) == (True, False)
    assert far["low"] < far["measured"] < far["high"]
    low, high = rate_interval(given.logit[given.label == 0] >= 0, np.arange(SIGNERS * SIZE))
    assert far["high"] - far["low"] > 1.5 * (high - low)  # dependent exemplars say less
    assert "Warning: goal far <= 0.05 missed: " in found.text()
    assert "95% interval by 19 classes; this may be chance" in found.text()
    clearly = evaluate(given, point=OperatingPoint(threshold=0.2, goal=two))
    assert "this may be chance" not in clearly.text()
    assert "Warning: goal far <= 0.05 missed: " in clearly.text()
    assert "goals" not in evaluate(given, point=OperatingPoint(threshold=0.4)).document()["operating_point"]


@pytest.mark.parametrize("number", ["1e", ".", "-", "0.05.1", "1e-"])
def test_a_goal_without_a_number_is_no_promise(number: str) -> None:
    """The goal is a text in a file, which anyone may edit."""
    point = OperatingPoint(threshold=0.5, goal=f"false-accept rate <= {number}, false-reject rate <= 5e-02")
    goals = evaluate(answers(), point=point).document()["operating_point"]["goals"]
    assert [(goal["rate"], goal["goal"]) for goal in goals] == [("frr", 0.05)]


def test_an_interval_covers_the_rate_of_new_clusters() -> None:
    random, inside = np.random.default_rng(0), 0
    for _ in range(200):
        low, high = rate_interval(of_signers(random, 0.36) > 1, np.repeat(np.arange(SIGNERS), SIZE))
        inside += low <= ndtr(-1) <= high
    assert inside / 200 >= 0.92
