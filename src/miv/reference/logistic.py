"""Logistic regression on simple inputs: the nearest target, and the cosines of all targets."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.data import ExemplarSet
from miv.evaluation import auroc
from miv.evaluation.cosines import Cosines, unit_queries, unit_rows
from miv.io.checked_values import Floats

STRENGTHS = (0.001, 0.01, 0.1, 1.0)  # values of C: small ones keep the weights near 0
FOLDS = 5
_MOST_FOR_CHOOSING = 4000  # exemplars: more would not help to choose between factors of ten
_STEPS = 200


@dataclass(frozen=True, eq=False)
class Logistic:
    """A fitted regression.

    Args:
        scaler: scales every input to mean 0 and deviation 1 on train; a constant input to 0.
        model: the scikit-learn model.
        strength: its C.
    """

    scaler: Any
    model: Any
    strength: float

    def score(self, inputs: NDArray[np.float32]) -> Floats:
        """``(E, 2 C + 2)`` to the logits ``(E,)``."""
        return np.asarray(self.model.decision_function(self.scaler.transform(inputs)), np.float64)


def logistic_inputs(exemplars: ExemplarSet, features: NDArray[np.float32], near: Cosines) -> NDArray[np.float32]:
    r"""``(E, 2 C + 2)``: largest cosine, mean cosine, :math:`|q - t^*|` and :math:`q \odot t^*`, both of length 1."""
    query = unit_queries(exemplars, features)
    target = unit_rows(features, exemplars.bag_index[near.place])
    return np.column_stack([near.nearest, near.mean, np.abs(query - target), query * target]).astype(np.float32)


def fit_logistic(exemplars: ExemplarSet, inputs: NDArray[np.float32]) -> Logistic | None:
    """Fit on train with the best C of ``STRENGTHS`` in cross-validation. ``None`` if train has only one label."""
    from sklearn.preprocessing import StandardScaler

    label = exemplars.label
    if label.min() == label.max():
        return None
    scaler = StandardScaler().fit(inputs)
    scaled = scaler.transform(inputs)
    strength = _choose(scaled, label, exemplars.query)
    return Logistic(scaler, _fit(scaled, label, [strength])[strength], strength)


def _choose(scaled: NDArray[np.float32], label: NDArray[np.int8], query: NDArray[np.int64]) -> float:
    """The C with the highest mean AUROC over folds, the smaller on ties."""
    found: dict[float, list[float]] = {strength: [] for strength in STRENGTHS}
    for fitting, held_out in _folds(label, query):
        for strength, model in _fit(scaled[fitting], label[fitting], STRENGTHS).items():
            found[strength].append(auroc(label[held_out], model.decision_function(scaled[held_out])))
    means = {strength: float(np.mean(values)) for strength, values in found.items() if values}
    return max(means, key=lambda strength: means[strength], default=0.01)  # a handful of exemplars cannot choose


def _folds(label: NDArray[np.int8], query: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Folds with both labels in each part; exemplars of one query are in one part."""
    random = np.random.default_rng(0)
    names, places = np.unique(query, return_inverse=True)
    part = random.permutation(len(names))[places] % FOLDS
    if len(label) > _MOST_FOR_CHOOSING:  # the same number of each part
        part[random.permutation(len(label))[_MOST_FOR_CHOOSING:]] = -1
    for number in range(FOLDS):
        fitting, held_out = np.flatnonzero((part != number) & (part >= 0)), np.flatnonzero(part == number)
        if len(np.unique(label[fitting])) == len(np.unique(label[held_out])) == 2:
            yield fitting, held_out


def _fit(scaled: NDArray[np.float32], label: NDArray[np.int8], strengths: Any) -> dict[float, Any]:
    """A model for each C, each started from the previous one."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    models: dict[float, Any] = {}
    start = None
    for strength in strengths:
        model = LogisticRegression(C=strength, max_iter=_STEPS, warm_start=True)
        if start is not None:
            model.coef_, model.intercept_, model.classes_ = start.coef_, start.intercept_, start.classes_
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # it is close enough after this many steps
            models[strength] = start = model.fit(scaled, label)
    return models
