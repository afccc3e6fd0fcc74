"""The baselines: nearest target, mean, centred, regressions, BM25, descriptors, scored on held-out splits."""

import math
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from miv.backbones import Backbone, create_backbone
from miv.backbones.cache import embed_pool
from miv.backbones.descriptors import Features
from miv.data import ExemplarSet, csr
from miv.errors import MIVError, unknown_name, warn
from miv.evaluation import auroc, witness_metrics
from miv.evaluation.baselines import (
    COLUMNS,
    CONTROLS,
    Baselines,
    Cosines,
    Figures,
    candidates_for,
    choose_backbone,
    cosines,
    mean_direction,
    unit_queries,
    unit_rows,
)
from miv.evaluation.metrics import auroc_within_chance
from miv.files.arrays import Floats, Integers, Labels, Vectors
from miv.files.cache import cache_folder
from miv.runtime import Progress

SATURATION = 1.5  # k1: how soon repeated words stop counting
LENGTH = 0.75  # b: how much long texts are penalised
_WORD = re.compile(r"\w+")
_TOGETHER = 1 << 14  # pairs of texts


def bm25(exemplars: ExemplarSet, train: ExemplarSet | None = None) -> Floats:
    r"""``(T,)`` the score of each target for its query.

    .. math::
        s(q, t) = \sum_{w \in q} \ln\Big(1 + \frac{N - n_w + .5}{n_w + .5}\Big)
        \frac{f_{wt} (k_1 + 1)}{f_{wt} + k_1 (1 - b + b \, |t| / \overline{|t|})}

    over the different words of the query. :math:`f_{wt}` counts a word in a target. :math:`N` targets, their mean
    length and the number :math:`n_w` with a word are those of the bags of ``train``, or of the set itself without it,
    each text once. Words are runs of letters and digits, in lower case.
    """
    places: dict[str, int] = {}
    known = _count_words(exemplars if train is None else train, places)  # (P', V')
    counts = known if train is None else _count_words(exemplars, places)  # (P, V), the words of train first
    targets = np.unique((exemplars if train is None else train).bag_index)
    mean_length = max(float(known[targets].sum()) / len(targets), 1e-12)
    having = np.zeros(counts.shape[1])
    having[: known.shape[1]] = (known[targets] > 0).sum(axis=0)
    rarity = np.log1p((len(targets) - having + 0.5) / (having + 0.5))
    length = np.asarray(counts.sum(axis=1)).reshape(-1)  # (P,)
    held_back = SATURATION * (1 - LENGTH + LENGTH * length / mean_length)  # (P,)
    weights, row = counts.copy(), csr.owners(counts.indptr)
    weights.data = rarity[counts.indices] * counts.data * (SATURATION + 1) / (counts.data + held_back[row])
    products = np.zeros(len(exemplars.bag_index))
    ptr, references = exemplars.all_references
    share = csr.to_rows(1 / np.diff(ptr), ptr)  # of several references, the mean counts
    queries = csr_array((share, references, ptr), shape=(len(exemplars), len(length))) @ counts.sign()  # (E, V)
    for start in range(0, len(products), _TOGETHER):
        part = slice(start, start + _TOGETHER)
        pairs = queries[exemplars.owner[part]].multiply(weights[exemplars.bag_index[part]])
        products[part] = np.asarray(pairs.sum(axis=1)).reshape(-1)
    return products


def _count_words(exemplars: ExemplarSet, places: dict[str, int]) -> Any:
    """``(P, V)`` sparse: how often each word is in each text that occurs; new words are added to ``places``."""
    words: list[int] = []
    lengths: Integers = np.zeros(len(exemplars.pool), np.int64)
    for text in exemplars.used.tolist():
        found = _WORD.findall(exemplars.pool.values[text].lower())
        words += [places.setdefault(word, len(places)) for word in found]
        lengths[text] = len(found)
    entries = np.ones(len(words)), np.array(words, np.int64), csr.borders(lengths)
    counts = csr_array(entries, shape=(len(lengths), max(1, len(places))))
    counts.sum_duplicates()
    return counts


def blend_inputs(near: Cosines, match: Floats, ptr: Integers) -> Vectors:
    """``(E, 4)`` the largest cosine and BM25 ``(T,)`` of each bag, and their means."""
    inputs = [near.nearest, csr.bag_maxima(match, ptr), near.mean, csr.bag_sums(match, ptr) / np.diff(ptr)]
    return np.column_stack(inputs).astype(np.float32)


STRENGTHS = (0.001, 0.01, 0.1, 1.0)  # values of C: small ones keep the weights near 0
FOLDS = 5
_MOST_FOR_CHOOSING = 4000  # exemplars: more would not help to choose between factors of ten
_FEWEST_FOR_CONTROLS = 100
_STEPS = 200


def logistic_inputs(exemplars: ExemplarSet, features: Vectors, near: Cosines) -> Vectors:
    r"""``(E, 2 C + 2)``: largest cosine, mean cosine, :math:`|q - t^*|` and :math:`q \odot t^*`, both of length 1."""
    query = unit_queries(exemplars, features)
    target = unit_rows(features, exemplars.bag_index[near.place])
    return np.column_stack([near.nearest, near.mean, np.abs(query - target), query * target]).astype(np.float32)


def fit_logistic(exemplars: ExemplarSet, inputs: Vectors, strengths: tuple[float, ...] = STRENGTHS) -> Any:
    """The regression on train with the best C by cross-validated AUROC; ``None`` with only one label."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    label = exemplars.label
    if label.min() == label.max():
        return None
    scaler = StandardScaler().fit(inputs)
    scaled, folds = scaler.transform(inputs), _folds(label, exemplars.query) if len(strengths) > 1 else []
    model, strength = LogisticRegression(max_iter=_STEPS), strengths[0] if len(strengths) == 1 else 0.01
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it is close enough after this many steps
        if folds:  # a handful of exemplars cannot choose
            search = GridSearchCV(model, {"C": strengths}, scoring="roc_auc", cv=folds, refit=False)
            strength = float(search.fit(scaled, label).best_params_["C"])
        return make_pipeline(scaler, model.set_params(C=strength).fit(scaled, label))


def _folds(label: Labels, query: Integers) -> list[tuple[Integers, Integers]]:
    """Folds with both labels in each part; exemplars of one query are in one part."""
    random = np.random.default_rng(0)
    names, places = np.unique(query, return_inverse=True)
    part = random.permutation(len(names))[places] % FOLDS
    if len(label) > _MOST_FOR_CHOOSING:
        part[random.permutation(len(label))[_MOST_FOR_CHOOSING:]] = -1
    divided = [(np.flatnonzero((part != n) & (part >= 0)), np.flatnonzero(part == n)) for n in range(FOLDS)]
    return [fold for fold in divided if all(len(np.unique(label[rows])) == 2 for rows in fold)]


METHODS = {  # in display order
    "nearest": "cosine of the query and its nearest target",
    "mean": "mean cosine of the query and all targets",
    "centred": "cosine of the query and its nearest target, after the mean of the train features is subtracted",
    "logistic": "logistic regression on largest cosine, mean cosine, |q − t*| and q · t*, t* being the nearest target",
    "blend": "logistic regression on the largest and mean cosine and BM25",
    "bm25": "BM25 of the best target, by words",
    "hog": "largest cosine of histograms of oriented gradients",
    "colour": "largest cosine of colour histograms",
    "pixels": "largest cosine of small, mean-centred pictures",
    "query_only": "logistic regression on the query without its bag (a control: above 0.5, labels leak)",
    "bag_only": "logistic regression on the mean of the bag without the query (a control)",
}
LEAK = 0.6  # AUROC of a control, beyond chance, that is worth a warning
DESCRIPTORS = ("hog", "colour", "pixels")  # methods that are backbones as well


def score_baselines(
    sets: Mapping[str, ExemplarSet],
    backbone: Backbone | str | None = None,
    *,
    splits: tuple[str, ...] | None = None,
    cache: Path | str | None = None,
    progress: Progress | None = None,
) -> Baselines:
    """Score the plain alternatives to a verifier; see ``METHODS``.

    Args:
        sets: the exemplars by split. ``centred``, ``logistic`` and ``blend`` are fitted on ``train`` and omitted
            without it.
        backbone: computes the features: a backbone, or a name as for ``Verifier``. Without it, vectors are treated as
            by ``miv train``, and images and texts have only ``hog``, ``colour`` and ``pixels``, or ``bm25``.
        splits: splits to score; by default all except ``train``.
        cache: folder of the feature cache; by default that of ``miv train``.
        progress: reports the progress of embedding.

    >>> import numpy as np
    >>> from miv.data import InstancePool
    >>> pool = InstancePool("features", np.eye(3, dtype=np.float32))
    >>> sets = {"validation": ExemplarSet.from_lists(pool, [0, 0], [[0, 1], [1, 2]], labels=[1, 0])}
    >>> score_baselines(sets).splits["validation"]["nearest"].auroc
    1.0
    """
    chosen = _chosen(sets, splits)
    kinds = {exemplars.pool.kind for exemplars in sets.values()}
    if len(kinds) != 1:
        raise MIVError(f"The splits hold {' and '.join(sorted(kinds))}. Expected instances of one kind.")
    kind = kinds.pop()
    folder = Path(cache) if cache is not None else cache_folder() / "features"
    name = backbone if isinstance(backbone, str) else None
    train = sets.get("train")
    if backbone is None and kind == "features":  # as `miv train` takes them
        channels = int(next(iter(sets.values())).pool.values.shape[1])
        form = "raw" if train is None else choose_backbone(train, candidates_for(train), folder, progress)[0]
        backbone, name = Features(channels, form == "standardised"), "features"
    elif isinstance(backbone, str):
        backbone = create_backbone(backbone)
    if name is not None and isinstance(backbone, Features) and backbone.standardise:
        if train is None:
            raise MIVError(f"The backbone standardises by the split train, but got {', '.join(sets)}. Add train.")
        backbone.check(train.pool)
        backbone.fit(train.pool.values[train.used])
    texts = [*chosen, *(["train"] if train is not None and backbone is not None else [])] if kind == "text" else []
    matches = {split: bm25(sets[split], train) for split in texts}
    rows: dict[str, dict[str, Figures]] = {split: {} for split in chosen}
    if backbone is not None:
        embedded = {split: backbone.paired(exemplars) for split, exemplars in sets.items()}
        rows = _by_features(embedded, chosen, backbone, folder, progress, matches)
        name = name or type(backbone).__name__
    for split in chosen:
        if kind == "text":
            rows[split]["bm25"] = _nearest(sets[split], matches[split])
        is_grey = kind == "image" and sets[split].pool.values.ndim == 3
        for descriptor in [name for name in DESCRIPTORS if kind == "image" and not (is_grey and name == "colour")]:
            features = embed_pool(create_backbone(descriptor), sets[split].pool, folder, progress)
            rows[split][descriptor] = _nearest(sets[split], cosines(sets[split], features).each)
        rows[split] |= {name: rows[split].pop(name) for name in CONTROLS if name in rows[split]}  # last
    first = next(iter(rows))
    warn_of_leaks({name: row.auroc for name, row in rows[first].items() if name in CONTROLS}, sets[first], first)
    return Baselines(rows, name, isinstance(backbone, Features) and backbone.standardise)


def _chosen(sets: Mapping[str, ExemplarSet], splits: tuple[str, ...] | None) -> list[str]:
    known = [split for split in sets if split != "train"]
    for split in splits or ():
        if split not in known:
            raise unknown_name("split", split, known)
    if not known:
        raise MIVError("The only split is train. Expected validation or test too.")
    return known if splits is None else [split for split in known if split in splits]


def _by_features(
    sets: Mapping[str, ExemplarSet],
    chosen: list[str],
    backbone: Backbone,
    cache: Path,
    progress: Progress | None,
    matches: Mapping[str, Floats],
) -> dict[str, dict[str, Figures]]:
    """The rows of the chosen splits; ``matches`` are those of BM25."""
    mean = fitted = blend = None
    controls: dict[str, Any] = {}
    rows: dict[str, dict[str, Figures]] = {}
    for split in (*(["train"] if "train" in sets else []), *chosen):
        exemplars = sets[split]
        features = embed_pool(backbone, exemplars.pool, cache, progress)[:, : backbone.vector_channels]
        near = cosines(exemplars, features)
        if split == "train":
            mean = mean_direction(exemplars, features)
            fitted = fit_logistic(exemplars, logistic_inputs(exemplars, features, near))
            controls = {name: fit_logistic(exemplars, _alone(name, exemplars, features), (0.01,)) for name in CONTROLS}
            if matches:
                blend = fit_logistic(exemplars, blend_inputs(near, matches[split], exemplars.bag_ptr))
            continue
        rows[split] = {name: _measure(exemplars, getattr(near, name), near.each) for name in ("nearest", "mean")}
        if mean is not None:
            rows[split]["centred"] = _nearest(exemplars, cosines(exemplars, features, mean).each)
            inputs = logistic_inputs(exemplars, features, near)
            logit = None if fitted is None else fitted.decision_function(inputs).astype(np.float64)
            rows[split]["logistic"] = _measure(exemplars, logit, near.each)
        for name, model in controls.items():
            if model is not None:
                logit = model.decision_function(_alone(name, exemplars, features)).astype(np.float64)
                rows[split][name] = _measure(exemplars, logit)
        if blend is not None:
            logit = blend.decision_function(blend_inputs(near, matches[split], exemplars.bag_ptr))
            of_targets = blend.decision_function(np.column_stack([near.each, matches[split]] * 2))  # bags of one
            rows[split]["blend"] = _measure(exemplars, logit, of_targets)
    return rows


def _alone(control: str, exemplars: ExemplarSet, features: Vectors) -> Vectors:
    """``(E, C)`` the query, or the mean of the bag."""
    if control == "query_only":
        return unit_queries(exemplars, features)
    return np.stack([unit_rows(features, exemplars.bag(number)).mean(axis=0) for number in range(len(exemplars))])


def score_controls(exemplars: ExemplarSet, features: Vectors) -> dict[str, float | None]:
    """The AUROC of each control on one set, by cross-validation over queries; ``None`` with too few exemplars."""
    folds = _folds(exemplars.label, exemplars.query) if len(exemplars) >= _FEWEST_FOR_CONTROLS else []
    areas: dict[str, float | None] = {}
    for name in CONTROLS:
        inputs, found = _alone(name, exemplars, features), []
        for fitted, held in folds:
            model = fit_logistic(exemplars.subset(fitted), inputs[fitted], (0.01,))
            if model is not None:
                found.append(auroc(exemplars.label[held], model.decision_function(inputs[held])))
        areas[name] = float(np.mean(found)) if found else None
    return areas


def warn_of_leaks(areas: Mapping[str, float | None], exemplars: ExemplarSet, where: str) -> None:
    """Warn if the label can be predicted without the bag, or without the query; ``areas`` by control."""
    for control, words in (("query_only", "query alone"), ("bag_only", "bag alone")):
        area = areas.get(control)
        if area is not None and area > LEAK and area > auroc_within_chance(exemplars.label):
            warn(
                f"The label can be predicted from the {words}: {control} has an AUROC of {area:.3f} on {where}. Part "
                "of what a verifier learns may be this. Check how the labels were made."
            )


def _nearest(exemplars: ExemplarSet, each: Floats) -> Figures:
    """By the largest score of each bag."""
    return _measure(exemplars, csr.bag_maxima(each, exemplars.bag_ptr), each)


def _measure(exemplars: ExemplarSet, score: Floats | None, each: Floats | None = None) -> Figures:
    """The figures of a score for each bag ``(E,)`` and for each instance ``(T,)``."""
    measured = {"auroc": math.nan if score is None else auroc(exemplars.label, score)}
    if exemplars.witness is not None and each is not None:
        measured |= witness_metrics(exemplars.bag_ptr, exemplars.witness, each, exemplars.label)
    values = (measured.get(column, math.nan) for column in COLUMNS)
    return Figures(*(None if math.isnan(value) else value for value in values))
