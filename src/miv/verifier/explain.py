"""Scores for the instances of bags, by any method and for any pooling."""

from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from miv.bags import Bags
from miv.bags.borders import borders_of
from miv.data import csr
from miv.errors import MIVError, unknown_name
from miv.files.arrays import Floats
from miv.poolings import Pooling
from miv.poolings.msa import SelfAttentionPooling
from miv.runtime import pause
from miv.verifier.decisions import WitnessesBy
from miv.verifier.network import Verifier

METHODS: tuple[str, ...] = get_args(WitnessesBy)
ROWS = 1 << 15  # instances pooled per call
_MOST_FOR_SUBSETS = 2000  # instances per bag of msa
# A drop of the logit below this many rounding errors counts as 0, relative to the logit if that is above 1.
_ROUNDINGS = 16


def explain_features(verifier: Verifier, query: Tensor | Bags, bags: Bags, method: str = "leave_one_out") -> Tensor:
    """How much each instance contributes to a yes: queries ``(B, C)`` and bags of ``(T, C)`` to scores ``(T,)``.

    Args:
        verifier: in evaluation mode. ``attention`` needs a pooling with attention.
        query: features of the queries, or ``Bags`` with the references of each.
        bags: features of the bags.
        method: one of ``METHODS``. All but ``attention``, whose shares sum to 1 in each bag, are in units of the logit
            and may be negative.

    >>> from miv import Verifier
    >>> verifier = Verifier("mi_net", channels=4).eval()
    >>> bags = Bags.from_list([torch.randn(3, 4), torch.randn(1, 4)])
    >>> explain_features(verifier, torch.randn(2, 4), bags, "leave_one_out").shape
    torch.Size([4])
    """
    check_method(verifier.pooling, method)

    def logits_of(query: Tensor | Bags, bags: Bags) -> Tensor:
        return verifier.verify_features(query, bags).logit

    with torch.inference_mode():
        if method == "attention":
            attention = verifier.verify_features(query, bags).attention
            assert attention is not None  # noqa: S101 - by the check
            return attention
        if method == "alone":
            return logits_alone(logits_of, query, bags)
        largest = int(bags.sizes.max())
        if isinstance(verifier.pooling, SelfAttentionPooling) and largest > _MOST_FOR_SUBSETS:  # it would take hours
            raise MIVError(
                f"A bag has {largest:,} instances. {method} with the pooling msa takes at most {_MOST_FOR_SUBSETS:,}. "
                "Use alone for the witnesses, or none for the verdict only."
            )
        return leave_one_out(logits_of, query, bags)


def check_method(pooling: Pooling, method: str) -> None:
    """Raise an error for an unknown method, or one that the pooling does not support."""
    if method not in METHODS:
        raise unknown_name("method of explaining", method, METHODS)
    if method == "attention" and not pooling.has_attention:
        raise MIVError("This pooling has no attention. Use alone or leave_one_out instead.")


def as_shares(
    scores: Floats, method: WitnessesBy, logit: Floats, ptr: NDArray[np.int64], dtype: torch.dtype = torch.float32
) -> Floats:
    r"""Convert scores ``(T,)`` of ``explain_features`` to shares, which are not negative and sum to 1 in each bag.

    Attention is already shares. Scores :math:`\phi_n` in units of the logit become

    .. math:: a_n = \max(\phi_n, 0) \Big/ \sum_m \max(\phi_m, 0)

    and :math:`1 / N` each if none is positive. Scores of ``alone``, which are logits :math:`z_n`, become

    .. math:: a_n = \sigma(z_n) \Big/ \sum_m \sigma(z_m)

    so two instances that each suffice get equal shares, and instances still differ if none suffices.

    ``logit`` ``(E,)`` and ``dtype`` are those of the verifier, so that a score within rounding error counts as 0.

    >>> as_shares(np.array([3.0, -1.0, 1.0, -2.0, 0.0]), "leave_one_out", np.zeros(2), np.array([0, 3, 5])).tolist()
    [0.75, 0.0, 0.25, 0.5, 0.5]
    """
    if method == "attention":
        return scores
    if method == "alone":
        from scipy.special import expit

        positive = expit(scores)
    else:
        rounding = _ROUNDINGS * torch.finfo(dtype).eps * np.maximum(1.0, np.abs(logit))  # (E,)
        positive = np.where(scores > csr.to_rows(rounding, ptr), scores, 0.0)
    total = csr.to_rows(csr.bag_sums(positive, ptr), ptr)  # (T,) of the bag of each instance
    even = 1 / csr.to_rows(np.diff(ptr), ptr)
    return np.divide(positive, total, out=even, where=total > 0)


# From the features of queries (B, C), or of their references, and of bags (T, C) to logits (B,).
LogitFunction = Callable[[Any, Bags], Tensor]


def logits_alone(logits_of: LogitFunction, query: Tensor | Bags, bags: Bags) -> Tensor:
    r"""The logit ``(T,)`` of each instance as its own bag: :math:`f(\{n\})`, in ragged batches of bags of one.

    Unlike a share, it does not depend on the rest of the bag, so instances of different bags are comparable, and a bag
    without a witness has only low scores.
    """
    logits = []
    together = max(1, ROWS // _times_pooled(query))
    for rows, owner in zip(bags.values.split(together), bags.owner.split(together), strict=True):
        pause()
        borders = torch.arange(len(rows) + 1, device=rows.device)
        logits.append(logits_of(query[owner], Bags(rows, borders)))
    return torch.cat(logits)


def leave_one_out(logits_of: LogitFunction, query: Tensor | Bags, bags: Bags) -> Tensor:
    r"""The drop ``(T,)`` float64 of the logit without the instance: :math:`f(X) - f(X \setminus \{n\})`.

    The logit of an empty bag is 0, a probability of one half, so the score of a single instance is the whole logit of
    its bag.
    """
    without = torch.zeros(len(bags.values), dtype=torch.float64)
    instances = (bags.sizes[bags.owner] > 1).nonzero().squeeze(1)  # (R,) those that leave others behind
    pooled = csr.borders(bags.sizes[bags.owner[instances]].tolist())
    for first, last in csr.batches(pooled, max(1, ROWS // _times_pooled(query))):
        pause()
        left_out = instances[first:last]
        owner = bags.owner[left_out]
        whole = bags[owner]  # the bag of each of these instances
        stays = torch.ones(len(whole.values), dtype=torch.bool, device=whole.device)
        stays[whole.ptr[:-1] + left_out - bags.ptr[owner]] = False
        rest = Bags(whole.values[stays], borders_of(whole.sizes - 1, whole.values))
        without[left_out.cpu()] = logits_of(query[owner], rest).double().cpu()
    return bags.expand(logits_of(query, bags)[:, None])[:, 0].double().cpu() - without


def _times_pooled(query: Tensor | Bags) -> int:
    """How often a bag is pooled for a logit: with several references, once for each and once for their mean."""
    return 1 + int(query.sizes.max()) if isinstance(query, Bags) else 1


def instances_pooled(method: str, size: int, references: int = 1) -> int:
    """About how many instances are pooled to verify and explain a bag; several references pool it once more each.

    >>> instances_pooled("attention", 100), instances_pooled("leave_one_out", 100), instances_pooled("alone", 100, 3)
    (100, 10100, 800)
    """
    explained = {"alone": size, "leave_one_out": size * size}.get(method, 0)
    return (size + explained) * (1 if references == 1 else 1 + references)
