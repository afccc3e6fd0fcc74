"""Multiple instance verification of feature vectors for scikit-learn."""

import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import logit
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from miv.data import ExemplarSet, InstancePool, csr
from miv.data.splits import hold_out
from miv.errors import MIVError, MIVWarning
from miv.evaluation import auroc
from miv.evaluation.metrics import auroc_within_chance
from miv.runtime import interruption_of
from miv.verifier.network import Verifier
from miv.verifier.reading import ErrorLocations, as_vectors, check_bags, check_finite, single_instances
from miv.verifier.verdict import Verdicts, WitnessMethod

__all__ = ["MIVClassifier", "OnInstances"]

_SEEDS = np.iinfo(np.int32).max


class MIVClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Does a bag of vectors hold something of the query's class, and which of them show it?

    Every method takes exemplars as ``X``, a sequence of pairs ``(query, bag)``, as needed by ``cross_val_score`` and
    ``GridSearchCV``, or as two arguments: ``fit(X, y)`` or ``fit(queries, bags, labels)``, ``predict(X)`` or
    ``predict(queries, bags)``. A query is a vector ``(C,)`` or an array ``(R, C)`` of references of one class, a bag an
    array ``(N, C)``.

    Args:
        pooling: a name from ``miv.list_poolings()``.
        heads: number of heads, for poolings with heads; a divisor of ``C``.
        pooling_options: further options of the pooling.
        max_epochs: maximum number of epochs; ``None``, here and below, chooses as ``miv train`` does.
        batch_size: number of exemplars per step.
        learning_rate: highest learning rate of the one cycle.
        pull: strength of the pull of weights toward their starting values, as in ``TrainingConfig``.
        validation_fraction: share of the exemplars to hold out for choosing the best epoch by AUROC. Exemplars of one
            query stay together. With 0, folds alone choose the recipe.
        random_state: random seed of the batches and the held-out split.
        verbose: whether to show each epoch on standard error.

    Attributes:
        classes_: the two labels, no and yes, in sorted order.
        n_features_in_: ``C``.
        verifier_: the ``miv.Verifier``; its ``operating_point`` decides threshold and witnesses.

    >>> rng = np.random.default_rng(0)
    >>> kinds = np.eye(4, 8) * 5  # four classes of vectors
    >>> queries = kinds[rng.integers(4, size=200)]
    >>> bags = [kinds[rng.integers(4, size=3)] + rng.normal(size=(3, 8)) for _ in queries]
    >>> labels = [int((np.abs(bag - query).max(axis=1) < 4).any()) for query, bag in zip(queries, bags)]
    >>> model = MIVClassifier(max_epochs=10, random_state=0).fit(queries, bags, labels)
    >>> model.predict_proba(queries, bags).shape, len(model.witnesses(queries, bags))
    ((200, 2), 200)
    """

    def __init__(
        self,
        pooling: str = "cap_dba_l2",
        heads: int = 1,
        pooling_options: dict[str, Any] | None = None,
        max_epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        pull: float | None = None,
        validation_fraction: float = 0.2,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.pooling = pooling
        self.heads = heads
        self.pooling_options = pooling_options
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.pull = pull
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, labels: Any = None, *, sample_weight: ArrayLike | None = None) -> Self:  # noqa: N803
        """Train: ``fit(X, y)`` with pairs and their labels, or ``fit(queries, bags, labels)``.

        Args:
            X: pairs ``(query, bag)``, or queries ``(E, C)``.
            y: the labels, or the bags.
            labels: the labels, if bags are given.
            sample_weight: ``(E,)`` weights of the exemplars in the loss and in the choice of the best epoch. Only
                proportions matter; an exemplar with weight 0 is ignored.
        """
        queries, bags = queries_and_bags(X, None if labels is None else y)
        answers = column_or_1d(y if labels is None else labels, warn=True)
        if len(answers) != len(bags):
            raise MIVError(f"There are {len(bags)} exemplars and {len(answers)} labels. Expected one per exemplar.")
        check_classification_targets(answers)
        self.classes_, label = np.unique(answers, return_inverse=True)
        if len(self.classes_) > 2:
            several = f"{len(self.classes_)} classes of labels: {self.classes_[:5].tolist()}"
            raise MIVError(f"Only binary classification is supported. There are {several}. Expected two.")
        if len(self.classes_) < 2:
            raise MIVError(f"There is only one class, {self.classes_.tolist()[0]!r}. Expected both, no and yes.")
        exemplars = with_weights(exemplar_set(queries, bags, label), sample_weight)
        self.n_features_in_ = int(exemplars.pool.values.shape[1])
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            self.verifier_ = self._train(exemplars)
        self._warn_where_nothing_was_learnt(queries, bags, label)
        return self

    def predict_proba(self, X: Any, bags: Any = None) -> NDArray[np.float64]:  # noqa: N803
        """``(E, 2)``: the probability that the bag does not hold the query's class, and that it does."""
        probability = self.verify(X, bags, witnesses="none").probability
        return np.stack([1 - probability, probability], axis=1)

    def decision_function(self, X: Any, bags: Any = None) -> NDArray[np.float64]:  # noqa: N803
        """``(E,)``: log-odds minus those of the threshold; above 0 the prediction is the second class.

        Without calibration this is the logit of the verifier, divided by the temperature that training found.
        """
        verdicts = self.verify(X, bags, witnesses="none")
        point = self.verifier_.operating_point
        if point.is_default:
            return np.asarray(verdicts.logit, np.float64) / getattr(point.scaling, "temperature", 1.0)
        least = np.finfo(np.float64).eps  # a threshold or a probability may be 0 or 1
        odds = [np.clip(values, least, 1 - least) for values in (verdicts.probability, verdicts.threshold)]
        return np.asarray(logit(odds[0]) - logit(odds[1]))

    def predict(self, X: Any, bags: Any = None, *, return_witnesses: bool = False) -> Any:  # noqa: N803
        """``(E,)``: a label for each exemplar, from the threshold of the verifier's operating point.

        Args:
            X: pairs ``(query, bag)``, or queries ``(E, C)``.
            bags: the bags, if queries are given.
            return_witnesses: whether to also return the witnesses, like ``witnesses``; a ``Pipeline`` passes it on.
        """
        verdicts = self.verify(X, bags, witnesses=None if return_witnesses else "none")
        predicted = self.classes_[verdicts.verdict.astype(np.int64)]
        return (predicted, _places(verdicts)) if return_witnesses else predicted

    def decide(self, X: Any, bags: Any = None) -> NDArray[np.str_]:  # noqa: N803
        """``(E,)``: ``yes``, ``no`` or ``unsure`` for each exemplar.

        It is unsure only between two thresholds of ``verifier_.operating_point``, or out of distribution by
        ``verifier_.unlike``. ``predict`` gives the second class for yes, and the first for no and unsure.
        """
        return self.verify(X, bags, witnesses="none").decision

    def witnesses(self, X: Any, bags: Any = None) -> list[NDArray[np.int64]]:  # noqa: N803
        """For each exemplar, the places of its witnesses in the bag, largest share first; may be empty."""
        return _places(self.verify(X, bags))

    def verify(self, X: Any, bags: Any = None, *, witnesses: WitnessMethod | None = None) -> Verdicts:  # noqa: N803
        """Everything at once: verdicts, probabilities, attention and witnesses, as in ``Verifier.verify``."""
        check_is_fitted(self)
        queries, bags = queries_and_bags(X, bags)
        length = np.shape(queries[0])[-1] if len(queries) and np.ndim(queries[0]) in (1, 2) else self.n_features_in_
        if length != self.n_features_in_:
            expected = f"{type(self).__name__} is expecting {self.n_features_in_} features as input"
            raise MIVError(f"X has {length} features, but {expected}: vectors of the length used in fit.")
        return self.verifier_.verify_many(queries, bags, witnesses=witnesses)

    def score(self, X: Any, y: Any, labels: Any = None, *, sample_weight: ArrayLike | None = None) -> float:  # noqa: N803
        """Accuracy, optionally weighted: ``score(X, y)`` or ``score(queries, bags, labels)``."""
        if labels is None:
            return float(accuracy_score(y, self.predict(X), sample_weight=sample_weight))
        if len(y) and np.ndim(next(iter(y))) == 0:
            raise MIVError("Expected score(X, y, sample_weight=weights), or score(queries, bags, labels).")
        return float(accuracy_score(labels, self.predict(X, y), sample_weight=sample_weight))

    def _train(self, exemplars: ExemplarSet) -> Any:
        # Training imports libraries that a fitted classifier need not wait for.
        from miv.training.auto import choose
        from miv.training.run import Machine, StoppedByUser, run_training

        random = check_random_state(self.random_state)
        sets = hold_out(exemplars, self.validation_fraction, int(random.randint(_SEEDS)))
        settings = self._settings() | {"seed": int(random.randint(_SEEDS))}
        with tempfile.TemporaryDirectory(prefix="miv-fit-") as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore", MIVWarning)  # `fit` has its own warning
            run, cache = Path(folder) / "run", Path(folder) / "cache"
            config = choose(sets, settings, cache=cache).config.changed(settings)
            try:
                run_training(sets, config, run, Machine(cache, quiet=not self.verbose))
            except StoppedByUser as stopped:  # there is no run to resume
                raise interruption_of(stopped) from None
            return Verifier.from_pretrained(run)

    def _settings(self) -> dict[str, Any]:
        names = ("pooling", "heads", "max_epochs", "batch_size", "pull")
        settings = {name: getattr(self, name) for name in names} | {
            "backbone": "features",
            "pooling_options": self.pooling_options or None,
            "learning_rates": None if self.learning_rate is None else ((0, self.learning_rate),),
        }
        return {name: value for name, value in settings.items() if value is not None}

    def _warn_where_nothing_was_learnt(self, queries: Any, bags: Any, label: NDArray[np.int64]) -> None:
        area = auroc(label, self.verifier_.verify_many(queries, bags, witnesses="none").logit)
        if area < auroc_within_chance(label) < 1:  # with very few exemplars, chance can reach any value
            warnings.warn(
                f"The model learned nothing: its AUROC on {len(label):,} training exemplars is {area:.2f}. Use more "
                "exemplars or other vectors, or check that the labels match the bags.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.two_d_array = False  # a sequence of (query, bag)
        return tags


def _places(verdicts: Verdicts) -> list[NDArray[np.int64]]:
    return [np.array([witness.index for witness in verdict.witnesses], np.int64) for verdict in verdicts]


class OnInstances(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Applies a transformer of vectors, such as ``StandardScaler()``, to every query and every member of a bag.

    It takes and returns sequences of pairs ``(query, bag)``, so it can precede ``MIVClassifier`` in a ``Pipeline``.

    Args:
        transformer: the transformer; a clone is fitted to all queries and bag members together.

    >>> from sklearn.preprocessing import StandardScaler
    >>> pairs = [([0.0, 4.0], [[2.0, 4.0], [4.0, 10.0]]), ([2.0, 6.0], [[2.0, 6.0]])]
    >>> query, bag = OnInstances(StandardScaler()).fit_transform(pairs)[0]
    >>> query.round(1).tolist(), bag.round(1).tolist()
    ([-1.6, -0.9], [[0.0, -0.9], [1.6, 1.8]])
    """

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803
        """Fit the transformer to all vectors."""
        vectors, _, _ = all_vectors(X)
        self.n_features_in_ = vectors.shape[1]
        self.transformer_ = clone(self.transformer).fit(vectors)
        return self

    def transform(self, X: Any) -> list[tuple[NDArray[Any], NDArray[Any]]]:  # noqa: N803
        """Transform all vectors, in one call."""
        check_is_fitted(self)
        vectors, known, borders = all_vectors(X)
        made = self.transformer_.transform(vectors)
        vectors = np.asarray(made.toarray() if hasattr(made, "toarray") else made)  # a sparse matrix, or a data frame
        members = [vectors[first:last] for first, last in pairwise(borders)]
        if not known.has_references:
            return list(zip(vectors[: borders[0]], members, strict=True))
        queries = [vectors[first:last] for first, last in pairwise(known.reference_ptr)]
        return list(zip(queries, members, strict=True))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags


# Exemplars of vectors in a form for scikit-learn: a sequence of pairs ``(query, bag)``.


def queries_and_bags(first: Any, bags: Any) -> tuple[Any, Any]:
    """Queries and bags, from pairs or from two arguments."""
    if bags is not None:
        return first, bags
    for number, pair in enumerate(first):
        if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
            shape = f" {pair.shape}" if isinstance(pair, np.ndarray) else ""
            wanted = "pairs (query, bag), query (C,) and bag (N, C); or queries and bags as two arguments"
            raise MIVError(f"Exemplar {number} is a {type(pair).__name__}{shape}. Expected X as a list of {wanted}.")
    return [query for query, _ in first], [bag for _, bag in first]


class Vectors(NamedTuple):
    """The vectors of exemplars: references of all queries ``(R, C)``, then each bag ``(N, C)``."""

    parts: list[NDArray[np.float32]]
    reference_ptr: NDArray[np.int64]  # (E + 1,) borders between the references
    has_references: bool  # some query is an array (R, C)


def all_vectors(pairs: Any) -> tuple[NDArray[Any], Vectors, NDArray[np.int64]]:
    """All vectors of the pairs, references first, in their own dtype; how they belong; and the borders of bags."""
    queries, bags = queries_and_bags(pairs, None)
    known = _checked(queries, bags)
    references, _, _ = single_instances(queries, "features", ErrorLocations())
    vectors = np.concatenate([np.asarray(references), *map(np.asarray, bags)])
    return vectors, known, len(references) + csr.borders([len(bag) for bag in bags])


def _checked(queries: Any, bags: Any) -> Vectors:
    check_bags(queries, bags, "features")
    references, ptr, _ = single_instances(queries, "features", ErrorLocations())
    first = np.shape(references[0])
    if len(first) != 1 or not first[0]:
        raise MIVError(f"Query 0 has the shape {first}. Expected a vector (C,), or references (R, C).")
    parts = [as_vectors(references, first[0], "The queries")]
    parts += [as_vectors(bag, first[0], f"Bag {number}") for number, bag in enumerate(bags)]
    return Vectors(parts, np.arange(len(references) + 1) if ptr is None else ptr, ptr is not None)


def exemplar_set(queries: Any, bags: Any, label: NDArray[np.int64]) -> ExemplarSet:
    """Merge equal vectors into one instance, to keep exemplars of one query together and to count instances."""
    parts, reference_ptr, _ = _checked(queries, bags)
    check_finite(parts[0], "The queries")
    vectors = np.concatenate(parts)
    check_finite(vectors, "The queries and bags")
    places: dict[bytes, int] = {}
    instance = np.array([places.setdefault(row.tobytes(), len(places)) for row in vectors + 0.0])  # -0.0 is 0.0
    _, first = np.unique(instance, return_index=True)
    references, members = np.split(instance, [len(parts[0])])
    return ExemplarSet(
        InstancePool("features", vectors[first]),
        references[reference_ptr[:-1]],
        csr.borders([len(bag) for bag in parts[1:]]),
        members,
        label.astype(np.int8),
        reference_ptr=reference_ptr,
        reference_index=references,
    )


def with_weights(exemplars: ExemplarSet, sample_weight: Any) -> ExemplarSet:
    """The exemplars with their weights, without those of weight 0; equal weights count as none."""
    if sample_weight is None:
        return exemplars
    try:
        weight = np.asarray(sample_weight, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise MIVError("sample_weight has values that are not numbers. Expected one per exemplar.") from error
    if weight.shape != (len(exemplars),):
        raise MIVError(f"sample_weight has the shape {weight.shape}. Expected ({len(exemplars)},), one per exemplar.")
    if not (np.isfinite(weight) & (weight >= 0)).all():
        raise MIVError("sample_weight contains a negative number, NaN or infinity. Expected 0 or more.")
    if len(np.unique(exemplars.label[weight > 0])) < 2:
        raise MIVError("Exemplars with a weight above 0 have only one class. Expected both, no and yes.")
    weighted = exemplars.subset(weight > 0).compact()
    positive = weight[weight > 0]
    return weighted if positive.min() == positive.max() else replace(weighted, weight=positive)
