"""Search: one pass over everything that is kept, then verdicts on the best bags."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from miv.data import csr
from miv.errors import MIVError
from miv.gallery.hits import Chance, Hit, Hits, HitWitness
from miv.gallery.snapshot import Snapshot
from miv.poolings import StoredForm, StoredQueries
from miv.runtime import evaluating
from miv.verifier.engine import EmbeddedExemplars, decide
from miv.verifier.verdict import Asked, Verdict, Verdicts
from miv.verifier.verifying import Rows

if TYPE_CHECKING:
    from miv.verifier.network import Verifier


def search(verifier: "Verifier", form: StoredForm, snapshot: Snapshot, references: Rows, top: int, by: Asked) -> Hits:
    """Find the ``top`` best bags for the features ``(R, C)`` of the references of one query."""
    rule = verifier.reference_rule
    queries = rule.queries(references)  # with the mean of several
    with torch.inference_mode(), evaluating(verifier):
        bags = np.flatnonzero(snapshot.is_live)
        logits = rule.combined(exact_logits(form.prepare(queries), snapshot)[:, bags])
        if not np.isfinite(logits).all():
            raise MIVError(
                f"The verifier's logit for the bag {snapshot.name(int(bags[np.argmin(np.isfinite(logits))]))!r} is NaN "
                "or infinite. The query or the bag has numbers far outside the range of the training data, or the "
                "gallery is damaged."
            )
        best = bags[best_places(logits, top)]
        features, ptr = snapshot.features_of(best)
        verdicts = verdicts_on(verifier, references, features, ptr, by) if len(best) else None
    chance, live = Chance(verifier.operating_point), int(snapshot.is_live.sum())
    hits = []
    if verdicts is not None:
        order = np.argsort(-verdicts.logit, kind="stable")
        hits = [_hit(snapshot, int(best[place]), verdicts[place], chance, live) for place in order]
    return Hits(
        tuple(hits),
        live,
        verifier.operating_point.threshold,
        verifier.operating_point.lower_threshold,
        len(references),
        chance,
    )


def exact_logits(prepared: StoredQueries, snapshot: Snapshot) -> NDArray[np.float32]:
    """Logits ``(R, B)`` of all bags, removed ones included, in one pass over the kept rows."""
    found = []
    ptr = snapshot.ptr if snapshot.per != "bag" else np.arange(snapshot.bags + 1)
    first = 0
    while first < snapshot.bags:
        after = int(np.searchsorted(ptr, ptr[first] + prepared.rows_together, side="right")) - 1
        last = snapshot.without_copy(first, max(first + 1, after))
        rows = snapshot.kept_between(first, last)
        found.append(prepared.logits(rows, snapshot.ptr[first : last + 1] - snapshot.ptr[first]))
        first = last
    return np.concatenate(found, axis=1) if found else np.zeros((1, 0), np.float32)


def best_places(logits: NDArray[np.floating[Any]], top: int) -> NDArray[np.int64]:
    """Places of the ``top`` greatest logits, greatest first; of equal ones, the first added bag first."""
    if top < len(logits):
        least = np.partition(logits, len(logits) - top)[len(logits) - top]
        above, equal = np.flatnonzero(logits > least), np.flatnonzero(logits == least)
        places = np.sort(np.concatenate([above, equal[: top - len(above)]]))
    else:
        places = np.arange(len(logits))
    return np.asarray(places[np.argsort(-logits[places], kind="stable")])


def _hit(snapshot: Snapshot, bag: int, verdict: Verdict, chance: Chance, bags: int) -> Hit:
    names = snapshot.instance_names(bag)
    witnesses = tuple(HitWitness(one.index, one.score, names[one.index]) for one in verdict.witnesses)
    return Hit(
        snapshot.name(bag),
        verdict.verdict,
        verdict.probability,
        witnesses,
        verdict.size,
        chance.of(verdict.probability, bags),
        verdict,
    )


def verdicts_on(verifier: "Verifier", references: Rows, features: Rows, ptr: NDArray[np.int64], by: Asked) -> Verdicts:
    """Verdicts on bags of features ``(T, C)``, for the features ``(R, C)`` of the references of one query."""
    bags, count = len(ptr) - 1, len(references)
    rows = np.concatenate([references, features])
    query = np.tile(np.arange(count), bags)
    bag = np.arange(len(features)) + count
    borders = None if count == 1 else csr.borders([count] * bags)
    return decide(verifier, EmbeddedExemplars.among(rows, query, bag, ptr, borders), by)
