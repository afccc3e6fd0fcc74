"""Is a verifier right for the right reason? Its answers for exemplars, and for the same exemplars changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from miv.backbones.cache import embed_exemplars
from miv.data import ExemplarSet, csr
from miv.errors import MIVError
from miv.evaluation.clusters import rate_interval
from miv.evaluation.plain_methods import score_controls, warn_of_leaks
from miv.evaluation.predicting import Predictions, explain, predict
from miv.evaluation.runs import refuse_unfinished, short_names
from miv.files.arrays import Floats, Integers, Mask
from miv.files.cache import feature_folder
from miv.files.weights import hash_of_weights
from miv.runtime import Progress, RichProgress, SilentProgress, table_of
from miv.tasks.opening import Exemplars, open_one
from miv.verifier.explain import check_method
from miv.verifier.network import Verifier

Document = dict[str, Any]
StrPath = str | PathLike[str]
Random = np.random.Generator

# Change exemplars so that the right answer is known: remove members, or swap the query.


def keep_members(exemplars: ExemplarSet, mask: Mask) -> ExemplarSet:
    """Keep the bag members where ``mask`` ``(T,)`` is true, at least one per bag; the labels are unchanged."""
    witness = None if exemplars.witness is None else exemplars.witness[mask]
    ptr = csr.borders(csr.bag_sums(mask, exemplars.bag_ptr))
    return replace(exemplars, bag_ptr=ptr, bag_index=exemplars.bag_index[mask], witness=witness)


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
    classes, receivers, donors = exemplars.pool.classes, [], []
    group = np.full(len(exemplars), "", object) if exemplars.group is None else exemplars.group
    identity = np.arange(len(exemplars.pool)) if classes is None else classes.astype(str)  # what may not come twice
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
    """A share of a count with its 95% interval; ``None`` if the count is 0."""
    if len(hits) == 0:
        return None
    low, high = rate_interval(hits, np.arange(len(hits)))
    return {"share": float(hits.mean()), "count": int(hits.sum()), "of": len(hits), "low": low, "high": high}


def audit_verifier(
    verifier: Verifier,
    exemplars: ExemplarSet,
    *,
    witnesses: str | None = None,
    most: int | None = None,
    seed: int = 0,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> Document:
    """Audit one verifier; the arguments are those of ``audit``. A part without enough exemplars is ``None``."""
    if exemplars.witness is None:
        raise MIVError("The witnesses of these exemplars are unknown. An audit needs a set with known witnesses.")
    method = witnesses or ("attention" if verifier.pooling.has_attention else "leave_one_out")
    check_method(verifier.pooling, method)  # before the work
    progress = progress or SilentProgress()
    random = np.random.default_rng(seed)
    if most is not None and len(exemplars) > most:
        exemplars = exemplars.subset(np.sort(random.choice(len(exemplars), most, replace=False)))
    features = None  # of pairs, which every change of an exemplar makes anew
    if not verifier.backbone.reads_pairs:
        features = embed_exemplars(verifier.backbone, exemplars, cache, progress)

    def answered(some: ExemplarSet) -> tuple[Predictions, Mask]:
        """The answers, and where the verdict is yes at the verifier's own operating point."""
        answers, point = predict(verifier, some, features), verifier.operating_point
        return answers, point.verdict(point.probability(answers.logit))

    scores = explain(verifier, exemplars, method, features=features, progress=progress)
    answers, yes = answered(exemplars)
    own = verifier.backbone.paired(exemplars)  # each query, and each target of a bag, as it is embedded
    embedded = embed_exemplars(verifier.backbone, own, cache, progress) if features is None else features
    controls = score_controls(own, embedded[:, : verifier.backbone.vector_channels])
    warn_of_leaks(controls, exemplars, "these exemplars")
    positives = np.flatnonzero((exemplars.label == 1) & yes)
    with progress.step("Changing exemplars", total=3) as advance:
        document: Document = {
            "exemplars": len(exemplars),
            "positives": int(exemplars.label.sum()),
            "mean_bag": float(exemplars.bag_sizes.mean()),
            "classes_known": exemplars.pool.classes is not None,
            "witnesses_by": method,
            "controls": controls,
            "reasons": reasons(answers, yes, np.asarray(exemplars.witness), scores),
        }
        # Of positives answered yes, those that can lose their witnesses, or as many other instances.
        ptr, mask = exemplars.bag_ptr, np.asarray(exemplars.witness)
        chosen = positives[(csr.bag_any(mask, ptr) & csr.bag_any(~mask, ptr))[positives]]
        document |= {"delete_witnesses": None, "delete_others": None}
        if len(chosen):
            subset = exemplars.subset(chosen)
            witness = np.asarray(subset.witness)
            others = delete_as_many_others(subset, witness, random)
            for name, changed in (("delete_witnesses", keep_members(subset, ~witness)), ("delete_others", others)):
                now, still = answered(changed)
                change = float((now.logit - answers.logit[chosen]).mean())
                document[name] = {"turned_to_no": _share(~still), "logit_change": change}
        advance(2)
        swapped = swap_queries(exemplars, positives, random) if len(positives) else None
        document["swap_query"] = None if swapped is None else {"turned_to_no": _share(~answered(swapped)[1])}
        advance(1)
    return document


# The audits of several verifiers on the same exemplars, as one document and as tables with one row per model.


@dataclass(frozen=True)
class AuditReport:
    """The setup of an audit, and the results of each model."""

    about: dict[str, Any]  # the data and their fingerprint, the split, the seed
    models: dict[str, Document]  # results of ``audit``, with pooling, goal and threshold, and the hash of the weights

    def document(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        return {"about": self.about, "models": self.models}

    def text(self) -> str:
        """Tables for a terminal; ``print(report)`` shows the same."""
        first = next(iter(self.models.values()))
        about = (
            f"{self.about['data']}, {self.about['split']}: {first['exemplars']:,} exemplars, {first['positives']:,} "
            f"positive, {first['mean_bag']:.1f} instances per bag. Seed {self.about['seed']}."
        )
        known = all(model["classes_known"] for model in self.models.values())
        query = "with a query of another class" if known else "with another query (whose class is not known)"
        why = (
            "Positives by verdict (yes is right) and by whether the instance with the highest score is a witness. The "
            "right reason: the share of yeses that look at a witness; by chance, the share of witnesses in those bags. "
            "Query alone and bag alone: the AUROC of a logistic regression on nothing else; above 0.5, the label leaks."
        )
        follows = (
            "Share of the true positives that become a no, with a 95% interval, and the mean change of the logit. "
            f"Without its witnesses, or {query}, a bag should get a no; without as many others, still a yes."
        )
        reason, follow = (
            table_of([{"model": name, **row(model)} for name, model in self.models.items()])
            for row in (_reason_row, _follow_row)
        )
        parts = [about, "Right for the right reason", reason, why, "Does the verdict follow?", follow, follows]
        return "\n\n".join(parts)

    __str__ = text


def _reason_row(model: Document) -> Document:
    counts, chance = model["reasons"], model["reasons"]["right_reason_chance"]
    return {
        "witnesses by": model["witnesses_by"],
        "yes, witness": counts["verdict_right_witness_right"],
        "yes, other": counts["verdict_right_witness_wrong"],
        "no, witness": counts["verdict_wrong_witness_right"],
        "no, other": counts["verdict_wrong_witness_wrong"],
        "right reason": _percent(counts["right_reason"]),
        "by chance": None if chance is None else f"{chance:.0%}",
        "no to negatives": _percent(counts["negatives_right"]),
        "query alone": model["controls"]["query_only"],
        "bag alone": model["controls"]["bag_only"],
    }


def _follow_row(model: Document) -> Document:
    row: Document = {}
    for title in ("delete_witnesses", "delete_others", "swap_query"):
        change, words = model[title] or {}, title.replace("_", " ")
        share = change.get("turned_to_no")
        row[f"{words}: no"] = share and f"{_percent(share)} [{100 * share['low']:.0f}, {100 * share['high']:.0f}]"
        if "logit_change" in change:
            row[f"{words}: logit"] = f"{change['logit_change']:+.2f}"
    return row


def _percent(share: Document | None) -> str:
    return "–" if share is None else f"{share['share']:.0%}"


def audit(
    models: StrPath | Sequence[StrPath] | Mapping[str, Verifier],
    exemplars: Exemplars,
    *,
    split: str = "test",
    witnesses: str | None = None,
    most: int | None = 5000,
    seed: int = 0,
    cache: StrPath | None = None,
    verbose: bool = False,
) -> AuditReport:
    """Check whether verifiers are right for the right reason; several are compared in the same tables.

    Args:
        models: runs, verifier folders or names on the hub, or verifiers by name.
        exemplars: exemplars with known witnesses: an ``ExemplarSet``, a dict of them by split, a folder of splits, or
            the folder of one set.
        split: the split to use if there are several.
        witnesses: how to rank witnesses: ``attention``, ``alone`` or ``leave_one_out``. By
            default attention, or leave-one-out if the pooling has no attention.
        most: maximum number of exemplars; larger splits are sampled.
        seed: random seed.
        cache: as in ``miv.evaluate``.
        verbose: whether to show progress on standard error.
    """
    chosen = open_one(exemplars, split)
    if not isinstance(models, Mapping):
        paths = [str(models)] if isinstance(models, str | PathLike) else list(map(str, models))
        for path in paths:
            refuse_unfinished(Path(path))
        models = dict(zip(short_names(paths), map(Verifier.from_pretrained, paths), strict=True))
    progress = RichProgress() if verbose else SilentProgress()
    cache, documents = feature_folder(None if cache is None else Path(cache)), {}
    for name, verifier in models.items():
        point = verifier.operating_point
        about = {"pooling": verifier.configuration["pooling"], "goal": point.goal, "threshold": point.threshold}
        about["weights"] = hash_of_weights(verifier.state_dict())
        options: dict[str, Any] = {"witnesses": witnesses, "most": most, "seed": seed, "cache": cache}
        documents[name] = about | audit_verifier(verifier, chosen, **options, progress=progress)
    where = str(exemplars) if isinstance(exemplars, str | PathLike) else "exemplars in memory"
    about = {"data": where, "split": split, "fingerprint": chosen.fingerprint, "seed": seed}
    return AuditReport(about, documents)
