"""Is a verifier right for the right reason? Its answers for exemplars, and for the same exemplars changed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miv.backbones.cache import embed_exemplars
from miv.data import ExemplarSet, csr
from miv.errors import MIVError
from miv.evaluation.evaluation import evaluate
from miv.evaluation.metrics import auroc
from miv.evaluation.predicting import explain, predict
from miv.evaluation.predictions import Predictions
from miv.files.arrays import Floats, Integers, Mask
from miv.runtime import Progress, SilentProgress
from miv.verifier.network import Verifier

Document = dict[str, Any]
Random = np.random.Generator

# Change exemplars so that the right answer is known: remove or add members, or swap the query.


def keep_members(exemplars: ExemplarSet, mask: Mask) -> ExemplarSet:
    """Keep the bag members where ``mask`` ``(T,)`` is true, at least one per bag; the labels are unchanged."""
    witness = None if exemplars.witness is None else exemplars.witness[mask]
    ptr = csr.borders(csr.bag_sums(mask, exemplars.bag_ptr))
    return replace(exemplars, bag_ptr=ptr, bag_index=exemplars.bag_index[mask], witness=witness)


def add_members(exemplars: ExemplarSet, added: Sequence[Integers], witness: Mask | None = None) -> ExemplarSet:
    """Append instances to each bag; ``witness`` says which are witnesses, by default none."""
    ptr = csr.borders([len(instances) for instances in added])
    order = np.argsort(np.concatenate([exemplars.owner, csr.owners(ptr)]), kind="stable")
    new = np.zeros(ptr[-1], bool) if witness is None else witness
    known = None if exemplars.witness is None else np.concatenate([exemplars.witness, new])[order]
    index = np.concatenate([exemplars.bag_index, *added])[order]
    return replace(exemplars, bag_ptr=exemplars.bag_ptr + ptr, bag_index=index, witness=known)


def repeat_members(exemplars: ExemplarSet, times: int) -> ExemplarSet:
    """Repeat every bag: a larger bag with the same content."""
    bags = exemplars
    for _ in range(times - 1):
        bags = add_members(bags, [exemplars.bag(number) for number in range(len(exemplars))], exemplars.witness)
    return bags


def delete_as_many_others(exemplars: ExemplarSet, witness: Mask, random: Random) -> ExemplarSet:
    """Remove random non-witnesses, as many as there are witnesses, or all of them."""
    mask = np.ones(len(witness), bool)
    for start, end in zip(exemplars.bag_ptr[:-1].tolist(), exemplars.bag_ptr[1:].tolist(), strict=True):
        others = start + np.flatnonzero(~witness[start:end])
        mask[random.choice(others, min(end - start - len(others), len(others)), replace=False)] = False
    return keep_members(exemplars, mask)


def swap_queries(exemplars: ExemplarSet, chosen: Integers, random: Random) -> ExemplarSet | None:
    """Give each chosen bag another query, of the same group and of a class that is not in the bag.

    If classes are unknown, use any other query of the group that is not in the bag. A query of several references is
    swapped as a whole. Exemplars without such a query are dropped; ``None`` if none is left.
    """
    group, identity = _groups(exemplars), _identities(exemplars)
    receivers, donors = [], []
    for exemplar in chosen.tolist():
        others = np.flatnonzero(group == group[exemplar])
        others = others[np.unique(exemplars.query[others], return_index=True)[1]]  # one exemplar per query
        taken = {*identity[exemplars.bag(exemplar)], *identity[exemplars.references(exemplar)]}
        allowed = [taken.isdisjoint(identity[exemplars.references(other)]) for other in others.tolist()]
        if any(allowed):
            receivers.append(exemplar)
            donors.append(random.choice(others[np.array(allowed)]))
    if not receivers:
        return None
    bags = exemplars.subset(np.array(receivers))
    changes: Document = {"bag_ptr": bags.bag_ptr, "bag_index": bags.bag_index, "witness": None, "group": bags.group}
    return replace(exemplars.subset(np.array(donors)), label=np.zeros(len(receivers), np.int8), **changes)


def add_distractors(
    exemplars: ExemplarSet, times: int, other_groups: bool, random: Random
) -> tuple[ExemplarSet, Integers] | None:
    """Enlarge each bag by a factor with members of negative bags, of its own group or of the others.

    They are never of the query's class, if classes are known, and never already in the bag. Exemplars without
    candidates are dropped: the second result ``(E',)`` has the numbers of the others. ``None`` if none is left.
    """
    group, identity = _groups(exemplars), _identities(exemplars)
    negative = exemplars.label[exemplars.owner] == 0
    by_group = {
        name: np.unique(exemplars.bag_index[negative & ((group[exemplars.owner] == name) != other_groups)])
        for name in np.unique(group)
    }
    numbers, added = [], []
    for exemplar in range(len(exemplars)):
        candidates, own = by_group[group[exemplar]], exemplars.references(exemplar)
        allowed = ~np.isin(candidates, exemplars.bag(exemplar)) & ~np.isin(identity[candidates], identity[own])
        candidates = candidates[allowed]
        count = int(exemplars.bag_sizes[exemplar]) * (times - 1)
        if len(candidates):
            numbers.append(exemplar)
            added.append(random.choice(candidates, count, replace=count > len(candidates)))
    return (add_members(exemplars.subset(np.array(numbers)), added), np.array(numbers)) if numbers else None


def _identities(exemplars: ExemplarSet) -> NDArray[Any]:
    """What may not come twice, ``(P,)``: the class of each instance, or itself if classes are unknown."""
    classes = exemplars.pool.classes
    return np.arange(len(exemplars.pool)) if classes is None else np.unique(classes.astype(str), return_inverse=True)[1]


def _groups(exemplars: ExemplarSet) -> NDArray[np.object_]:
    return np.full(len(exemplars), "", object) if exemplars.group is None else exemplars.group


# Where did it look? Whether the verdict is right, and whether the instance with the highest score is a witness.


def looked_right(ptr: Integers, label: ArrayLike, witness: Mask, scores: Floats) -> tuple[Mask, Mask]:
    """``(E,)`` which exemplars are informative, and in which the instance with the highest score is a witness.

    A positive is informative if its bag holds a witness and something else. If several instances share the highest
    score, all must be witnesses.

    >>> witness, scores = np.array([True, False, True, False]), np.array([2.0, 1.0, 3.0, 3.0])
    >>> informative, right = looked_right(np.array([0, 2, 4]), [1, 1], witness, scores)
    >>> informative.tolist(), right.tolist()
    ([True, True], [True, False])
    """
    top = scores == csr.to_rows(csr.bag_maxima(scores, ptr), ptr)  # (T,)
    informative = (np.asarray(label) == 1) & csr.bag_any(witness, ptr) & csr.bag_any(~witness, ptr)
    return informative, ~csr.bag_any(top & ~witness, ptr)


def reasons(answers: Predictions, yes: Mask, witness: Mask, scores: Floats) -> Document:
    """Verdict right or wrong × witness right or wrong, for informative positives (see ``looked_right``)."""
    informative, right_place = looked_right(answers.ptr, answers.label, witness, scores)
    right, wrong = informative & yes, informative & ~yes
    chance = csr.bag_sums(witness, answers.ptr) / answers.bag_sizes
    return {
        "positives": int(informative.sum()),
        "verdict_right_witness_right": int((right & right_place).sum()),
        "verdict_right_witness_wrong": int((right & ~right_place).sum()),
        "verdict_wrong_witness_right": int((wrong & right_place).sum()),
        "verdict_wrong_witness_wrong": int((wrong & ~right_place).sum()),
        "right_reason": _share(right_place[right]),
        "right_reason_chance": float(chance[right].mean()) if right.any() else None,
        "negatives_right": _share(~yes[answers.label == 0]),
    }


def _share(hits: Mask) -> Document | None:
    """A share of a count with Wilson's 95% interval; ``None`` if the count is 0."""
    from scipy.stats import binomtest

    if len(hits) == 0:
        return None
    count = int(hits.sum())
    interval = binomtest(count, len(hits)).proportion_ci(method="wilson")
    low, high = float(interval.low), float(interval.high)
    return {"share": count / len(hits), "count": count, "of": len(hits), "low": low, "high": high}


@dataclass(frozen=True)
class _Subject:
    """A verifier, its exemplars, and the features of their pool."""

    verifier: Verifier
    exemplars: ExemplarSet
    features: NDArray[np.float32]

    def answers(self, exemplars: ExemplarSet) -> tuple[Predictions, Mask]:
        """The answers, and ``(E,)`` where the verdict is yes, at the verifier's own operating point."""
        answers, point = predict(self.verifier, exemplars, self.features), self.verifier.operating_point
        return answers, point.verdict(point.probability(answers.logit))


# Name, factor and kind of the changes that make bags larger.
_SENSITIVITY = (
    ("as given", 1, ""),
    ("repeated", 2, "repeat"),
    ("repeated", 4, "repeat"),
    ("distractors", 2, "own"),
    ("distractors", 4, "own"),
    ("distractors of other groups", 4, "others"),
)


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
    """Audit one verifier on exemplars with known witnesses; the arguments are those of ``miv.audit``.

    Returns plain values for JSON: ``metrics``, ``reasons``, ``delete_witnesses``, ``delete_others``, ``swap_query`` and
    ``sensitivity``. A part that the exemplars do not support is ``None``.
    """
    if exemplars.witness is None:
        raise MIVError("The witnesses of these exemplars are unknown. An audit needs a set with known witnesses.")
    progress = progress or SilentProgress()
    random = np.random.default_rng(seed)
    if most is not None and len(exemplars) > most:
        exemplars = exemplars.subset(np.sort(random.choice(len(exemplars), most, replace=False)))
    features = embed_exemplars(verifier.backbone, exemplars, cache, progress)
    subject = _Subject(verifier, exemplars, features)
    method = witnesses or ("attention" if verifier.pooling.has_attention else "leave_one_out")
    scores = explain(verifier, exemplars, method, features=features, seed=seed, progress=progress)
    answers, yes = subject.answers(exemplars)
    positives = np.flatnonzero((exemplars.label == 1) & yes)
    with progress.step("Changing exemplars", total=3 + len(_SENSITIVITY)) as advance:
        document: Document = {
            "exemplars": len(exemplars),
            "positives": int(exemplars.label.sum()),
            "mean_bag": float(exemplars.bag_sizes.mean()),
            "classes_known": exemplars.pool.classes is not None,
            "witnesses_by": method,
            "metrics": {name: _number(value) for name, value in evaluate(answers, score=scores).metrics.items()},
            "reasons": reasons(answers, yes, np.asarray(exemplars.witness), scores),
        }
        document |= _delete(subject, answers, positives, random)
        advance(2)
        swapped = swap_queries(exemplars, positives, random) if len(positives) else None
        document["swap_query"] = None if swapped is None else {"turned_to_no": _share(~subject.answers(swapped)[1])}
        advance(1)
        document["sensitivity"] = []
        for change in _SENSITIVITY:
            document["sensitivity"].append(_sensitivity(subject, answers, yes, *change, np.random.default_rng(seed)))
            advance(1)
    return document


def _delete(subject: _Subject, answers: Predictions, positives: Integers, random: Random) -> Document:
    """For positives answered yes: the answer without the witnesses, and without as many other instances."""
    ptr, mask = subject.exemplars.bag_ptr, np.asarray(subject.exemplars.witness)
    chosen = positives[(csr.bag_any(mask, ptr) & csr.bag_any(~mask, ptr))[positives]]
    if len(chosen) == 0:
        return {"delete_witnesses": None, "delete_others": None}
    subset = subject.exemplars.subset(chosen)
    witness = np.asarray(subset.witness)
    document = {}
    for name, changed in (
        ("delete_witnesses", keep_members(subset, ~witness)),
        ("delete_others", delete_as_many_others(subset, witness, random)),
    ):
        now, yes = subject.answers(changed)
        change = float((now.logit - answers.logit[chosen]).mean())
        document[name] = {"turned_to_no": _share(~yes), "logit_change": change}
    return document


def _sensitivity(
    subject: _Subject, before: Predictions, yes: Mask, name: str, times: int, kind: str, random: Random
) -> Document:
    """How the answers change when bags grow; ``given`` has the answers for the same exemplars before the change."""
    exemplars = subject.exemplars
    changed: tuple[ExemplarSet, Integers] | None
    if kind in ("own", "others"):
        changed = add_distractors(exemplars, times, kind == "others", random)
    else:
        changed = repeat_members(exemplars, times) if kind else exemplars, np.arange(len(exemplars))
    row: Document = {"change": name, "times": times}
    if changed is None:
        return row | dict.fromkeys(("exemplars", "auroc", "yes_positives", "yes_negatives", "i_auroc", "given"))
    larger, numbers = changed
    figures = _figures(*subject.answers(larger))
    return row | {"exemplars": len(numbers), **figures, "given": _figures(before.take(numbers), yes[numbers])}


def _figures(answers: Predictions, yes: Mask) -> Document:
    ranked = evaluate(answers).metrics.get("i_auroc")
    return {
        "auroc": _number(auroc(answers.label, answers.logit)),
        "yes_positives": _share(yes[answers.label == 1]),
        "yes_negatives": _share(yes[answers.label == 0]),
        "i_auroc": None if ranked is None else _number(ranked),
    }


def _number(value: float) -> float | None:
    return None if np.isnan(value) else value
