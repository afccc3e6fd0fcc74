"""Fits how much the tokens of texts count beside their vectors, before anything else of the start is fitted."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from miv.bags import Bags
from miv.data import ExemplarSet, csr
from miv.data.batches import embedded, make_batch
from miv.files.json import Floats
from miv.poolings.cap_tokens import SHARE, CapTokensPooling, MatchedProduct
from miv.poolings.similar import AlignedNorm
from miv.runtime import evaluating
from miv.training.centring import are_of_one_kind
from miv.verifier.network import Verifier

SHARES = (0.0, 0.02, SHARE, 0.08, 0.16, 0.32)  # 0: the vectors alone
OF_ANSWERS = 0.16  # the default if queries and targets are texts of two kinds
_MOST_EXEMPLARS = 1_500  # of each split, to choose one of a few numbers
_TOGETHER = 128  # exemplars
_CLEAR = 1.0  # standard errors


@dataclass(frozen=True, eq=False)
class _Similarities:
    """What decides the share: for ``T`` targets in the bags of ``R`` references.

    Args:
        references: one exemplar per reference.
        owner: ``(R,)`` the number of the exemplar that has this reference.
        cosine: ``(T,)`` of the vectors.
        match: ``(T,)`` similarity of the tokens.
    """

    references: ExemplarSet
    owner: NDArray[np.int64]
    cosine: Floats
    match: Floats

    def nearest(self, share: float) -> Floats:
        """``(R,)`` the largest similarity of each bag."""
        return csr.bag_maxima(self.cosine + share * self.match, self.references.bag_ptr)

    @property
    def weight(self) -> Floats:
        """``(R,)``, 1 on average for an exemplar, whose references share it."""
        weight = np.ones(len(self.owner)) if self.references.weight is None else self.references.weight
        return weight * (len(np.unique(self.owner)) / weight.sum())


def fit_share(
    verifier: Verifier,
    train: ExemplarSet,
    features: NDArray[np.float32],
    seed: int = 0,
    *,
    validation: ExemplarSet | None = None,
    validation_features: NDArray[np.float32] | None = None,
) -> float | None:
    r"""Choose how much tokens count beside vectors in a verifier with the pooling ``cap_tokens``; return the share.

    For each share :math:`r`, a logistic regression separates the bags by

    .. math:: \max_n \big(\cos(q, v_n) + r \, t_n\big)

    with the similarity :math:`t_n` of the tokens. The share with the lowest cross-entropy is taken if that is lower
    than with the default by a standard error of the difference. The default is 0.16 if targets answer queries (a claim
    and its evidence, a question and sentences), for which the tokens were trained, and 0.04 if texts of one kind are
    compared (of a topic, an author, a source): there, tokens help little and a large share does harm. Texts are of one
    kind if some are queries here and targets there. Nothing was learned from validation before, so its bags count as
    much as those of train.
    """
    pooling = verifier.pooling
    if not isinstance(pooling, CapTokensPooling):
        return None
    parts = [_similarities(verifier, pooling, train, features, seed)]
    if validation is not None and validation_features is not None:
        parts.append(_similarities(verifier, pooling, validation, validation_features, seed))
    label = np.concatenate([part.references.label for part in parts])  # (R,)
    if label.min() == label.max():
        return None
    weight = np.concatenate([part.weight for part in parts])  # (R,)
    # References of one query are one observation, and exemplars of the two splits have numbers of their own.
    _, owner = np.unique(np.concatenate([p.owner + at * len(train) for at, p in enumerate(parts)]), return_inverse=True)
    nearest = {share: np.concatenate([part.nearest(share) for part in parts]) for share in SHARES}
    losses = {share: np.bincount(owner, _losses(nearest[share], label, weight)) for share in SHARES}
    default = SHARE if are_of_one_kind(train) else OF_ANSWERS
    best = min(SHARES, key=lambda share: losses[share].mean())
    gain = losses[default] - losses[best]  # (E,)
    if not gain.mean() > _CLEAR * gain.std() / np.sqrt(len(gain)):
        best = default
    with torch.no_grad():
        pooling.share.fill_(best)
        cast(MatchedProduct, pooling.similarity).share.fill_(best)
    return best


def told_share(share: float) -> str:
    """One line about the share, for standard error."""
    if share == 0:
        return "Token matching is off: it did not improve the fit."
    return f"Token similarity has weight {share:g} relative to vector similarity."


def _similarities(
    verifier: Verifier, pooling: CapTokensPooling, exemplars: ExemplarSet, features: NDArray[np.float32], seed: int
) -> _Similarities:
    """Of a sample that is large enough."""
    references = exemplars.by_reference()
    chosen = np.sort(np.random.default_rng([seed, 23]).permutation(len(references))[:_MOST_EXEMPLARS])
    some, owner = references.subset(chosen), csr.owners(exemplars.all_references[0])[chosen]
    cosine, match = _cosines(verifier, pooling, some, features), token_matches(verifier, pooling, some, features)
    return _Similarities(some, owner, cosine, match)


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


def _losses(nearest: Floats, label: NDArray[np.int8], weight: Floats) -> Floats:
    """``(R,)`` weighted cross-entropy of the bags by the largest similarity of each."""
    score = ((nearest - nearest.mean()) / max(float(nearest.std()), 1e-9))[:, None]
    found = LogisticRegression(C=1.0).fit(score, label, weight).decision_function(score)
    return np.asarray(np.logaddexp(0, (1 - 2 * label.astype(np.float64)) * found) * weight)
