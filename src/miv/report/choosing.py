"""Choose the exemplars that a report shows, their order, and the members of a long bag."""

import numpy as np
from numpy.typing import NDArray

from miv.data import csr
from miv.report.report_sources import ReportSource

SHOWN_MEMBERS = 32  # of one bag; a longer bag shows how many more there are


def error_confidence(source: ReportSource) -> NDArray[np.float64]:
    """Confidence ``(E,)`` of the most confident wrong model, from 0 to 1; below 0 if no model is wrong.

    Confidence is the distance from the threshold, or the nearer of two, as a share of the distance to the end of the
    scale. Among exemplars that all models get right, the one closest to an error has the highest value.
    """
    surest_wrong = np.full(len(source.exemplars), -np.inf)
    least_sure = np.full(len(source.exemplars), np.inf)
    for model in source.models:
        probability, threshold = model.probability, model.point.threshold
        lower = threshold if model.point.lower_threshold is None else model.point.lower_threshold
        above = (probability - threshold) / max(1 - threshold, 1e-12)
        below = (lower - probability) / max(lower, 1e-12)
        sure = np.where(model.verdict, above, below).clip(0, 1)  # 0 between two thresholds
        surest_wrong = np.maximum(surest_wrong, np.where(model.wrong, sure, -np.inf))
        least_sure = np.minimum(least_sure, sure)
    return np.where(np.isfinite(surest_wrong), surest_wrong, -1e-6 - least_sure)


def choose_exemplars(source: ReportSource, most: int) -> NDArray[np.int64]:
    """Choose at most this many exemplars: most confident errors first, then the right answers closest to an error."""
    return np.argsort(-error_confidence(source), kind="stable")[:most]


def telling_exemplar(source: ReportSource) -> int:
    """An exemplar to explain the idea: positive, with a bag of moderate size and, if possible, models that disagree.

    Among these, prefer one where a right model looks at the witness and a wrong model looks elsewhere.
    """
    exemplars = source.exemplars
    sizes = exemplars.bag_sizes
    score = np.zeros(len(exemplars))
    score += 8 * (exemplars.label == 1) + 2 * ((sizes >= 4) & (sizes <= 8))
    verdicts = np.stack([model.verdict for model in source.models])  # (M, E)
    score += 4 * (verdicts.any(axis=0) & ~verdicts.all(axis=0))
    score += 3 * verdicts[0]  # prefer an exemplar that the first model gets right
    score += source.models[0].probability  # and confidently so
    on_witnesses, elsewhere = np.zeros(len(exemplars)), np.zeros(len(exemplars))
    for model in source.models:
        attention = model.answers.attention
        if attention is not None and exemplars.witness is not None:
            mass = csr.bag_sums(attention * exemplars.witness, exemplars.bag_ptr)
            on_witnesses = np.maximum(on_witnesses, mass * (model.verdict == (exemplars.label == 1)))
            elsewhere = np.maximum(elsewhere, (1 - mass) * model.wrong)
    if exemplars.witness is not None:
        score += csr.bag_sums(exemplars.witness, exemplars.bag_ptr) == 1
    return int(np.argmax(score + 3 * on_witnesses + 3 * elsewhere))


def shown_members(source: ReportSource, exemplar: int) -> NDArray[np.int64]:
    """The shown places in an exemplar's bag, in increasing order.

    For a long bag, these are first the place where each model looks most (on ties, a place without a witness, so that
    the page can show why a reason is wrong), then witnesses, then the places where any model looks most.
    """
    rows = slice(int(source.exemplars.bag_ptr[exemplar]), int(source.exemplars.bag_ptr[exemplar + 1]))
    size = rows.stop - rows.start
    if size <= SHOWN_MEMBERS:
        return np.arange(size)
    witness = np.zeros(size, bool) if source.exemplars.witness is None else source.exemplars.witness[rows]
    looked = np.zeros(size)
    tops: list[int] = []
    for model in source.models:
        if model.answers.attention is not None:
            attention = model.answers.attention[rows]
            looked = np.maximum(looked, attention)
            tops.append(int(np.lexsort((witness, -attention))[0]))
    places = np.lexsort((-looked, ~witness, ~np.isin(np.arange(size), tops)))  # the last key is the primary one
    return np.sort(places[: max(SHOWN_MEMBERS, len(set(tops)))])
