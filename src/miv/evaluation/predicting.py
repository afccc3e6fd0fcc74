"""A verifier's answers for a set of exemplars, with the truth: the input of every metric."""

import logging
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miv.backbones.cache import embed_instances
from miv.data import ExemplarSet, csr
from miv.data.columns import as_integers, as_strings
from miv.errors import MIVError
from miv.evaluation.metrics import as_borders, as_labels, as_scores, as_witnesses
from miv.files.arrays import Floats, Integers, Labels, Mask, Vectors
from miv.files.atomic import whole_file
from miv.runtime import Progress
from miv.verifier.decisions import WitnessesBy
from miv.verifier.engine import EmbeddedExemplars, explain_embedded, foreign_of, out_of_distribution, verify_embedded
from miv.verifier.explain import as_shares, check_method

if TYPE_CHECKING:
    from miv.verifier.network import Verifier

logger = logging.getLogger(__name__)

# How far the attention of a bag may be from summing to 1; bfloat16 keeps two to three digits.
_ATTENTION_TOLERANCE = 0.02
_OF_INSTANCES = ("attention", "witness", "score")
_TEXTS = ("group", "query_class", "query_id")


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
        query_class: ``(E,)`` strings, the class of each query, if known: errors on one class may depend on each other.
        query_id: ``(E,)`` strings, the same for equivalent queries, if known.

    >>> answers = Predictions([2.0, -1.0], label=[1, 0], ptr=[0, 2, 5], attention=[0.9, 0.1, 0.2, 0.3, 0.5])
    >>> len(answers), answers.bag_sizes.tolist(), answers.probability.round(2).tolist()
    (2, [2, 3], [0.88, 0.27])
    """

    logit: Floats
    label: Labels
    ptr: Integers
    attention: Floats | None = None
    witness: Mask | None = None
    group: NDArray[Any] | None = None
    query: Integers | None = None
    score: Floats | None = None
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
        query_class: ArrayLike | None = None,
        query_id: ArrayLike | None = None,
    ) -> None:
        checked: dict[str, Any] = {"logit": as_scores("logit", logit)}
        exemplars = len(checked["logit"])
        checked |= {"label": as_labels(label, exemplars), "ptr": as_borders(ptr, exemplars)}
        members = int(checked["ptr"][-1])
        checked["witness"] = None if witness is None else as_witnesses(witness, members)
        checked["query"] = None if query is None else as_integers("query", np.asarray(query), exemplars)
        for name, strings in (("group", group), ("query_class", query_class), ("query_id", query_id)):
            checked[name] = None if strings is None else as_strings(name, np.asarray(strings), exemplars)
        checked["attention"] = None if attention is None else as_scores("attention", attention, members)
        checked["score"] = None if score is None else as_scores("score", score, members)
        for name, array in checked.items():
            object.__setattr__(self, name, array)
        if self.attention is not None:
            if (below := self.attention < 0).any():
                first = int(below.argmax())
                raise MIVError(f"attention[{first}] is {self.attention[first]:g}. Expected no number below 0.")
            totals = csr.bag_sums(self.attention, self.ptr)
            off = np.abs(totals - 1) > _ATTENTION_TOLERANCE
            if off.any():
                first = int(off.argmax())
                raise MIVError(f"The attention of exemplar {first} sums to {totals[first]:g}. Expected 1 in each bag.")

    @classmethod
    def of(
        cls,
        exemplars: ExemplarSet,
        logit: ArrayLike,
        attention: ArrayLike | None = None,
        score: ArrayLike | None = None,
    ) -> "Predictions":
        """Combine the answers for a whole set, in its order, with the truth in the set."""
        e, classes = exemplars, exemplars.pool.classes
        return cls(logit, e.label, e.bag_ptr, attention, e.witness, e.group, e.query, score,
                   None if classes is None else classes[e.query], e.query_id)  # fmt: skip

    @classmethod
    def load(cls, path: Path | str) -> "Predictions":
        """Read the output of ``save``, and check it."""
        columns = _columns_of(Path(path))
        try:
            return cls(**columns)
        except MIVError as error:
            raise MIVError(f"{path} does not contain predictions: {error}") from error

    def save(self, path: Path | str) -> None:
        """Write a Parquet file with one row per exemplar, atomically."""
        from miv.data.set_tables import write_columns  # a plain install lacks pyarrow

        columns: dict[str, Any] = {column.name: getattr(self, column.name) for column in fields(self)}
        columns |= {"ptr": None, "bag_size": self.bag_sizes}
        for name in _OF_INSTANCES:
            columns[name] = None if columns[name] is None else (self.ptr, columns[name])
        with whole_file(Path(path)) as temporary:
            write_columns(columns, temporary)

    def __len__(self) -> int:
        return len(self.logit)

    @cached_property
    def probability(self) -> Floats:
        """``(E,)`` the sigmoid of the logit."""
        from scipy.special import expit

        return np.asarray(expit(self.logit))

    @property
    def yes(self) -> Mask:
        """The verdicts ``(E,)`` of an uncalibrated verifier: yes for a probability of 0.5 or more."""
        return np.asarray(self.logit >= 0)

    @cached_property
    def bag_sizes(self) -> Integers:
        """``(E,)`` the number of instances in each bag."""
        return np.diff(self.ptr)


def _columns_of(path: Path) -> dict[str, Any]:
    """Read the arguments of ``Predictions``; the size of a bag is a column, because all lists may be absent."""
    from miv.data.set_tables import read_columns
    from miv.files.parquet import pa  # a plain install lacks pyarrow

    if not path.is_file():
        raise MIVError(f"There is no file {path}. Expected predictions written by `miv evaluate`.")
    kinds = {"logit": pa.float64(), "label": pa.int8(), "bag_size": pa.int64(), "query?": pa.int64()}
    kinds |= dict.fromkeys(("attention?", "score?"), pa.list_(pa.float64())) | {"witness?": pa.list_(pa.bool_())}
    columns = read_columns(path, kinds | {f"{name}?": pa.string() for name in _TEXTS})
    columns["ptr"] = csr.borders(columns.pop("bag_size"))
    for name in columns.keys() & set(_OF_INSTANCES):
        borders, columns[name] = columns[name]
        if not np.array_equal(borders, columns["ptr"]):
            row = int((borders != columns["ptr"]).argmax()) - 1
            raise MIVError(f"{path}, row {row}: the length of {name!r} is not bag_size.")
    return columns


# Answers of a verifier for a whole set, each instance embedded once. ``features`` ``(P, C)`` are those of the pool, if
# known; otherwise the instances in use are embedded.


def predict(
    verifier: "Verifier", exemplars: ExemplarSet, features: Vectors | None = None, progress: Progress | None = None
) -> Predictions:
    """Verify every exemplar of a set; each part of the verifier keeps its training or evaluation mode."""
    steps, own = exemplars.pool.image_steps, None if verifier.instances is None else verifier.instances.steps
    if steps is not None and own is not None and steps != own:
        made, learned = ", ".join(steps) or "no steps", ", ".join(own) or "no steps"
        logger.warning(
            f"The images of this set were made by: {made}, those that the verifier was trained on by: {learned}. Its "
            "answers are for images made the same way."
        )
    if features is None:
        exemplars = verifier.backbone.paired(exemplars)
        features = embed_instances(verifier.backbone, exemplars.pool, exemplars.used, progress)
    answers = verify_embedded(verifier, embedded_exemplars(exemplars, features), progress)
    attention = answers.attention if verifier.pooling.has_attention else None
    return Predictions.of(exemplars, answers.logit, attention, answers.score)


def withheld(
    verifier: "Verifier", exemplars: ExemplarSet, features: Vectors | None = None, progress: Progress | None = None
) -> Mask | None:
    """``(E,)`` bool: the exemplars without a yes or no, because they are out of distribution or have no content.

    ``None`` if the verifier has no limit, and all instances have content.
    """
    if features is None:
        features = embed_instances(verifier.backbone, exemplars.pool, exemplars.used, progress)
    embedded = embedded_exemplars(exemplars, features, foreign_of(verifier, exemplars.pool, exemplars.used))
    flags = out_of_distribution(verifier, embedded)
    return None if flags is None else flags.withheld


def explain(
    verifier: "Verifier",
    exemplars: ExemplarSet,
    method: str = "leave_one_out",
    *,
    features: Vectors | None = None,
    progress: Progress | None = None,
) -> Floats:
    """How much each bag member contributes to a yes, ``(T,)`` in the order of ``exemplars.bag_index``.

    The methods are those of ``miv.verifier.explain.explain_features``.
    """
    check_method(verifier.pooling, method)
    if features is None:
        exemplars = verifier.backbone.paired(exemplars)
        features = embed_instances(verifier.backbone, exemplars.pool, exemplars.used, progress)
    return explain_embedded(verifier, embedded_exemplars(exemplars, features), method, progress)


def witness_shares(
    verifier: "Verifier",
    exemplars: ExemplarSet,
    logit: Floats,
    method: WitnessesBy,
    progress: Progress | None = None,
    features: Vectors | None = None,
) -> Floats:
    """Shares ``(T,)`` of all bag members of a set, given the logits ``(E,)`` of the bags; they sum to 1 in each bag."""
    scores = explain(verifier, exemplars, method, features=features, progress=progress)
    return as_shares(scores, method, logit, exemplars.bag_ptr, verifier.dtype)


def embedded_exemplars(exemplars: ExemplarSet, features: Vectors, is_foreign: Mask | None = None) -> EmbeddedExemplars:
    """The exemplars over the features ``(P, C)`` of their pool."""
    references = exemplars.all_references[1]
    return EmbeddedExemplars(
        features, references, exemplars.bag_index, exemplars.bag_ptr, exemplars.reference_ptr, is_foreign
    )
