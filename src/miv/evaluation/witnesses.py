"""Witness metrics i-AUROC, i-AP, i-MRR and i-top1: how well a score ranks a bag's witnesses above the rest."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miv.data import csr
from miv.errors import MIVError, unknown_name
from miv.evaluation.metric_checks import as_borders, as_labels, as_scores, as_witnesses
from miv.evaluation.tied_ranks import expected_average_precision, expected_reciprocal_rank
from miv.io.checked_values import Floats

UndefinedWitness = Literal["skip", "nan", "error"]
WITNESS_METRICS = ("i_auroc", "i_ap", "i_mrr", "i_top1")


@dataclass(frozen=True)
class WitnessScores:
    """The metrics of each exemplar, NaN if its bag has no witness or only witnesses.

    Args:
        i_auroc: ``(E,)``, how often a witness gets more attention than another instance; ties count half.
        i_ap: ``(E,)``, average precision of the instances, from the most attention to the least.
        i_mrr: ``(E,)``, 1 / rank of the first witness, averaged over all orders of tied instances.
        i_top1: ``(E,)``, whether the first instance is a witness, averaged in the same way: 1 or 0, or between on ties.
        witness_share: ``(E,)``, witnesses divided by instances: i-top1 of a random order, and i-AP of even attention,
            which is lower than that of a random order because i-AP counts tied instances together.
        ap_by_chance: ``(E,)``, expected i-AP of a random order.
        mrr_by_chance: ``(E,)``, expected i-MRR of a random order.
    """

    i_auroc: Floats
    i_ap: Floats
    i_mrr: Floats
    i_top1: Floats
    witness_share: Floats
    ap_by_chance: Floats
    mrr_by_chance: Floats

    @property
    def defined(self) -> NDArray[np.bool_]:
        """``(E,)``, true if there is something to rank: at least one witness and one other instance."""
        return ~np.isnan(self.i_auroc)


def witness_scores(ptr: ArrayLike, witness: ArrayLike, attention: ArrayLike) -> WitnessScores:
    r"""Score every bag at once: ``ptr`` ``(E + 1,)``, ``witness`` ``(T,)`` bool, ``attention`` ``(T,)``.

    Sort the instances of a bag into steps of equal attention, highest first. For step ``s``, with its witnesses
    :math:`k_s`, others :math:`o_s`, and the cumulative sums of both :math:`K_s, O_s`:

    .. math::
        \text{i-AUROC} = \sum_s \frac{k_s}{K} \frac{(O - O_s) + o_s / 2}{O}, \qquad
        \text{i-AP} = \sum_s \frac{k_s}{K} \frac{K_s}{K_s + O_s}

    scikit-learn gives the same numbers, including ties, but takes one bag per call and a thousand times as long. The
    mean of i-AP over bags is MAP in retrieval. i-MRR and i-top1 are means over all orders within the steps, so even
    attention gets the value of chance:

    .. math:: \text{i-top1} = k_1 / (k_1 + o_1), \qquad
              \text{i-MRR} = \mathbb{E} [ 1 / \text{rank of the first witness} ]
    """
    ptr = as_borders(ptr)
    members, exemplars = int(ptr[-1]), len(ptr) - 1
    score = as_scores("attention", attention, members)
    witness = as_witnesses(witness, members)
    sizes = np.diff(ptr)
    owner = csr.owners(ptr)  # (T,)
    order = np.lexsort((-score, owner))  # each bag stays in place, highest attention first
    score = score[order]
    # A step ends where the attention changes or the bag does: (S,) places and bags.
    end = np.ones(members, bool)
    end[:-1] = (score[1:] != score[:-1]) | (owner[1:] != owner[:-1])
    place = np.flatnonzero(end)
    bag = owner[place]

    found = csr.borders(witness[order])  # (T + 1,) witnesses before each place
    witnesses = np.diff(found[ptr])  # (E,) K
    others = sizes - witnesses  # (E,) O
    in_step = np.diff(found[place + 1], prepend=0)  # (S,) k_s
    others_in_step = np.diff(place + 1, prepend=0) - in_step  # (S,) o_s
    seen = place + 1 - ptr[bag]  # (S,) K_s + O_s
    witnesses_seen = found[place + 1] - found[ptr[bag]]  # (S,) K_s
    others_below = others[bag] - (seen - witnesses_seen)  # (S,) O - O_s

    pairs_won = np.bincount(bag, in_step * (others_below + others_in_step / 2), exemplars)
    precision = np.bincount(bag, in_step * (witnesses_seen / seen), exemplars)
    defined = (witnesses > 0) & (others > 0)
    size_of_step = in_step + others_in_step  # (S,)
    top = np.unique(bag, return_index=True)[1]  # (E,) the first step of each bag
    hits = np.flatnonzero(in_step)
    first = hits[np.unique(bag[hits], return_index=True)[1]]  # of each bag with a witness, its first step with one
    first = first[defined[bag[first]]]
    nothing = np.full(exemplars, np.nan)
    reciprocal, by_chance = nothing.copy(), nothing.copy()
    before = seen[first] - size_of_step[first]
    reciprocal[defined] = expected_reciprocal_rank(before, size_of_step[first], in_step[first])
    by_chance[defined] = expected_reciprocal_rank(np.zeros_like(before), sizes[defined], witnesses[defined])
    return WitnessScores(
        i_auroc=np.divide(pairs_won, witnesses * others, out=nothing.copy(), where=defined),
        i_ap=np.divide(precision, witnesses, out=nothing.copy(), where=defined),
        i_mrr=reciprocal,
        i_top1=np.divide(in_step[top], size_of_step[top], out=nothing.copy(), where=defined),
        witness_share=np.divide(witnesses, sizes, out=nothing, where=defined),
        ap_by_chance=np.where(defined, expected_average_precision(sizes, witnesses), np.nan),
        mrr_by_chance=by_chance,
    )


def witness_metrics(
    ptr: ArrayLike,
    witness: ArrayLike,
    attention: ArrayLike,
    label: ArrayLike,
    undefined: UndefinedWitness = "skip",
) -> dict[str, float]:
    """Return the means over the positive exemplars that have a witness and another instance.

    Args:
        ptr: ``(E + 1,)``, the borders between the bags.
        witness: ``(T,)`` bool.
        attention: ``(T,)``; only the order within a bag matters.
        label: ``(E,)``, 0 or 1; negative exemplars are ignored.
        undefined: how to treat a positive exemplar with no witness or only witnesses: ``skip`` excludes it, as the
            paper does; ``nan`` makes the means NaN; ``error`` raises an error.

    Returns:
        ``i_auroc``, ``i_ap``, ``i_mrr`` and ``i_top1``, NaN if no exemplar is left; ``i_ap_chance``,
        ``i_mrr_chance`` and ``i_top1_chance``, what a random order gives in the mean (its i-AUROC is 0.5); the numbers
        of ``exemplars`` and of ``undefined`` ones.

    >>> witness_metrics([0, 3], [True, False, False], [0.5, 0.3, 0.2], label=[1])["i_ap"]
    1.0
    """
    if undefined not in get_args(UndefinedWitness):
        raise unknown_name("policy for undefined", undefined, get_args(UndefinedWitness))
    scores = witness_scores(ptr, witness, attention)
    positive = as_labels(label, len(scores.i_auroc)) == 1
    counted = positive & scores.defined
    missing = positive & ~scores.defined
    if undefined == "error" and missing.any():
        raise MIVError(
            f"Exemplar {int(missing.argmax())} is positive, but its bag has no witness or only witnesses "
            f"({int(missing.sum())} in total). Remove them, or use undefined='skip'."
        )
    empty = not counted.any() or (undefined == "nan" and missing.any())
    by_bag = {name: getattr(scores, name) for name in WITNESS_METRICS}
    by_bag |= {"i_ap_chance": scores.ap_by_chance, "i_mrr_chance": scores.mrr_by_chance}
    by_bag |= {"i_top1_chance": scores.witness_share}
    return {
        **{name: float("nan") if empty else float(values[counted].mean()) for name, values in by_bag.items()},
        "exemplars": int(counted.sum()),
        "undefined": int(missing.sum()),
    }
