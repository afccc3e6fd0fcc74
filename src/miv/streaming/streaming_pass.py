"""One pass over a bag of any size, for several queries at once."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from miv.errors import MIVError
from miv.files.json import Floats, Mask
from miv.poolings import POOLINGS, PartialPooling, Pooling, form_of
from miv.poolings.kept_form import Rows
from miv.runtime import evaluating
from miv.streaming.chunks import check_queries, check_top, check_width
from miv.streaming.streamed_verdict import StreamedVerdict, streamed_verdicts, warn_of_size

if TYPE_CHECKING:
    from miv.verifier.network import Verifier

_ROWS = 4096  # normed and projected together


class StreamingPass:
    """Pools one bag for ``R`` queries, chunk by chunk; parts of the bag can be pooled apart and merged.

    Args:
        verifier: the verifier.
        queries: features ``(R, C)``.
        top: number of targets to name per query.
        variance: ``(C,)``, from ``BagVariance`` over the whole bag, if ``needs_variance``.
        log_sums: ``(h, R)``, from the ``log_sums`` of a first pass over the whole bag, if that ``needs_second_pass``.

    >>> from miv import Verifier
    >>> verifier = Verifier("cap_dba_l2", channels=4).eval()
    >>> random = np.random.default_rng(0)
    >>> bag, query = (random.normal(size=(size, 4)).astype(np.float32) for size in (9, 1))
    >>> first, second = StreamingPass(verifier, query), StreamingPass(verifier, query)
    >>> first.update(bag[:5])
    >>> second.update(bag[5:], first=5)
    >>> first.merge(second)
    >>> bool(np.isclose(first.finish()[0].probability, verifier.verify(query[0], bag).probability))
    True
    """

    def __init__(
        self,
        verifier: "Verifier",
        queries: Rows,
        top: int = 10,
        variance: Floats | None = None,
        log_sums: Floats | None = None,
    ) -> None:
        queries, top = check_queries(queries, verifier.pooling.channels), check_top(top)
        self.verifier, self.size = verifier, 0
        with torch.inference_mode(), evaluating(verifier):
            self.pooled = _partial_pooling(verifier.pooling, queries, top, variance, log_sums)
        limit = verifier.unlike
        self._unlike_query: Mask = np.zeros(len(queries), bool) if limit is None else limit.unlike(queries)
        self._all_unlike = limit is not None  # until a target is like the training data

    def update(self, features: Rows, first: int | None = None) -> None:
        """Add the features ``(N, C)`` of targets.

        Args:
            features: their features.
            first: place of the first of them in the bag; by default they follow those added before.
        """
        first = self.size if first is None else first
        check_width(features, self.verifier.pooling.channels)
        with torch.inference_mode(), evaluating(self.verifier):
            for start in range(0, len(features), _ROWS):
                part = np.asarray(features[start : start + _ROWS], np.float32)
                if self._all_unlike and self.verifier.unlike is not None:
                    self._all_unlike = bool(self.verifier.unlike.unlike(part).all())
                self.pooled.update(self.pooled.rows(part), first + start)
        self.size += len(features)

    def update_kept(self, rows: Rows, first: int | None = None, all_unlike: bool = False) -> None:
        """Add targets by their kept rows ``(N, K)``; ``all_unlike`` if all of them are unlike the training data."""
        with torch.inference_mode(), evaluating(self.verifier):
            self.pooled.update(rows, self.size if first is None else first)
        self.size += len(rows)
        self._all_unlike &= all_unlike

    def rows(self, features: Rows) -> Rows:
        """What the pass reads of features ``(N, C)``, and a kept bag stores: ``(N, K)``."""
        with torch.inference_mode(), evaluating(self.verifier):
            return self.pooled.rows(np.asarray(features, np.float32))

    def __getstate__(self) -> dict[str, Any]:
        """Sums and leading targets only: what is sent can be merged into a pass, but has no verifier to go on with."""
        return {**self.__dict__, "verifier": None}

    def merge(self, other: "StreamingPass") -> None:
        """Add another part of the same bag, pooled for the same queries."""
        if self.verifier is None:
            self.verifier = other.verifier
            self.pooled.adopt(other.pooled)
        if other.size:
            self.pooled.merge(other.pooled)
            self.size += other.size
            self._all_unlike &= other._all_unlike

    @property
    def needs_second_pass(self) -> bool:
        """Whether a second pass is needed to name the leading targets, as may be with many heads."""
        return any(leading.is_lost for leading in self.pooled.leading)

    @property
    def log_sums(self) -> Floats:
        """The logarithms ``(h, R)`` of the sums of the softmax over the targets so far, for a second pass."""
        return self.pooled.log_sums_so_far()

    def finish(self) -> list[StreamedVerdict]:
        """The verdicts for all queries."""
        if self.verifier is None:
            raise MIVError(
                "An unpickled pass has no verifier. Merge it into a pass with the same queries that has its verifier, "
                "such as a new one."
            )
        if self.needs_second_pass:
            raise MIVError(
                "With this many heads, too many targets could be among the leading ones to name them in one pass. Use "
                "top=0, or read the bag again with a StreamingPass that has the log_sums of this one."
            )
        if not self.size:
            raise MIVError("The bag is empty. Expected at least one instance.")
        with torch.inference_mode(), evaluating(self.verifier):
            pooled = self.pooled.finish()
        warn_of_size(self.verifier, self.size)
        return streamed_verdicts(self.verifier, pooled, self.size, self._unlike_query, self._all_unlike)


def _partial_pooling(
    pooling: Pooling, queries: Rows, top: int, variance: Floats | None, log_sums: Floats | None
) -> PartialPooling:
    partial = form_of(pooling).partial_pooling(queries, top, variance, log_sums)
    if partial is not None:
        return partial
    name = POOLINGS.name_of(type(pooling)) or type(pooling).__name__
    order = " with order=position" if getattr(pooling, "position", None) is not None else ""
    raise MIVError(
        f"The pooling {name}{order} needs the whole bag at once, so it cannot read one in chunks. Expected a verifier "
        "with a pooling that can, such as cap_dba_l2 (without positions), nearest or gabmil."
    )


def needs_variance(verifier: "Verifier") -> bool:
    """Whether a bag must be read twice: for its variance, then for everything else."""
    return form_of(verifier.pooling).needs_variance


class BagVariance:
    r"""Count, mean and squared deviations of the normed features of a part of a bag.

    Parts are joined by the formula of Chan, Golub and LeVeque (1979), which loses no digits to a large mean:

    .. math:: M = M_a + M_b + \delta^2 \, \frac{n_a n_b}{n_a + n_b}, \qquad \delta = \mu_b - \mu_a

    Args:
        verifier: the verifier whose pooling is VEMA.
    """

    def __init__(self, verifier: "Verifier") -> None:
        self.verifier = verifier
        self.count = 0
        self.mean: Floats = np.zeros(verifier.pooling.channels)
        self._deviations: Floats = np.zeros(verifier.pooling.channels)

    def update(self, features: Rows) -> None:
        """Add the features ``(N, C)`` of targets."""
        if not len(features):
            return
        with torch.inference_mode(), evaluating(self.verifier):
            values = torch.from_numpy(np.require(features, np.float32, requirements=["C", "W"]))
            normed = self.verifier.pooling.norm(values.to(self.verifier.device, self.verifier.dtype)).double()
            mean = normed.mean(dim=0)
            deviations = (normed - mean).square().sum(dim=0)
        self._join(len(features), mean.cpu().numpy(), deviations.cpu().numpy())

    def merge(self, other: "BagVariance") -> None:
        """Add another part of the bag."""
        self._join(other.count, other.mean, other._deviations)

    def __getstate__(self) -> dict[str, Any]:
        """A part that is sent to be merged needs no verifier."""
        return {**self.__dict__, "verifier": None}

    def finish(self) -> Floats:
        """The population variance ``(C,)``."""
        return np.asarray(self._deviations / max(self.count, 1))

    def _join(self, count: int, mean: NDArray[np.float64], deviations: NDArray[np.float64]) -> None:
        total = self.count + count
        if not total:
            return
        gap = mean - self.mean
        self._deviations = self._deviations + deviations + gap**2 * (self.count * count / total)
        self.mean = self.mean + gap * (count / total)
        self.count = total
