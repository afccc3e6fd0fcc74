"""Is a verifier right for the right reason? Its answers for exemplars, and for the same exemplars changed."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.audit.changes import (
    Changed,
    add_distractors,
    delete_as_many_others,
    keep_members,
    repeat_members,
    swap_queries,
)
from miv.audit.reasons import Document, reasons, share
from miv.backbones.feature_cache import embed_exemplars
from miv.data import ExemplarSet, csr
from miv.errors import MIVError
from miv.evaluation import Predictions, auroc, evaluate
from miv.inference.prediction import explain, predict
from miv.io.checked_values import Mask
from miv.models.verifier import Verifier
from miv.runtime.progress import Progress, SilentProgress


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
        witnesses: a method of ``miv.explain`` that says what the verifier looked at; by default attention, or
            leave-one-out without attention.
        most: maximum number of exemplars; if there are more, a random sample of this size is used.
        seed: start of the random numbers.
        cache: folder of the feature cache; without it, nothing is stored.
        progress: reports progress.

    Returns:
        Plain values for JSON: ``metrics``, ``reasons``, ``delete_witnesses``, ``delete_others``, ``swap_query`` and
        ``sensitivity``; docs/audit.md says what each means. A part that the exemplars do not support is ``None``.
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
