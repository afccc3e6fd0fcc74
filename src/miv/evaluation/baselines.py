"""Baselines: cosines of targets and queries, the representation that suits them, and figures of plain methods."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.backbones import Backbone, create_backbone, efficientnet
from miv.backbones.cache import embed_pool
from miv.backbones.descriptors import Features, unlike_scales
from miv.data import ExemplarSet, csr
from miv.evaluation.evaluation import TITLES
from miv.evaluation.metrics import auroc, auroc_error
from miv.files.arrays import Floats
from miv.files.cache import cache_folder
from miv.files.json import NUMBER, check_shape, read_json_object, write_json
from miv.runtime import Progress, aligned_table

_NUMBERS = 1 << 22  # processed together: 16 MB of float32


@dataclass(frozen=True, eq=False)
class Cosines:
    """The cosines of ``E`` exemplars with ``T`` targets in total; the cosine with a zero vector is 0."""

    each: Floats  # (T,) of each target with its query
    nearest: Floats  # (E,) the largest of each bag
    mean: Floats  # (E,) the mean of each bag
    place: NDArray[np.int64]  # (E,) index of the nearest among the T targets; the first on ties


def unit_rows(
    features: NDArray[np.float32], rows: NDArray[np.int64], centre: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """``(R, C)`` the features at ``rows`` with length 1, also after the centre ``(C,)`` is subtracted, if given.

    Zeros stay zeros, and what lies at the centre up to rounding stays near zero.
    """
    chosen: NDArray[np.float32] = np.array(features[rows], np.float32)
    largest = np.abs(chosen).max(axis=1, keepdims=True)  # first, so that no square overflows or vanishes
    np.divide(chosen, largest, out=chosen, where=largest > 0)
    length = np.linalg.norm(chosen, axis=1, keepdims=True)
    np.divide(chosen, length, out=chosen, where=length > 0)
    if centre is not None:
        chosen -= centre
        chosen /= np.maximum(np.linalg.norm(chosen, axis=1, keepdims=True), np.float32(1e-6))
    return chosen


def mean_direction(exemplars: ExemplarSet, features: NDArray[np.float32]) -> NDArray[np.float32]:
    """``(C,)`` the mean of the features that the exemplars use, each scaled to length 1."""
    together, total = max(1, _NUMBERS // features.shape[1]), np.zeros(features.shape[1])
    for first in range(0, len(exemplars.used), together):
        total += unit_rows(features, exemplars.used[first : first + together]).sum(axis=0, dtype=np.float64)
    return (total / len(exemplars.used)).astype(np.float32)


def unit_queries(
    exemplars: ExemplarSet, features: NDArray[np.float32], centre: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """``(E, C)`` the features of the queries with length 1; of several references, their mean direction."""
    ptr, references = exemplars.all_references
    rows = unit_rows(features, references, centre)
    if not exemplars.has_references:
        return rows
    return unit_rows(csr.bag_sums(rows, ptr), np.arange(len(exemplars)))


def cosines(
    exemplars: ExemplarSet, features: NDArray[np.float32], centre: NDArray[np.float32] | None = None
) -> Cosines:
    """Compare every target with its query, by the features ``(P, C)`` of the pool.

    Several references are compared as their mean direction. A centre ``(C,)`` is subtracted from features of length 1.
    """
    members = len(exemplars.bag_index)
    each = np.zeros(members)
    asked, known, of_queries = exemplars.query[exemplars.owner], features, centre  # (T,) rows of the features
    if exemplars.has_references:
        asked, known, of_queries = exemplars.owner, unit_queries(exemplars, features, centre), None
    together = max(1, _NUMBERS // features.shape[1])
    for start in range(0, members, together):
        part = slice(start, start + together)
        queries = unit_rows(known, asked[part], of_queries)
        targets = unit_rows(features, exemplars.bag_index[part], centre)
        each[part] = np.einsum("tc,tc->t", queries, targets)
    nearest = csr.bag_maxima(each, exemplars.bag_ptr)
    is_nearest = np.flatnonzero(each == nearest[exemplars.owner])  # at least one in each bag
    _, at = np.unique(exemplars.owner[is_nearest], return_index=True)  # the first of each bag
    return Cosines(each, nearest, csr.bag_sums(each, exemplars.bag_ptr) / exemplars.bag_sizes, is_nearest[at])


# Which representation of images or vectors suits the nearest target.

UNLIKE_SCALES = 10.0  # embeddings and descriptors reach 1 to 5, tables of measurements 100 and more
FEW_CHANNELS = 64  # fewer are columns of a table
MOST_EXEMPLARS, _MOST_TARGETS = 1_500, 200_000  # by which representations are compared
_STANDARD_ERRORS = 0.5  # of the difference

Candidates = Mapping[str, Mapping[str, Any]]
"""Settings of training by a short name; the first is preferred."""


def candidates_for(train: ExemplarSet) -> Candidates:
    """The representations of images or vectors that need no training."""
    values = train.pool.values
    if train.pool.kind == "image":
        # Of two that are as good, the one that sees shapes and colours: the recipes weigh its channels.
        names = ["hog"] if values.ndim == 3 else ["hog", "hog_colour", "colour"]
        names = ["efficientnet", *names] if efficientnet.suits(values.shape[1:]) else names
        return {name: {"backbone": name} for name in names}
    some = _sample(train)
    is_table = values.shape[1] < FEW_CHANNELS or unlike_scales(some.pool.values[some.used]) > UNLIKE_SCALES
    forms: dict[str, dict[str, Any]] = {"raw": {}, "standardised": {"backbone_options": {"standardise": True}}}
    return {name: forms[name] for name in sorted(forms, reverse=is_table)}


def choose_backbone(
    train: ExemplarSet, candidates: Candidates, cache: Path | None = None, progress: Progress | None = None
) -> tuple[str, dict[str, float]]:
    """The name of the first candidate that is not clearly worse than the best, and the AUROC of those compared.

    A candidate is judged by the cosine of the query and its nearest target, raw or centred, on at most 1,500 exemplars
    of train. Clearly worse means by more than half a standard error of the difference. Features go through the cache.
    """
    first, some = next(iter(candidates)), _sample(train)
    if len(candidates) == 1 or some.label.min() == some.label.max():
        return first, {}
    folder = cache_folder() / "features" if cache is None else cache
    scores = {}
    for name, settings in candidates.items():
        backbone = _backbone(settings, some)
        features = embed_pool(backbone, some.pool, folder, progress)[:, : backbone.vector_channels]
        centre = mean_direction(some, features)
        nearest = (cosines(some, features, of).nearest for of in (None, centre))  # raw, or centred if better
        scores[name] = max(nearest, key=lambda score: auroc(some.label, score))
    aurocs = {name: auroc(some.label, score) for name, score in scores.items()}
    best = max(aurocs, key=lambda name: aurocs[name])
    for name, score in scores.items():
        if aurocs[best] - aurocs[name] <= _STANDARD_ERRORS * auroc_error(some.label, scores[best], score):
            return name, aurocs
    return best, aurocs


def comparison(aurocs: Mapping[str, float]) -> str:
    """The figures of a choice in brackets, or nothing if there was none."""
    figures = ", ".join(f"{name} {value:.2f}".replace(" 0.", " .") for name, value in aurocs.items())
    return f" (AUROC of the nearest target: {figures})" if figures else ""


def _sample(train: ExemplarSet) -> ExemplarSet:
    """At most 1,500 exemplars; with the whole pool, whose features training needs, unless it is far larger."""
    order = np.random.default_rng(0).permutation(len(train))
    fits = np.cumsum(train.bag_sizes[order]) <= max(_MOST_TARGETS, train.bag_sizes[order[0]])
    chosen = order[fits][:MOST_EXEMPLARS]
    if len(chosen) < len(train):
        train = train.subset(np.sort(chosen))
    return train if 2 * len(train.used) >= len(train.pool) else train.compact()


def _backbone(settings: Mapping[str, Any], exemplars: ExemplarSet) -> Backbone:
    options = settings.get("backbone_options", {})
    if exemplars.pool.kind != "features":
        return create_backbone(settings["backbone"], **options)
    backbone = Features(exemplars.pool.values.shape[1], **options)
    if backbone.standardise:
        backbone.fit(exemplars.pool.values[exemplars.used])
    return backbone


# The figures of the plain methods.

CHOSEN_ON = "validation"
CONTROLS = ("query_only", "bag_only")  # what shows a leak of the label; not methods to choose
_REMEDY = "`miv train DATA --resume` with the command of the run writes it again."


@dataclass(frozen=True)
class Figures:
    """AUROC of one method on one split, and i-AUROC and i-AP of its witnesses; ``None`` if one does not exist."""

    auroc: float | None
    i_auroc: float | None
    i_ap: float | None


COLUMNS = tuple(column.name for column in fields(Figures))
_SHAPE = {"backbone?": str, "standardised": bool, "splits": {"*": {"*": {f"{name}?": NUMBER for name in COLUMNS}}}}


@dataclass(frozen=True)
class Baselines:
    """The figures of the plain methods.

    Args:
        splits: by split and method, such as ``splits["test"]["nearest"].auroc``.
        backbone: source of the features of all methods but the fixed ones; ``None`` without features.
        standardised: whether the features are vectors, standardised by the means and deviations of train.

    >>> plain = Baselines({"validation": {"nearest": Figures(0.7, None, None), "mean": Figures(0.6, None, None)}})
    >>> plain.best
    'nearest'
    """

    splits: Mapping[str, Mapping[str, Figures]]
    backbone: str | None = None
    standardised: bool = False

    @property
    def best(self) -> str | None:
        """The method, not a control, with the highest AUROC on validation, the first on ties; ``None`` without any."""
        rows = self.splits.get(CHOSEN_ON, {})
        aurocs = {name: row.auroc for name, row in rows.items() if name not in CONTROLS and row.auroc is not None}
        return max(aurocs, key=lambda name: aurocs[name], default=None)

    def document(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        splits = {split: {name: asdict(row) for name, row in rows.items()} for split, rows in self.splits.items()}
        about = {"backbone": self.backbone, "standardised": self.standardised, "best": self.best}
        return about | {"splits": splits}

    def save(self, path: Path | str) -> None:
        """Write a JSON file atomically."""
        write_json(Path(path), self.document())

    @classmethod
    def load(cls, path: Path | str) -> "Baselines":
        """Read and check the output of ``save``."""
        document = read_json_object(Path(path), _REMEDY)
        check_shape(document, _SHAPE, str(path), _REMEDY)
        splits = {
            split: {name: Figures(*(values.get(column) for column in COLUMNS)) for name, values in rows.items()}
            for split, rows in document["splits"].items()
        }
        return cls(splits, document.get("backbone"), document["standardised"])


def print_table(title: str, rows: Mapping[str, Figures]) -> None:
    """One row per method on standard output; ``*`` marks the best of each column."""
    headings = ["method", *(TITLES[column] for column in COLUMNS)]
    table = aligned_table(headings, [[name, *cells] for name, cells in marked(rows).items()])
    print(f"{title}\n\n{table}\n* best of its column\n")


def marked(rows: Mapping[str, Figures]) -> dict[str, list[str]]:
    """The figures as text, with ``*`` for the best of each column and ``–`` for missing ones.

    >>> marked({"nearest": Figures(0.7, 0.9, None), "mean": Figures(0.6, 0.9, None)})
    {'nearest': ['0.7000 *', '0.9000 *', '–'], 'mean': ['0.6000  ', '0.9000 *', '–']}
    """
    columns = {column: [getattr(row, column) for row in rows.values()] for column in COLUMNS}
    best = {column: max((v for v in values if v is not None), default=None) for column, values in columns.items()}

    def cell(value: float | None, best: float | None) -> str:
        return "–" if value is None else f"{value:.4f} {'*' if value == best else ' '}"

    return {name: [cell(getattr(row, column), best[column]) for column in COLUMNS] for name, row in rows.items()}
