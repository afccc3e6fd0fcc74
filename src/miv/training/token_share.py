"""Fits how much the tokens of texts count beside their vectors, before anything else of the start is fitted."""

from collections.abc import Iterator
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from miv.bags import Bags
from miv.data import ExemplarSet, csr
from miv.data.batches import embedded, make_batch
from miv.io.checked_values import Floats
from miv.models.verifier import Verifier
from miv.poolings.cap_tokens import SHARE, CapTokensPooling, MatchedProduct
from miv.poolings.similar import AlignedNorm
from miv.runtime.evaluation_mode import evaluating

SHARES = (SHARE, 0.08, 0.02, 0.0)  # 0: the vectors alone
_MOST_EXEMPLARS = 1_500  # to choose one of a few numbers
_TOGETHER = 128  # exemplars
_CLEAR = 1.0  # standard errors


def fit_share(verifier: Verifier, train: ExemplarSet, features: NDArray[np.float32], seed: int = 0) -> float | None:
    r"""Choose how much tokens count beside vectors in a verifier with the pooling ``cap_tokens``; return the share.

    For each share :math:`r`, a logistic regression tells the train bags apart by

    .. math:: \max_n \big(\cos(q, v_n) + r \, t_n\big)

    with the similarity :math:`t_n` of the tokens. On four sets of claims, tokens found the witnesses better with any
    label, so the largest share is the rule. Another is taken if its cross-entropy is lower by a standard error of the
    difference.

    Args:
        verifier: changed in place; one with another pooling is left alone (``None``).
        train: the exemplars; each reference of a query counts as an exemplar of its own.
        features: ``(P, C)`` of the pool of ``train``, as the backbone returns them.
        seed: random seed for sampling from many exemplars.
    """
    pooling = verifier.pooling
    if not isinstance(pooling, CapTokensPooling):
        return None
    train = train.by_reference()
    some = train.subset(np.sort(np.random.default_rng([seed, 23]).permutation(len(train))[:_MOST_EXEMPLARS]))
    if some.label.min() == some.label.max():
        return None
    cosine, match = _cosines(verifier, pooling, some, features), token_matches(verifier, pooling, some, features)
    best, losses = SHARES[0], _losses(some, cosine + SHARES[0] * match)
    for share in SHARES[1:]:
        found = _losses(some, cosine + share * match)
        gain = losses - found  # (E,)
        if gain.mean() > _CLEAR * gain.std() / np.sqrt(len(gain)):
            best, losses = share, found
    with torch.no_grad():
        pooling.share.fill_(best)
        cast(MatchedProduct, pooling.similarity).share.fill_(best)
    return best


def told_share(share: float) -> str:
    """One line about the share, for standard error."""
    if share == SHARES[0]:
        return f"Tokens count with a share of {share:g}: no smaller one tells the train bags apart clearly better."
    what = "Vectors count alone, without tokens" if share == 0 else f"Tokens count with a share of only {share:g}"
    return f"{what}: that tells the train bags apart clearly better."


def token_matches(
    verifier: Verifier, pooling: CapTokensPooling, exemplars: ExemplarSet, features: NDArray[np.float32]
) -> Floats:
    """``(T,)`` the similarity of the tokens of each target to those of its query."""
    norm = cast(AlignedNorm, pooling.norm)
    found = []
    with evaluating(verifier), torch.no_grad():
        for query, bags in _batches(verifier, exemplars, features):
            # After the norm, tokens follow the vector.
            tokens, targets = (norm(one)[:, pooling.vector :] for one in (query, bags.values))
            found.append(pooling.match(tokens, bags.with_values(targets))[:, 0].double().cpu().numpy())
    return np.concatenate(found)


def _cosines(
    verifier: Verifier, pooling: CapTokensPooling, exemplars: ExemplarSet, features: NDArray[np.float32]
) -> Floats:
    """``(T,)`` the cosine of each target's vector to that of its query."""
    norm = cast(AlignedNorm, pooling.norm)
    found = []
    with evaluating(verifier), torch.no_grad():
        for query, bags in _batches(verifier, exemplars, features):
            asked, told = norm.direction(query), norm.direction(bags.values)
            found.append((bags.expand(asked) * told).sum(dim=1).double().cpu().numpy())
    return np.concatenate(found)


def _batches(
    verifier: Verifier, exemplars: ExemplarSet, features: NDArray[np.float32]
) -> Iterator[tuple[Tensor, Bags]]:
    lookup = embedded(features, verifier.dtype)
    for first in range(0, len(exemplars), _TOGETHER):
        rows = np.arange(first, min(first + _TOGETHER, len(exemplars)))
        yield make_batch(exemplars, rows, lookup).to(verifier.device).single_queries_and_bags()


def _losses(exemplars: ExemplarSet, each: Floats) -> Floats:
    """``(E,)`` weighted cross-entropy of the bags by the largest value of each."""
    score = csr.bag_maxima(each, exemplars.bag_ptr)
    score = ((score - score.mean()) / max(float(score.std()), 1e-9))[:, None]
    weight = np.ones(len(exemplars)) if exemplars.weight is None else exemplars.weight / exemplars.weight.mean()
    found = LogisticRegression(C=1.0).fit(score, exemplars.label, weight).decision_function(score)
    return np.asarray(np.logaddexp(0, (1 - 2 * exemplars.label.astype(np.float64)) * found) * weight)
