"""A verifier's answers for a set of exemplars, with the truth: the input of every metric."""

from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miv.data import ExemplarSet, csr
from miv.data.array_checks import as_integers, as_strings, check_range
from miv.errors import MIVError
from miv.evaluation.metric_checks import as_borders, as_labels, as_scores, as_witnesses
from miv.io.checked_values import Floats

# How far the attention of a bag may be from summing to 1; bfloat16 keeps two to three digits.
ATTENTION_TOLERANCE = 0.02


@dataclass(frozen=True, eq=False)
class Predictions:
    """The answers for ``E`` exemplars with ``T`` instances in total.

    Args:
        logit: ``(E,)``; 0 or more means that the bag holds something of the query's class.
        label: ``(E,)``, 0 or 1, the truth.
        ptr: ``(E + 1,)``, the borders between the bags, increasing from 0 to ``T``.
        attention: ``(T,)``, not negative, sums to 1 in each bag; ``None`` if the pooling has no attention.
        witness: ``(T,)`` bool, if known.
        group: ``(E,)`` strings to break results down by, if any.
        query: ``(E,)``, the same number for exemplars with the same query, if known.
        score: ``(T,)``, what the pooling chooses instances by, if its attention keeps only the choice.
        contribution: ``(T,)``, what each instance adds to the logit, if known.
        query_class: ``(E,)`` strings, the class of each query, if known: errors on one class may depend on each other.
        query_id: ``(E,)`` strings, the same for equivalent queries, if known.

    >>> answers = Predictions([2.0, -1.0], label=[1, 0], ptr=[0, 2, 5], attention=[0.9, 0.1, 0.2, 0.3, 0.5])
    >>> len(answers), answers.bag_sizes.tolist(), answers.probability.round(2).tolist()
    (2, [2, 3], [0.88, 0.27])
    """

    logit: Floats
    label: NDArray[np.int8]
    ptr: NDArray[np.int64]
    attention: Floats | None = None
    witness: NDArray[np.bool_] | None = None
    group: NDArray[Any] | None = None
    query: NDArray[np.int64] | None = None
    score: Floats | None = None
    contribution: Floats | None = None
    query_class: NDArray[Any] | None = None
    query_id: NDArray[Any] | None = None

    def __init__(
        self,
        logit: ArrayLike,
        label: ArrayLike,
        ptr: ArrayLike,
        attention: ArrayLike | None = None,
        witness: ArrayLike | None = None,
        group: ArrayLike | None = None,
        query: ArrayLike | None = None,
        score: ArrayLike | None = None,
        contribution: ArrayLike | None = None,
        query_class: ArrayLike | None = None,
        query_id: ArrayLike | None = None,
    ) -> None:
        checked: dict[str, Any] = {"logit": as_scores("logit", logit)}
        exemplars = len(checked["logit"])
        checked["label"] = as_labels(label, exemplars)
        checked["ptr"] = as_borders(ptr, exemplars)
        members = int(checked["ptr"][-1])
        checked["attention"] = None if attention is None else as_scores("attention", attention, members)
        checked["witness"] = None if witness is None else as_witnesses(witness, members)
        for name, strings in (("group", group), ("query_class", query_class), ("query_id", query_id)):
            checked[name] = None if strings is None else as_strings(name, np.asarray(strings), exemplars)
        checked["query"] = None if query is None else as_integers("query", np.asarray(query), exemplars)
        for name, given in (("score", score), ("contribution", contribution)):
            checked[name] = None if given is None else as_scores(name, given, int(checked["ptr"][-1]))
        for name, array in checked.items():
            object.__setattr__(self, name, array)
        self._check_attention()

    @classmethod
    def of(
        cls,
        exemplars: ExemplarSet,
        logit: ArrayLike,
        attention: ArrayLike | None = None,
        score: ArrayLike | None = None,
    ) -> "Predictions":
        """Combine the answers for a whole set, in its order, with the truth in the set."""
        known = (exemplars.witness, exemplars.group, exemplars.query)
        names = _query_names(exemplars)
        return cls(logit, exemplars.label, exemplars.bag_ptr, attention, *known, score, **names)

    def with_queries_of(self, exemplars: ExemplarSet) -> "Predictions":
        """Return the same answers with the queries and classes of their set; files of earlier versions lack them."""
        columns = {one.name: getattr(self, one.name) for one in fields(self)}
        return Predictions(**columns | {"query": exemplars.query} | _query_names(exemplars))

    def with_contribution(self, contribution: ArrayLike) -> "Predictions":
        """Return the same answers with what each instance adds to the logit, ``(T,)``."""
        return Predictions(
            **{one.name: getattr(self, one.name) for one in fields(self)} | {"contribution": contribution}
        )

    @classmethod
    def load(cls, path: Path | str, content: bytes | None = None) -> "Predictions":
        """Read the output of ``save``, or its ``content``, and check it."""
        from miv.evaluation.prediction_files import read_columns  # needs pyarrow, which verifying does not

        columns = read_columns(Path(path), content)
        try:
            return cls(**columns)
        except MIVError as error:
            raise MIVError(f"{path} does not contain predictions: {error}") from error

    def save(self, path: Path | str) -> None:
        """Write a Parquet file with one row per exemplar, atomically."""
        from miv.evaluation.prediction_files import write_predictions

        write_predictions(self, Path(path))

    def __len__(self) -> int:
        return len(self.logit)

    @cached_property
    def probability(self) -> Floats:
        """``(E,)`` the sigmoid of the logit."""
        from scipy.special import expit

        return np.asarray(expit(self.logit))

    @property
    def yes(self) -> NDArray[np.bool_]:
        """The verdicts ``(E,)`` of an uncalibrated verifier: yes for a probability of 0.5 or more."""
        return np.asarray(self.logit >= 0)

    @cached_property
    def bag_sizes(self) -> NDArray[np.int64]:
        """``(E,)`` the number of instances in each bag."""
        return np.diff(self.ptr)

    def take(self, exemplars: ArrayLike) -> "Predictions":
        """Return the exemplars at these places, in that order."""
        chosen = as_integers("exemplars", np.asarray(exemplars, dtype=np.int64))
        check_range("exemplars", chosen, len(self), "the predictions")
        ptr, members = csr.take_bags(self.ptr, chosen)
        return Predictions(
            self.logit[chosen],
            self.label[chosen],
            ptr,
            None if self.attention is None else self.attention[members],
            None if self.witness is None else self.witness[members],
            None if self.group is None else self.group[chosen],
            None if self.query is None else self.query[chosen],
            None if self.score is None else self.score[members],
            None if self.contribution is None else self.contribution[members],
            None if self.query_class is None else self.query_class[chosen],
            None if self.query_id is None else self.query_id[chosen],
        )

    def _check_attention(self) -> None:
        if self.attention is None:
            return
        if (self.attention < 0).any():
            first = int((self.attention < 0).argmax())
            raise MIVError(f"attention[{first}] is {self.attention[first]:g}. Expected no number below 0.")
        totals = csr.bag_sums(self.attention, self.ptr)
        off = np.abs(totals - 1) > ATTENTION_TOLERANCE
        if off.any():
            first = int(off.argmax())
            raise MIVError(f"The attention of exemplar {first} sums to {totals[first]:g}. Expected 1 in each bag.")


def _query_names(exemplars: ExemplarSet) -> dict[str, Any]:
    classes = exemplars.pool.classes
    return {
        "query_class": None if classes is None else classes[exemplars.query],
        "query_id": exemplars.query_id,
    }
