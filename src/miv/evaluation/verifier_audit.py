"""Is a verifier right for the right reason? Its answers for exemplars, and for the same exemplars changed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miv.backbones.cache import embed_exemplars
from miv.data import ExemplarSet, csr
from miv.errors import MIVError
from miv.evaluation.evaluation import evaluate
from miv.evaluation.metrics import auroc
from miv.evaluation.predicting import explain, predict
from miv.evaluation.predictions import Predictions
from miv.files.json import Floats, Integers, Mask
from miv.runtime import Progress, SilentProgress
from miv.verifier.network import Verifier

# Change exemplars so that the right answer is known: remove or add members, or swap the query.

Random = np.random.Generator


class Changed(NamedTuple):
    """Changed exemplars, and the places ``(E',)`` of the originals in the given set."""

    exemplars: ExemplarSet
    places: NDArray[np.int64]


def keep_members(exemplars: ExemplarSet, kept: NDArray[np.bool_]) -> ExemplarSet:
    """Keep the bag members where ``kept`` ``(T,)`` is true, at least one per bag; the labels are unchanged."""
    return replace(
        exemplars,
        bag_ptr=csr.borders(csr.bag_sums(kept, exemplars.bag_ptr)),
        bag_index=exemplars.bag_index[kept],
        witness=None if exemplars.witness is None else exemplars.witness[kept],
    )


def add_members(exemplars: ExemplarSet, added: Sequence[NDArray[np.int64]]) -> ExemplarSet:
    """Append instances that are not witnesses to each bag."""
    ptr = csr.borders([len(instances) for instances in added])
    owner = np.concatenate([exemplars.owner, csr.owners(ptr)])
    order = np.argsort(owner, kind="stable")
    witness = exemplars.witness
    return replace(
        exemplars,
        bag_ptr=exemplars.bag_ptr + ptr,
        bag_index=np.concatenate([exemplars.bag_index, *added])[order],
        witness=None if witness is None else np.concatenate([witness, np.zeros(ptr[-1], bool)])[order],
    )


def repeat_members(exemplars: ExemplarSet, times: int) -> ExemplarSet:
    """Repeat every bag member: a larger bag with the same content."""
    place = np.concatenate([np.tile(np.arange(*span), times) for span in _spans(exemplars)])
    return replace(
        exemplars,
        bag_ptr=exemplars.bag_ptr * times,
        bag_index=exemplars.bag_index[place],
        witness=None if exemplars.witness is None else exemplars.witness[place],
    )


def delete_as_many_others(exemplars: ExemplarSet, witness: NDArray[np.bool_], random: Random) -> ExemplarSet:
    """Remove random non-witnesses, as many as there are witnesses, or all of them."""
    kept = np.ones(len(witness), bool)
    for start, end in _spans(exemplars):
        others = start + np.flatnonzero(~witness[start:end])
        witnesses = end - start - len(others)
        kept[random.choice(others, min(witnesses, len(others)), replace=False)] = False
    return keep_members(exemplars, kept)


def swap_queries(exemplars: ExemplarSet, chosen: NDArray[np.int64], random: Random) -> ExemplarSet | None:
    """Give each chosen bag another query, of the same group and of a class that is not in the bag.

    If classes are unknown, use any other query of the group that is not in the bag. A query of several references is
    swapped as a whole. Exemplars without such a query are dropped; ``None`` if none is left.
    """
    group = groups_of(exemplars)
    queries = {one: _first_of_each_query(exemplars, group == one) for one in np.unique(group[chosen])}
    classes = exemplars.pool.classes
    kept, donors = [], []
    for exemplar in chosen:
        candidates, bag = queries[group[exemplar]], exemplars.bag(exemplar)
        if classes is None:
            own = exemplars.references(exemplar)
            allowed = np.array([not np.isin(exemplars.references(one), [*bag, *own]).any() for one in candidates], bool)
        else:
            taken = {*classes[bag], classes[exemplars.query[exemplar]]}
            allowed = np.array([taken.isdisjoint(classes[exemplars.references(one)]) for one in candidates], bool)
        if allowed.any():
            kept.append(exemplar)
            donors.append(random.choice(candidates[allowed]))
    if not kept:
        return None
    asking, bags = exemplars.subset(np.array(donors)), exemplars.subset(np.array(kept))
    return replace(
        asking,
        bag_ptr=bags.bag_ptr,
        bag_index=bags.bag_index,
        label=np.zeros(len(kept), np.int8),
        witness=None,
        group=bags.group,
    )


def _first_of_each_query(exemplars: ExemplarSet, among: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The first exemplar of each query, of those where the mask is true, in the order of the queries' instances."""
    places = np.flatnonzero(among)
    return places[np.unique(exemplars.query[places], return_index=True)[1]]


def add_distractors(exemplars: ExemplarSet, times: int, other_groups: bool, random: Random) -> Changed | None:
    """Enlarge each bag by a factor with members of negative bags, of its own group or of the others.

    They are never of the query's class, if classes are known, and never already in the bag. Exemplars without
    candidates are dropped; ``None`` if none is left.
    """
    group, classes = groups_of(exemplars), exemplars.pool.classes
    negative = exemplars.label[exemplars.owner] == 0
    of_group = {
        one: np.unique(exemplars.bag_index[negative & ((group[exemplars.owner] == one) != other_groups)])
        for one in np.unique(group)
    }
    kept, added = [], []
    for exemplar in range(len(exemplars)):
        candidates, query = of_group[group[exemplar]], exemplars.query[exemplar]
        allowed = ~np.isin(candidates, [*exemplars.bag(exemplar), *exemplars.references(exemplar)])
        if classes is not None:
            allowed &= classes[candidates] != classes[query]
        fitting = candidates[allowed]
        wanted = int(exemplars.bag_sizes[exemplar]) * (times - 1)
        if len(fitting):
            kept.append(exemplar)
            added.append(random.choice(fitting, wanted, replace=wanted > len(fitting)))
    return Changed(add_members(exemplars.subset(np.array(kept)), added), np.array(kept)) if kept else None


def groups_of(exemplars: ExemplarSet) -> NDArray[np.object_]:
    """The group ``(E,)`` of each exemplar; a single group if the set has none."""
    return np.full(len(exemplars), "", object) if exemplars.group is None else exemplars.group


def _spans(exemplars: ExemplarSet) -> list[tuple[int, int]]:
    ptr = exemplars.bag_ptr.tolist()
    return list(pairwise(ptr))


# Where did it look? Whether the verdict is right, and whether the instance with the highest score is a witness.

Document = dict[str, Any]


def looked_right(ptr: Integers, label: ArrayLike, witness: Mask, scores: Floats) -> tuple[Mask, Mask]:
    """``(E,)`` which exemplars are informative, and in which the instance with the highest score is a witness.

    A positive is informative if its bag holds a witness and something else. If several instances share the highest
    score, all must be witnesses.

    >>> witness, scores = np.array([True, False, True, False]), np.array([2.0, 1.0, 3.0, 3.0])
    >>> tells, right = looked_right(np.array([0, 2, 4]), [1, 1], witness, scores)
    >>> tells.tolist(), right.tolist()
    ([True, True], [True, False])
    """
    top = scores == csr.to_rows(csr.bag_maxima(scores, ptr), ptr)  # (T,)
    tells = (np.asarray(label) == 1) & csr.bag_any(witness, ptr) & csr.bag_any(~witness, ptr)
    return tells, ~csr.bag_any(top & ~witness, ptr)


def reasons(answers: Predictions, yes: Mask, witness: Mask, scores: Floats) -> Document:
    """Verdict right or wrong × witness right or wrong, for informative positives (see ``looked_right``)."""
    tells, right_place = looked_right(answers.ptr, answers.label, witness, scores)
    right, wrong = tells & yes, tells & ~yes
    chance = csr.bag_sums(witness, answers.ptr) / answers.bag_sizes
    return {
        "positives": int(tells.sum()),
        "verdict_right_witness_right": int((right & right_place).sum()),
        "verdict_right_witness_wrong": int((right & ~right_place).sum()),
        "verdict_wrong_witness_right": int((wrong & right_place).sum()),
        "verdict_wrong_witness_wrong": int((wrong & ~right_place).sum()),
        "right_reason": share(right_place[right]),
        "right_reason_chance": float(chance[right].mean()) if right.any() else None,
        "negatives_right": share(~yes[answers.label == 0]),
    }


def share(hits: Mask) -> Document | None:
    """A share of a count with Wilson's 95% interval; ``None`` if the count is 0."""
    from scipy.stats import binomtest

    if len(hits) == 0:
        return None
    count = int(hits.sum())
    interval = binomtest(count, len(hits)).proportion_ci(method="wilson")
    low, high = float(interval.low), float(interval.high)
    return {"share": count / len(hits), "count": count, "of": len(hits), "low": low, "high": high}


@dataclass(frozen=True)
class Subject:
    """A verifier, its exemplars, and the features of their pool."""

    verifier: Verifier
    exemplars: ExemplarSet
    features: NDArray[np.float32]

    def answers(self, exemplars: ExemplarSet) -> Predictions:
        """The verifier's answers for exemplars on the same pool."""
        return predict(self.verifier, exemplars, self.features)

    def yes(self, answers: Predictions) -> Mask:
        """``(E,)`` where the verdict is yes, at the verifier's own operating point."""
        point = self.verifier.operating_point
        return point.verdict(point.probability(answers.logit))


def audit(
    verifier: Verifier,
    exemplars: ExemplarSet,
    *,
    witnesses: str | None = None,
    most: int | None = None,
    seed: int = 0,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> Document:
    """Audit a verifier on exemplars with known witnesses.

    Args:
        verifier: the verifier.
        exemplars: exemplars with witnesses; classes and groups give better queries and distractors.
        witnesses: a method of ``miv.verifier.explain`` that says what the verifier looked at; by default attention, or
            leave-one-out without attention.
        most: maximum number of exemplars; if there are more, a random sample of this size is used.
        seed: start of the random numbers.
        cache: folder of the feature cache; without it, nothing is stored.
        progress: reports progress.

    Returns:
        Plain values for JSON: ``metrics``, ``reasons``, ``delete_witnesses``, ``delete_others``, ``swap_query`` and
        ``sensitivity``; docs/evaluation.md says what each means. A part that the exemplars do not support is ``None``.
    """
    if exemplars.witness is None:
        raise MIVError("The witnesses of these exemplars are unknown. An audit needs a set with known witnesses.")
    progress = progress or SilentProgress()
    random = np.random.default_rng(seed)
    if most is not None and len(exemplars) > most:
        exemplars = exemplars.subset(np.sort(random.choice(len(exemplars), most, replace=False)))
    features = embed_exemplars(verifier.backbone, exemplars, cache, progress)
    subject = Subject(verifier, exemplars, features)
    method = witnesses or ("attention" if verifier.pooling.has_attention else "leave_one_out")
    scores = explain(verifier, exemplars, method, features=features, seed=seed, progress=progress)
    answers = subject.answers(exemplars)
    yes = subject.yes(answers)
    with progress.step("Changing exemplars", total=3 + len(_SENSITIVITY)) as advance:
        document: dict[str, Any] = {
            "exemplars": len(exemplars),
            "positives": int(exemplars.label.sum()),
            "mean_bag": float(exemplars.bag_sizes.mean()),
            "classes_known": exemplars.pool.classes is not None,
            "witnesses_by": method,
            "metrics": {name: _number(value) for name, value in evaluate(answers, score=scores).metrics.items()},
            "reasons": reasons(answers, yes, np.asarray(exemplars.witness), scores),
        }
        document |= delete(subject, answers, yes, random)
        advance(2)
        document["swap_query"] = swap(subject, yes, random)
        advance(1)
        document["sensitivity"] = []
        for row in _SENSITIVITY:
            document["sensitivity"].append(sensitivity(subject, answers, *row, np.random.default_rng(seed)))
            advance(1)
    return document


def delete(subject: Subject, answers: Predictions, yes: Mask, random: np.random.Generator) -> Document:
    """For positives answered yes: the answer without the witnesses, and without as many other instances."""
    exemplars = subject.exemplars
    witness = exemplars.witness
    assert witness is not None  # noqa: S101 - audit has seen to it
    has_both = csr.bag_any(witness, exemplars.bag_ptr) & csr.bag_any(~witness, exemplars.bag_ptr)
    chosen = np.flatnonzero((answers.label == 1) & yes & has_both)
    if len(chosen) == 0:
        return {"delete_witnesses": None, "delete_others": None}
    subset = exemplars.subset(chosen)
    of_subset = subset.witness
    assert of_subset is not None  # noqa: S101
    changed = {
        "delete_witnesses": keep_members(subset, ~of_subset),
        "delete_others": delete_as_many_others(subset, of_subset, random),
    }
    found = {}
    for name, one in changed.items():
        now = subject.answers(one)
        change = float((now.logit - answers.logit[chosen]).mean())
        found[name] = {"turned_to_no": share(~subject.yes(now)), "logit_change": change}
    return found


def swap(subject: Subject, yes: Mask, random: np.random.Generator) -> Document | None:
    """For positives answered yes: the answer for a query of another class."""
    chosen = np.flatnonzero((subject.exemplars.label == 1) & yes)
    changed = swap_queries(subject.exemplars, chosen, random) if len(chosen) else None
    return None if changed is None else {"turned_to_no": share(~subject.yes(subject.answers(changed)))}


_SENSITIVITY = (
    ("as given", 1, ""),
    ("repeated", 2, "repeat"),
    ("repeated", 4, "repeat"),
    ("distractors", 2, "own"),
    ("distractors", 4, "own"),
    ("distractors of other groups", 4, "others"),
)


def sensitivity(
    subject: Subject, given: Predictions, name: str, times: int, how: str, random: np.random.Generator
) -> Document:
    """How the answers change when bags grow, with repeated instances or with distractors.

    Not every exemplar has distractors, so ``given`` in the result has the answers for the same exemplars before the
    change.
    """
    exemplars = subject.exemplars
    changed: Changed | None = Changed(exemplars, np.arange(len(exemplars)))
    if how == "repeat":
        changed = Changed(repeat_members(exemplars, times), np.arange(len(exemplars)))
    elif how:
        changed = add_distractors(exemplars, times, how == "others", random)
    row: Document = {"change": name, "times": times}
    if changed is None:
        return row | dict.fromkeys(("exemplars", "auroc", "yes_positives", "yes_negatives", "i_auroc", "given"))
    now = _figures(subject, subject.answers(changed.exemplars))
    return row | {"exemplars": len(changed.places), **now, "given": _figures(subject, given.take(changed.places))}


def _figures(subject: Subject, answers: Predictions) -> Document:
    yes = subject.yes(answers)
    ranked = evaluate(answers).metrics.get("i_auroc")
    return {
        "auroc": _number(auroc(answers.label, answers.logit)),
        "yes_positives": share(yes[answers.label == 1]),
        "yes_negatives": share(yes[answers.label == 0]),
        "i_auroc": None if ranked is None else _number(ranked),
    }


def _number(value: float) -> float | None:
    return None if np.isnan(value) else value
