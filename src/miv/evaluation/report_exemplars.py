"""The gallery as data: what the page's script needs to draw any exemplar, with each distinct instance once."""

import base64
import io
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from miv.data import ExemplarSet, InstancePool, csr
from miv.evaluation.page import letter, style
from miv.evaluation.predicting import explain
from miv.evaluation.report_source import ReportModel, ReportSource
from miv.evaluation.verifier_audit import looked_right
from miv.evaluation.witnesses import witness_scores
from miv.verifier.network import Verifier

# Choose the exemplars that a report shows, their order, and the members of a long bag.

SHOWN_MEMBERS = 32  # of one bag; a longer bag shows how many more there are


def error_confidence(source: ReportSource) -> NDArray[np.float64]:
    """Confidence ``(E,)`` of the most confident wrong model, from 0 to 1; below 0 if no model is wrong.

    Confidence is the distance from the nearer threshold as a share of the distance to the end of the scale. Among
    exemplars that all models get right, the one closest to an error has the highest value.
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


# For the gallery of a report: how well each reference of a query matches each shown instance.

MOST_REFERENCES = 12  # of one query


def match_rows(
    model: ReportModel, exemplars: ExemplarSet, chosen: NDArray[np.int64], places: list[NDArray[np.int64]]
) -> list[list[list[float]] | None] | None:
    """For each chosen exemplar a matrix: one row per shown reference, one column per shown place of its bag.

    ``None`` for an exemplar with one reference, and for all if there are no references or no verifier is known.
    """
    if not exemplars.has_references or model.verifier is None:
        return None
    several = [place for place, exemplar in enumerate(chosen) if len(exemplars.references(int(exemplar))) > 1]
    matrices: list[list[list[float]] | None] = [None] * len(chosen)
    if not several:
        return matrices
    some = exemplars.subset(chosen[several]).compact()
    scores = explain(Verifier.from_pretrained(model.verifier), some.by_reference(), "alone")
    first = 0
    for number, place in enumerate(several):
        references, size = len(some.references(number)), int(some.bag_sizes[number])
        matrix = model.point.probability(scores[first : first + references * size]).reshape(references, size)
        first += references * size
        matrices[place] = matrix[:MOST_REFERENCES, places[place]].round(3).tolist()
    return matrices


# Combine many small pictures into a few large sheets, which a browser decodes on demand.

SHEET_SIDE = 1536  # pixels; a sheet is decoded in about 20 ms
MOST_PIXELS = 30_000_000  # in total; beyond this, pictures are scaled down
SIDES = (192, 160, 128, 96, 80, 64, 48, 32)
LARGEST_SHARP = 64  # pixels; pictures up to this side are kept exactly


def picture_sheets(pool: InstancePool, instances: NDArray[np.int64]) -> dict[str, Any]:
    """Place the pictures of instances, all of one size, on sheets.

    Returns:
        ``width`` and ``height`` of a picture, the number ``across`` and ``down`` per sheet, and the ``sheets`` as
        image addresses. Picture ``i`` is on sheet ``i // (across * down)``, row by row.
    """
    height, width = _shown_size(pool.values.shape[1], pool.values.shape[2], len(instances))
    across, down = max(1, SHEET_SIDE // width), max(1, SHEET_SIDE // height)
    sheets = []
    for start in range(0, len(instances), across * down):
        part = instances[start : start + across * down]
        sheets.append(_sheet(pool, part, width, height, across))
    return {"width": width, "height": height, "across": across, "down": down, "sheets": sheets}


def _shown_size(height: int, width: int, count: int) -> tuple[int, int]:
    """The size of a picture on its sheet: its original size, or smaller if all of them would not fit."""
    for side in SIDES:
        scale = min(1.0, side / max(height, width))
        shown = max(1, round(height * scale)), max(1, round(width * scale))
        if shown[0] * shown[1] * count <= MOST_PIXELS:
            return shown
    return shown


def _sheet(pool: InstancePool, instances: NDArray[np.int64], width: int, height: int, across: int) -> str:
    colour = pool.values.ndim == 4
    sheet = Image.new("RGB" if colour else "L", (across * width, -(-len(instances) // across) * height))
    for number, instance in enumerate(instances):
        picture = Image.fromarray(np.ascontiguousarray(pool.values[instance]))
        if picture.size != (width, height):
            picture = picture.resize((width, height), Image.Resampling.LANCZOS)
        sheet.paste(picture, (number % across * width, number // across * height))
    file, kind = io.BytesIO(), "png" if max(width, height) <= LARGEST_SHARP and not colour else "jpeg"
    sheet.save(file, kind, **({"quality": 82} if kind == "jpeg" else {}))
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode('ascii')}"


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
    references = [exemplars.references(int(exemplar))[:MOST_REFERENCES] for exemplar in chosen]
    # Each query's references, then the shown members of its bag, in order of first use, so that the first page needs
    # only the first sheet.
    bags = np.split(exemplars.bag_index[members], np.cumsum([len(shown) for shown in places])[:-1])
    parts = [part for pair in zip(references, bags, strict=True) for part in pair]
    in_bag = np.repeat(np.arange(len(parts)) % 2 == 1, [len(part) for part in parts])
    instances, first, row = np.unique(np.concatenate(parts), return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    rows = rank[row]
    reference_ptr = csr.borders([len(part) for part in references])
    reference_rows = rows[~in_bag]
    groups, group = (None, None)
    if exemplars.group is not None:
        groups, group = np.unique(exemplars.group[chosen].astype(str), return_inverse=True)
    counts = None if exemplars.witness is None else csr.bag_sums(exemplars.witness, exemplars.bag_ptr)
    return {
        "kind": exemplars.pool.kind,
        "exemplar": chosen.tolist(),
        "telling": int(np.flatnonzero(chosen == telling)[0]),
        "error": np.round(error_confidence(source)[chosen], 4).tolist(),
        "label": exemplars.label[chosen].tolist(),
        "size": exemplars.bag_sizes[chosen].tolist(),
        "groups": None if groups is None else groups.tolist(),
        "group": None if group is None else group.tolist(),
        "query": reference_rows[reference_ptr[:-1]].tolist(),
        "reference_ptr": reference_ptr.tolist() if exemplars.has_references else None,
        "reference": reference_rows.tolist() if exemplars.has_references else None,
        "query_id": None if exemplars.query_id is None else exemplars.query_id[chosen].tolist(),
        "ptr": csr.borders([len(shown) for shown in places]).tolist(),
        "place": np.concatenate(places).tolist(),
        "bag": rows[in_bag].tolist(),
        "witness": None if exemplars.witness is None else exemplars.witness[members].astype(int).tolist(),
        "witnesses": None if counts is None else counts[chosen].tolist(),  # in the whole bag, shown or not
        "models": [
            {**_answers(number, model, chosen, members), "matches": match_rows(model, exemplars, chosen, places)}
            for number, model in enumerate(source.models)
        ],
        **_instances(exemplars.pool, instances[order]),
    }


def _answers(number: int, model: ReportModel, chosen: NDArray[np.int64], members: NDArray[np.int64]) -> dict[str, Any]:
    answers, witnesses = model.answers, model.witnesses
    attention, witness = answers.attention, answers.witness
    ranks = looked = None
    if attention is not None and witness is not None:
        ranks = witness_scores(answers.ptr, witness, attention)
        # Decided here from all members at full precision; the page has only some of them, in thousandths.
        informative, right = looked_right(answers.ptr, answers.label, witness, attention)
        looked = [int(right[e]) if informative[e] else None for e in chosen]
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
        "found": None if witnesses is None else witnesses[members].astype(int).tolist(),
        "i_auroc": None if ranks is None else _parts(ranks.i_auroc[chosen]),
        "i_ap": None if ranks is None else _parts(ranks.i_ap[chosen]),
    }


def _parts(shares: NDArray[np.float64]) -> list[int | None]:
    """In thousandths, with ``None`` for NaN, if a bag has no witness or nothing but witnesses."""
    return [None if math.isnan(share) else round(share * PARTS) for share in shares.tolist()]


def _instances(pool: InstancePool, instances: NDArray[np.int64]) -> dict[str, Any]:
    shown: dict[str, Any] = {"number": instances.tolist()}
    for name, column in (("classes", pool.classes), ("names", pool.names)):
        shown[name] = None if column is None else [str(column[i]) for i in instances]
    if pool.kind == "text":
        texts = [str(pool.values[i]) for i in instances]
        shown["texts"] = [t if len(t) <= SHOWN_LETTERS else t[:SHOWN_LETTERS] + "…" for t in texts]
    if pool.kind == "image":
        shown["pictures"] = picture_sheets(pool, instances)
    return shown
