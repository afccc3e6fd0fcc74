"""The gallery as data: what the page's script needs to draw any exemplar, with each distinct instance once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.audit.reasons import looked_right
from miv.data import csr
from miv.evaluation import witness_scores
from miv.io.checked_values import Integers, Mask
from miv.report.choosing import choose_exemplars, error_confidence, shown_members, telling_exemplar
from miv.report.marks import letter, style
from miv.report.match_rows import match_rows, shown_references
from miv.report.report_sources import ReportModel, ReportSource
from miv.report.sheets import picture_sheets

SHOWN_LETTERS = 600  # characters shown of one text
PARTS = 1000  # attention and probability are stored in thousandths, which keeps the file small


def gallery(source: ReportSource, most: int) -> dict[str, Any]:
    """Return plain values for JSON: the chosen exemplars, their shown instances, and each model's answers."""
    exemplars = source.exemplars
    chosen = choose_exemplars(source, most)
    telling = telling_exemplar(source)
    if telling not in chosen:
        chosen = np.append(chosen[: max(0, most - 1)], telling)
    places = [shown_members(source, int(exemplar)) for exemplar in chosen]
    members = np.concatenate([exemplars.bag_ptr[e] + shown for e, shown in zip(chosen, places, strict=True)])
    asked = [shown_references(exemplars, int(exemplar)) for exemplar in chosen]
    drawn, in_bag = _interleaved(asked, exemplars.bag_index[members], [len(shown) for shown in places])
    # In order of first use, so that the first page needs only the first sheet.
    instances, first, row = np.unique(drawn, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    rows = rank[row]
    reference_ptr = csr.borders([len(references) for references in asked])
    references = rows[~in_bag]
    groups, group = (None, None)
    if exemplars.group is not None:
        groups, group = np.unique(exemplars.group[chosen].astype(str), return_inverse=True)
    return {
        "kind": exemplars.pool.kind,
        "exemplar": chosen.tolist(),
        "telling": int(np.flatnonzero(chosen == telling)[0]),
        "error": np.round(error_confidence(source)[chosen], 4).tolist(),
        "label": exemplars.label[chosen].tolist(),
        "size": exemplars.bag_sizes[chosen].tolist(),
        "groups": None if groups is None else groups.tolist(),
        "group": None if group is None else group.tolist(),
        "query": references[reference_ptr[:-1]].tolist(),
        "reference_ptr": reference_ptr.tolist() if exemplars.has_references else None,
        "reference": references.tolist() if exemplars.has_references else None,
        "query_id": None if exemplars.query_id is None else exemplars.query_id[chosen].tolist(),
        "ptr": csr.borders([len(shown) for shown in places]).tolist(),
        "place": np.concatenate(places).tolist(),
        "bag": rows[in_bag].tolist(),
        "witness": None if exemplars.witness is None else exemplars.witness[members].astype(int).tolist(),
        "witnesses": None if exemplars.witness is None else _counts(exemplars.witness, exemplars.bag_ptr, chosen),
        "models": [
            {**_answers(number, model, chosen, members), "matches": match_rows(model, exemplars, chosen, places)}
            for number, model in enumerate(source.models)
        ],
        **_instances(source, instances[order]),
    }


def _interleaved(
    asked: list[NDArray[np.int64]], members: NDArray[np.int64], sizes: list[int]
) -> tuple[NDArray[np.int64], Mask]:
    """Each query's references, then the shown members of its bag; and which of them are members."""
    parts: list[NDArray[np.int64]] = []
    for references, bag in zip(asked, np.split(members, np.cumsum(sizes)[:-1]), strict=True):
        parts += [references, bag]
    in_bag = np.repeat(np.arange(len(parts)) % 2 == 1, [len(part) for part in parts])
    return np.concatenate(parts), in_bag


def _counts(witness: Mask, ptr: Integers, chosen: Integers) -> list[int]:
    """Number of witnesses in the whole bag, shown or not."""
    counts: list[int] = csr.bag_sums(witness, ptr)[chosen].tolist()
    return counts


def _answers(number: int, model: ReportModel, chosen: NDArray[np.int64], members: NDArray[np.int64]) -> dict[str, Any]:
    answers, found = model.answers, model.found
    attention, witness = answers.attention, answers.witness
    ranks = looked = None
    if attention is not None and witness is not None:
        ranks = witness_scores(answers.ptr, witness, attention)
        # Decided here from all members at full precision; the page has only some of them, in thousandths.
        tells, right = looked_right(answers.ptr, answers.label, witness, attention)
        looked = [int(right[e]) if tells[e] else None for e in chosen]
    return {
        "name": model.name,
        "letter": letter(number),
        "style": style(number),
        "looked_right": looked,
        "threshold": model.point.threshold,
        "lower_threshold": model.point.lower_threshold,
        "unsure": None if not model.can_be_unsure else model.unsure[chosen].astype(int).tolist(),
        "unlike": None if model.withheld is None else model.withheld[chosen].astype(int).tolist(),
        "probability": _parts(model.probability[chosen]),
        "verdict": model.verdict[chosen].astype(int).tolist(),
        "attention": None if attention is None else _parts(attention[members]),
        "found": None if found is None else found[members].astype(int).tolist(),
        "i_auroc": None if ranks is None else _known_parts(ranks.i_auroc[chosen]),
        "i_ap": None if ranks is None else _known_parts(ranks.i_ap[chosen]),
    }


def _parts(shares: NDArray[np.float64]) -> list[int]:
    parts: list[int] = np.round(shares * PARTS).astype(int).tolist()
    return parts


def _known_parts(shares: NDArray[np.float64]) -> list[int | None]:
    """Like ``_parts``, with ``None`` for NaN, if a bag has no witness or nothing but witnesses."""
    return [None if np.isnan(share) else round(float(share) * PARTS) for share in shares]


def _instances(source: ReportSource, instances: NDArray[np.int64]) -> dict[str, Any]:
    pool = source.exemplars.pool
    classes = None if pool.classes is None else [str(pool.classes[i]) for i in instances]
    names = None if pool.names is None else [str(pool.names[i]) for i in instances]
    found: dict[str, Any] = {"number": instances.tolist(), "classes": classes, "names": names}
    if pool.kind == "text":
        texts = [str(pool.values[i]) for i in instances]
        return found | {"texts": [t if len(t) <= SHOWN_LETTERS else t[:SHOWN_LETTERS] + "…" for t in texts]}
    if pool.kind == "image":
        return found | {"pictures": picture_sheets(pool, instances)}
    return found
