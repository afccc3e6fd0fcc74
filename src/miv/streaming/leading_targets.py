"""The targets with the greatest mean attention, chosen in one pass although shares are known only at its end."""

import numpy as np
from numpy.typing import NDArray

from miv.io.checked_values import Floats, Integers, Mask

_PENDING = 512  # new candidates that are compared with each other only when there are this many
_MOST = 5_000  # candidates; comparing them takes their square
_GUARDS = 100
_TOGETHER = 1024  # candidates compared with all others at once


class LeadingTargets:
    r"""The ``top`` targets by :math:`\frac{1}{h} \sum_j e^{s_{nj}} / Z_j`, whatever the sums :math:`Z_j` will be.

    A target is dropped if ``top`` others score at least as high in *every* head, because they then have at least its
    share. With one head these are the ``top`` best. With several, a few more are kept until the sums are known.

    Args:
        top: number of targets.
        heads: ``h``.
    """

    def __init__(self, top: int, heads: int) -> None:
        self.top, self.heads = top, heads
        self.scores: Floats = np.zeros((0, heads))
        self.places: Integers = np.zeros(0, np.int64)
        self.is_lost = False
        """Whether too many targets could be among the leading ones, as with many heads: a second pass finds them."""
        self._checked = 0  # the first of them that are known to be needed
        self.floor: Floats = np.full(heads, -np.inf)
        """A target that is below this in every head is not among the leading ones."""
        self._guards: Floats = np.zeros((0, heads))  # good candidates, which rule out most others

    def add(self, scores: Floats, places: Integers) -> None:
        """Add targets with scores ``(N, h)`` at places ``(N,)`` of the bag."""
        if not self.top or self.is_lost:
            return
        if len(places) > _PENDING:
            possible = (scores >= self._floor_of(scores)).any(axis=1)
            scores, places = scores[possible], places[possible]
        if self.heads > 1 and len(self._guards):
            possible = ~_below(scores, self._guards, self.top)
            scores, places = scores[possible], places[possible]
        self.scores = np.concatenate([self.scores, scores])
        self.places = np.concatenate([self.places, places])
        if len(self.places) - self._checked >= max(_PENDING, self._checked) or self._checked < self.top:
            self._drop()

    def merge(self, other: "LeadingTargets") -> None:
        """Add the leading targets of another part of the bag."""
        if not self.top:
            return
        self.add(other.scores, other.places)
        self._drop()
        self.is_lost |= other.is_lost

    def shares(self, log_sums: Floats) -> tuple[Integers, Floats]:
        """Places and shares ``(k,)`` of the leading targets, largest first, given the logarithms ``(h,)`` of sums."""
        share = np.exp(self.scores - log_sums).mean(axis=1)
        order = np.lexsort((self.places, -share))[: self.top]
        return self.places[order], share[order]

    def ranked(self) -> tuple[Integers, Floats]:
        """Places and scores ``(k,)`` of the leading targets of one head, best first."""
        order = np.lexsort((self.places, -self.scores[:, 0]))[: self.top]
        return self.places[order], self.scores[order, 0]

    def _drop(self) -> None:
        if self.heads == 1:
            kept = np.lexsort((self.places, -self.scores[:, 0]))[: self.top]
        else:
            kept = np.flatnonzero(_better_in_every_head(self.scores, self.places, self.top) < self.top)
        if len(kept) > _MOST:
            self.is_lost, kept = True, kept[:0]
        self.scores, self.places = self.scores[kept], self.places[kept]
        self._checked = len(kept)
        if len(kept) >= self.top:
            self.floor = self._floor_of(self.scores)
            self._guards = self.scores[np.argsort(-self.scores.sum(axis=1))[: _GUARDS + self.top]]

    def _floor_of(self, scores: Floats) -> Floats:
        """A floor by ``top`` of at least as many candidates: those that are good in every head rule out most."""
        if len(scores) < self.top:
            return self.floor
        worst = (scores - scores.max(axis=0)).min(axis=1)
        best = np.argpartition(-worst, self.top - 1)[: self.top]
        return np.asarray(scores[best].min(axis=0))


def _below(scores: Floats, guards: Floats, enough: int) -> Mask:
    """Which targets with scores ``(N, h)`` are below at least so many of the guards ``(G, h)`` in every head."""
    found = np.zeros(len(scores), bool)
    for start in range(0, len(scores), _TOGETHER):
        some = scores[start : start + _TOGETHER]
        better: Mask = guards[None, :, 0] > some[:, 0, None]  # (n, G)
        for head in range(1, scores.shape[1]):
            better &= guards[None, :, head] > some[:, head, None]
        found[start : start + _TOGETHER] = better.sum(axis=1) >= enough
    return found


def _better_in_every_head(scores: Floats, places: Integers, enough: int) -> NDArray[np.int64]:
    """For each candidate the number of others that are at least as good in every head; of equal ones, the first is."""
    order = np.lexsort((places, -scores.sum(axis=1)))  # those after it in this order cannot be better
    ranked = scores[order]
    counts = np.zeros(len(ranked), np.int64)
    for start in range(0, len(ranked), _TOGETHER):
        some = ranked[start : start + _TOGETHER]
        before: Mask = np.ones((len(some), start + len(some)), bool)
        for head in range(scores.shape[1]):
            before &= ranked[None, : start + len(some), head] >= some[:, head, None]
        before &= np.arange(start + len(some)) < np.arange(start, start + len(some))[:, None]
        counts[start : start + len(some)] = before.sum(axis=1)
    found = np.empty_like(counts)
    found[order] = np.minimum(counts, enough)
    return found
