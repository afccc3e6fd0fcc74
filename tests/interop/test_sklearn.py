"""``MIVClassifier`` in the tools of scikit-learn, and the checks of its estimators that apply."""

import pickle
from typing import Any, Self

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks

from miv import MIVClassifier, MIVError, Verifier
from miv.backbones.cache import embed_instances
from miv.data import InstancePool
from miv.evaluation.out_of_distribution import fit_out_of_distribution
from miv.interop.sklearn import OnInstances, exemplar_set
from miv.training.config import TrainingConfig
from miv.verifier.decisions import OperatingPoint
from tests.training.tiny import tiny_sets

FAST: dict[str, Any] = {"max_epochs": 25, "batch_size": 32, "learning_rate": 1e-2, "random_state": 0}


def exemplars(split: str = "train", count: int = 400) -> tuple[Any, list[Any], Any]:
    """Classes are directions; see ``tests.training.tiny``."""
    data = tiny_sets("features")[split]
    values = data.pool.values
    return values[data.query[:count]], [values[data.bag(row)] for row in range(count)], data.label[:count]


@pytest.fixture(scope="module")
def fitted() -> MIVClassifier:
    return MIVClassifier(**FAST).fit(*exemplars())


def test_it_learns_from_labels_of_bags_and_finds_the_witnesses(fitted: MIVClassifier) -> None:
    queries, bags, labels = exemplars("test")
    assert fitted.score(queries, bags, labels) > 0.85
    probability = fitted.predict_proba(queries, bags)
    assert probability.shape == (400, 2)
    assert probability.sum(axis=1) == pytest.approx(np.ones(400))
    predicted = fitted.predict(queries, bags)
    assert predicted.tolist() == (probability[:, 1] >= 0.5).astype(int).tolist()
    truth = tiny_sets("features")["test"]
    found = fitted.witnesses(queries, bags)
    right = [int(truth.bag_witness(row)[places[0]]) for row, places in enumerate(found) if len(places) and labels[row]]
    assert len(right) > 150
    assert np.mean(right) > 0.9
    assert all(len(places) == 0 for places, yes in zip(found, predicted, strict=True) if not yes)
    again = pickle.loads(pickle.dumps(fitted))
    assert again.predict_proba(queries, bags).tolist() == probability.tolist()


def test_pairs_and_two_arguments_are_the_same(fitted: MIVClassifier) -> None:
    queries, bags, labels = exemplars("test", 50)
    pairs = list(zip(queries, bags, strict=True))
    assert fitted.predict_proba(pairs).tolist() == fitted.predict_proba(queries, bags).tolist()
    assert fitted.score(pairs, labels) == fitted.score(queries, bags, labels)
    again = clone(fitted).fit(list(zip(*exemplars()[:2], strict=True)), exemplars()[2])
    assert again.predict_proba(pairs).tolist() == fitted.predict_proba(pairs).tolist()


def test_labels_may_be_words() -> None:
    queries, bags, labels = exemplars(count=200)
    words = np.array(["absent", "present"])[labels]
    model = MIVClassifier(max_epochs=1, random_state=0).fit(queries, bags, words)
    assert model.classes_.tolist() == ["absent", "present"]
    assert model.score(queries, bags, labels=words) > 0.5


def test_cross_validation_grid_search_and_pipelines() -> None:
    queries, bags, labels = exemplars()
    pairs = list(zip(queries, bags, strict=True))
    pipeline = make_pipeline(OnInstances(StandardScaler()), MIVClassifier(**FAST))
    grid = GridSearchCV(pipeline, {"mivclassifier__pooling": ["gabmil", "cap_dba_l2"]}, cv=2, scoring="roc_auc")
    grid.fit(pairs, labels)
    assert grid.best_params_["mivclassifier__pooling"] == "cap_dba_l2"  # gabmil does not see the query
    assert grid.best_estimator_[-1].n_features_in_ == 8


def test_where_nothing_can_be_learnt_there_is_a_warning() -> None:
    with pytest.warns(ConvergenceWarning, match="learned nothing"):
        MIVClassifier(max_epochs=1, random_state=0).fit(np.ones((60, 4)), np.ones((60, 2, 4)), np.arange(60) % 2)


def test_what_is_given_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[TrainingConfig] = []

    def remember(sets: Any, config: TrainingConfig, *_: Any) -> None:
        trained.append(config)
        raise InterruptedError

    monkeypatch.setattr("miv.training.run.run_training", remember)
    given: dict[str, Any] = {"heads": 2, "batch_size": 16, "max_epochs": 3, "pull": 1.0}
    with pytest.raises(InterruptedError):
        MIVClassifier(**given, learning_rate=0.5).fit(*exemplars())
    document = trained[0].document()
    assert {name: document[name] for name in given} == given
    assert (document["learning_rates"], document["start"]) == ([[0, 0.5]], "similar")


def test_equal_vectors_are_one_instance() -> None:
    data = exemplar_set([[1.0, 2.0], [1.0, 2.0]], [[[3.0, 0.0], [1.0, 2.0]], [[3.0, -0.0]]], np.array([0, 1]))
    assert data.pool.values.tolist() == [[1.0, 2.0], [3.0, 0.0]]
    assert data.query.tolist() == [0, 0]
    assert [data.bag(row).tolist() for row in (0, 1)] == [[1, 0], [1]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": [0, 1, 2] * 4}, "Only binary classification.*3 classes"),
        ({"labels": [1] * 12}, "one class"),
        ({"labels": [0, 1]}, "12 exemplars and 2 labels"),
        ({"bags": [np.zeros((2, 8))] * 11 + [np.zeros((2, 7))]}, r"Bag 11 has the shape \(2, 7\)"),
        ({"bags": [np.zeros((2, 8))] * 11 + [np.zeros((0, 8))]}, "Bag 11 is empty"),
        ({"bags": [np.full((2, 8), np.nan)] * 12}, "NaN or infinity"),
        ({"queries": np.zeros((12, 2, 2, 8))}, r"Query 0 has the shape \(2, 2, 8\)"),  # (12, 2, 8) is references
        ({"sample_weight": [1.0] * 11}, r"sample_weight has the shape \(11,\)"),
        ({"sample_weight": [-1.0] + [1.0] * 11}, "negative number, NaN or infinity"),
        ({"sample_weight": [0.0, 1.0] * 6}, "have only one class"),
        ({"sample_weight": ["a"] * 12}, "not numbers"),
    ],
)
def test_mistakes_are_named(change: dict[str, Any], message: str) -> None:
    queries, bags, labels = exemplars(count=12)
    given = {"X": queries, "y": bags, "labels": labels}
    given |= {{"queries": "X", "bags": "y"}.get(name, name): value for name, value in change.items()}
    with pytest.raises(MIVError, match=message):
        MIVClassifier().fit(**given)


# The checks of sklearn.utils.estimator_checks that call no method with rows of numbers.
OF_ANY_INPUT = [
    "check_estimator_cloneable", "check_estimator_repr", "check_estimator_tags_renamed",
    "check_get_params_invariance", "check_mixin_order", "check_no_attributes_set_in_init",
    "check_parameters_default_constructible", "check_set_params", "check_valid_tag_types",
]  # fmt: skip


ESTIMATORS = [MIVClassifier(), OnInstances(StandardScaler())]


@pytest.mark.parametrize("check", OF_ANY_INPUT)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
def test_checks_of_scikit_learn_for_any_input(check: str, estimator: Any) -> None:
    getattr(estimator_checks, check)(type(estimator).__name__, estimator)


class OfRows(MIVClassifier):
    """Rows of numbers as exemplars, so that the checks that need rows can be run: each row is a bag of one.

    It only reshapes: what the checks ask for, ``MIVClassifier`` does. Where the training itself is not checked, the
    verifier is one that needs none.
    """

    is_trained = False

    def _train(self, exemplars: Any) -> Any:
        if self.is_trained:
            return super()._train(exemplars)
        return Verifier("nearest", channels=exemplars.pool.values.shape[1]).eval()

    def fit(self, X: Any, y: Any, labels: Any = None, *, sample_weight: Any = None) -> Self:  # noqa: N803
        super().fit(_as_pairs(X), y, sample_weight=sample_weight)
        self.verifier_.double()  # a check asks for 1e-7, below the rounding of a float32, which batches change
        return self

    def verify(self, X: Any, bags: Any = None, *, witnesses: Any = None) -> Any:  # noqa: N803
        return super().verify(_as_pairs(X), witnesses=witnesses)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags


def _as_pairs(rows: Any) -> list[Any]:
    return [(np.ones(len(row)), row[None]) for row in np.asarray(rows)]


def test_the_decision_is_the_logit_and_above_0_where_the_prediction_is_yes(fitted: MIVClassifier) -> None:
    queries, bags, labels = exemplars("test", 60)
    logit = fitted.decision_function(queries, bags)
    assert 1 / (1 + np.exp(-logit)) == pytest.approx(fitted.predict_proba(queries, bags)[:, 1])
    calibrated = pickle.loads(pickle.dumps(fitted))
    calibrated.verifier_.operating_point = OperatingPoint(threshold=0.8)
    decision = calibrated.decision_function(queries, bags)
    assert (decision > 0).tolist() == (calibrated.predict(queries, bags) == 1).tolist()
    assert decision == pytest.approx(logit - np.log(0.8 / 0.2), abs=1e-6)
    assert roc_auc_score(labels, decision) == roc_auc_score(labels, logit)


def test_a_decision_on_what_is_unlike_the_training_data_is_unsure(fitted: MIVClassifier) -> None:
    queries, bags, _ = exemplars("test", 60)
    limited = pickle.loads(pickle.dumps(fitted))
    features = embed_instances(limited.verifier_.backbone, InstancePool("features", np.array(queries)), np.arange(60))
    limited.verifier_.unlike = fit_out_of_distribution(features, features, 0.1)
    far = [queries[0] + 1000, *queries[1:]]
    assert limited.decide(far, bags)[0] == "unsure"
    assert limited.predict(far, bags)[0] == limited.classes_[0]
    assert "no" in limited.decide(far, bags)[1:]


def test_witnesses_come_through_a_pipeline() -> None:
    queries, bags, labels = exemplars(count=120)
    pairs = list(zip(queries, bags, strict=True))
    pipeline = make_pipeline(OnInstances(StandardScaler()), MIVClassifier(**FAST)).fit(pairs, labels)
    predicted, places = pipeline.predict(pairs, return_witnesses=True)
    assert predicted.tolist() == pipeline.predict(pairs).tolist()
    scaled = pipeline[:-1].transform(pairs)
    expected = pipeline[-1].witnesses(scaled)
    assert [one.tolist() for one in places] == [one.tolist() for one in expected]
    assert sum(map(len, places)) > 30


OF_ROWS = [
    "check_classifiers_one_label", "check_classifiers_one_label_sample_weights",
    "check_decision_proba_consistency", "check_dict_unchanged", "check_estimators_dtypes",
    "check_estimators_fit_returns_self", "check_estimators_nan_inf", "check_estimators_overwrite_params",
    "check_estimators_pickle", "check_estimators_unfitted", "check_fit_check_is_fitted", "check_fit_idempotent",
    "check_fit_score_takes_y", "check_methods_sample_order_invariance", "check_methods_subset_invariance",
    "check_n_features_in", "check_n_features_in_after_fitting", "check_pipeline_consistency",
    "check_readonly_memmap_input", "check_requires_y_none", "check_sample_weights_list",
    "check_sample_weights_not_an_array", "check_sample_weights_not_overwritten",
    "check_sample_weights_pandas_series", "check_sample_weights_shape", "check_supervised_y_2d",
]  # fmt: skip


# Those whose outcome depends on the training: its seed, its weights and its settings.
OF_TRAINING = ["check_dict_unchanged", "check_estimators_overwrite_params", "check_fit_idempotent"]


@pytest.mark.filterwarnings("ignore:The model learned nothing")
@pytest.mark.parametrize("check", OF_ROWS)
def test_checks_of_scikit_learn_for_rows(check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OfRows, "is_trained", check in OF_TRAINING)
    getattr(estimator_checks, check)("OfRows", OfRows(heads=1, max_epochs=2, random_state=0))
