"""For the gallery of a report: how well each reference of a query matches each shown instance."""

import numpy as np
from numpy.typing import NDArray

from miv.data import ExemplarSet
from miv.inference.prediction import explain
from miv.models.verifier import Verifier
from miv.report.report_sources import ReportModel

MOST_REFERENCES = 12  # of one query


def shown_references(exemplars: ExemplarSet, exemplar: int) -> NDArray[np.int64]:
    """The references of an exemplar that the page shows: the first ones."""
    return exemplars.references(exemplar)[:MOST_REFERENCES]


def match_rows(
    model: ReportModel, exemplars: ExemplarSet, chosen: NDArray[np.int64], places: list[NDArray[np.int64]]
) -> list[list[list[float]] | None] | None:
    """For each chosen exemplar a matrix: one row per shown reference, one column per shown place of its bag.

    ``None`` for an exemplar with one reference, and for all if there are no references or no verifier is known.
    """
    if not exemplars.has_references or model.verifier is None:
        return None
    several = [place for place, exemplar in enumerate(chosen) if len(exemplars.references(int(exemplar))) > 1]
    found: list[list[list[float]] | None] = [None] * len(chosen)
    if not several:
        return found
    some = exemplars.subset(chosen[several]).compact()
    scores = explain(Verifier.from_pretrained(model.verifier), some.by_reference(), "alone")
    first = 0
    for number, place in enumerate(several):
        references, size = len(some.references(number)), int(some.bag_sizes[number])
        matrix = model.point.probability(scores[first : first + references * size]).reshape(references, size)
        first += references * size
        found[place] = matrix[:MOST_REFERENCES, places[place]].round(3).tolist()
    return found
