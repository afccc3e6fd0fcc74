"""Which exemplars a report shows, in which order, and which members of a long bag."""

import numpy as np
from numpy.typing import NDArray

from miv.data import csr
from miv.report.report_sources import ReportSource

SHOWN_MEMBERS = 32  # of one bag; a longer one says how many more there are


def error_confidence(source: ReportSource) -> NDArray[np.float64]:
    """``(E,)`` how sure the surest wrong model is, from 0 (hardly) to 1; below 0 where no model is wrong.

    How sure is the share of the way from the threshold to the end of the scale. Of exemplars that all models judge
    rightly, the nearest to a mistake has the greatest number.
    """
    label = source.exemplars.label == 1
    surest_wrong = np.full(len(label), -np.inf)
    least_sure = np.full(len(label), np.inf)
    for model in source.models:
        probability, threshold = model.probability, model.point.threshold
        above = (probability - threshold) / max(1 - threshold, 1e-12)
        below = (threshold - probability) / max(threshold, 1e-12)
        sure = np.where(model.verdict, above, below).clip(0, 1)
        surest_wrong = np.maximum(surest_wrong, np.where(model.verdict != label, sure, -np.inf))
        least_sure = np.minimum(least_sure, sure)
    return np.where(np.isfinite(surest_wrong), surest_wrong, -1e-6 - least_sure)


def choose_exemplars(source: ReportSource, most: int) -> NDArray[np.int64]:
    """At most so many exemplars: the most confident errors first, then the right answers nearest to an error."""
    return np.argsort(-error_confidence(source), kind="stable")[:most]


def telling_exemplar(source: ReportSource) -> int:
    """One to explain the idea with: positive, a bag of moderate size, and models that disagree where there are two.

    Among these, one where a model that is right looks at the witness, and one that is wrong looks elsewhere.
    """
    exemplars = source.exemplars
    sizes = exemplars.bag_sizes
    score = np.zeros(len(exemplars))
    score += 8 * (exemplars.label == 1) + 2 * ((sizes >= 4) & (sizes <= 8))
    verdicts = np.stack([model.verdict for model in source.models])  # (M, E)
    score += 4 * (verdicts.any(axis=0) & ~verdicts.all(axis=0))
    score += 3 * verdicts[0]  # the first model named is taken for the one to be shown at its best
    score += source.models[0].probability  # nor is it to be right by a hair
    on_witnesses, elsewhere = np.zeros(len(exemplars)), np.zeros(len(exemplars))
    for model in source.models:
        attention = model.answers.attention
        if attention is not None and exemplars.witness is not None:
            mass = csr.bag_sums(attention * exemplars.witness, exemplars.bag_ptr)
            right = model.verdict == (exemplars.label == 1)
            on_witnesses = np.maximum(on_witnesses, mass * right)
            elsewhere = np.maximum(elsewhere, (1 - mass) * ~right)
    if exemplars.witness is not None:
        score += csr.bag_sums(exemplars.witness, exemplars.bag_ptr) == 1
    return int(np.argmax(score + 3 * on_witnesses + 3 * elsewhere))


def shown_members(source: ReportSource, exemplar: int) -> NDArray[np.int64]:
    """The places in an exemplar's bag that are shown, rising.

    Of a long bag, first the place where each model looks most, a place without a witness where several are equal, so
    that the page can show what its verdict on the reason is about; then witnesses, then where any model looks most.
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
    places = np.lexsort((-looked, ~witness, ~np.isin(np.arange(size), tops)))  # the last key counts first
    return np.sort(places[: max(SHOWN_MEMBERS, len(set(tops)))])
