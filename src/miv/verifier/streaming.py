"""Verify queries against one bag of any size, which is read in chunks, in parts that merge."""

from collections.abc import Iterator
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from miv.errors import MIVError
from miv.files.arrays import Floats, Mask
from miv.files.images import Fit
from miv.poolings import POOLINGS, PartialBag, Rows, form_of
from miv.runtime import Progress, SilentProgress, evaluating
from miv.verifier.chunks import BagChunks, ChunkReader, check_chunk, check_queries, query_features
from miv.verifier.engine import not_finite, witnesses_by
from miv.verifier.network import Verifier
from miv.verifier.out_of_distribution import Flags, flags_of, reason_of
from miv.verifier.verdict import Verdict, Witness

_ROWS = 4096  # normed and projected together


class StreamingPass:
    """Pools one bag for ``R`` queries, chunk by chunk; parts of the bag can be pooled apart and merged.

    Args:
        verifier: the verifier.
        queries: features ``(R, C)``.
        top: number of targets to name per query.
        variance: ``(C,)``, from ``BagVariance`` over the whole bag, if ``needs_variance``.
        log_sums: ``(h, R)``, from the ``log_sums`` of a first pass over the whole bag, if that ``needs_second_pass``.
        foreign: ``(R,)`` bool, which queries are out of distribution whatever their features.

    >>> from miv import Verifier
    >>> verifier = Verifier("cap_dba_l2", channels=4, pooling_options={"heads": 1}).eval()
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
        verifier: Verifier,
        queries: Rows,
        top: int = 10,
        variance: Floats | None = None,
        log_sums: Floats | None = None,
        foreign: Mask | None = None,
    ) -> None:
        queries = check_queries(queries, verifier.pooling.channels)
        if isinstance(top, bool) or not isinstance(top, Integral) or top < 0:
            raise MIVError(f"top is {top!r}. Expected the number of targets to name, from 0.")
        self.verifier: Verifier = verifier
        self.size: int = 0
        with torch.inference_mode(), evaluating(verifier):
            self._pooled: PartialBag = _partial_bag(verifier, queries, int(top), variance, log_sums)
        self._query_flags: Flags = self._flags(queries)
        if foreign is not None:
            self._query_flags = np.maximum(self._query_flags, foreign)
        self._least_flag: int = 2  # of the targets so far

    def update(self, features: Rows, first: int | None = None) -> None:
        """Add the features ``(N, C)`` of targets; ``first`` is the place of the first, by default after the last."""
        first = self.size if first is None else first
        check_chunk(features, self.verifier.pooling.channels)
        with torch.inference_mode(), evaluating(self.verifier):
            for start in range(0, len(features), _ROWS):
                part = np.asarray(features[start : start + _ROWS], np.float32)
                if self._least_flag:
                    self._least_flag = min(self._least_flag, int(self._flags(part).min()))
                self._pooled.update(self._pooled.queries.form.rows_of_part(part), first + start)
        self.size += len(features)

    def _flags(self, features: Rows) -> Flags:
        return flags_of(self.verifier.unlike, features, self.verifier.backbone.kind)

    def __getstate__(self) -> dict[str, Any]:
        """Without the verifier: what is sent to another process can only be merged."""
        return {**self.__dict__, "verifier": None}

    def merge(self, other: "StreamingPass") -> None:
        """Add another part of the same bag, pooled for the same queries."""
        if self.verifier is None:
            self.verifier, self._pooled.queries = other.verifier, other._pooled.queries
        if other.size:
            self._pooled.merge(other._pooled)
            self.size += other.size
            self._least_flag = min(self._least_flag, other._least_flag)

    @property
    def needs_second_pass(self) -> bool:
        """Whether a second pass is needed to name the leading targets, as with several heads."""
        return self._pooled.needs_second_pass

    @property
    def log_sums(self) -> Floats:
        """The logarithms ``(h, R)`` of the sums of the softmax over the targets so far, for a second pass."""
        return self._pooled.sums.log_sums

    def finish(self) -> list[Verdict]:
        """The verdicts for all queries."""
        if self.verifier is None:
            raise MIVError("An unpickled pass has no verifier. Merge it into one that has its verifier.")
        if not self.size:
            raise MIVError("The bag is empty. Expected at least one instance.")
        if self.needs_second_pass:
            raise MIVError(
                "With several heads, the leading targets are known only after a second pass. Use a second "
                "StreamingPass with the log_sums of this one, or top=0; a bag that can be read only once needs top=0."
            )
        with torch.inference_mode(), evaluating(self.verifier):
            logit, places, shares = self._pooled.finish()
        if not np.isfinite(logit).all():
            raise not_finite("logit", f"query {int((~np.isfinite(logit)).argmax())}")
        if len(places[0]) and (method := witnesses_by(self.verifier, None)) != "attention":
            raise MIVError(
                f"The verifier's witness rule was calibrated on {method}, but a bag in chunks has only attention. Use "
                "top=0, or calibrate with --witnesses attention."
            )
        return [self._verdict(query, float(logit[query]), places[query], shares[query]) for query in range(len(logit))]

    def _verdict(self, query: int, logit: float, places: NDArray[np.int64], shares: Floats) -> Verdict:
        """Apply the operating point to the logit and the leading targets of one query."""
        point = self.verifier.operating_point
        probability = float(point.probability(np.array([logit]))[0])
        leading = tuple(Witness(int(place), float(share)) for place, share in zip(places, shares, strict=True))
        marked = point.witness_rule.chosen(probability, not point.rejected(probability), shares, self.size)
        reason = reason_of(int(self._query_flags[query]), self._least_flag)
        verdict = Verdict(
            verdict=bool(point.verdict(probability)) and reason is None,
            probability=probability,
            threshold=point.threshold,
            witnesses=tuple(target for target, is_marked in zip(leading, marked, strict=True) if is_marked),
            witnesses_by="attention",
            shares=None,
            attention=None,
            size=self.size,
            lower_threshold=point.lower_threshold,
            logit=logit,
            is_streamed=True,
            leading=leading,
            withheld=reason,
            warnings=point.warnings(self.size),
        )
        return replace(verdict, chance_of_error=point.chance_of_error(verdict.decision))


def _partial_bag(
    verifier: Verifier, queries: Rows, top: int, variance: Floats | None, log_sums: Floats | None
) -> PartialBag:
    pooling = verifier.pooling
    partial = form_of(pooling).partial_bag(queries, top, variance, log_sums)
    if partial is not None:
        return partial
    name = POOLINGS.name_of(type(pooling)) or type(pooling).__name__
    raise MIVError(
        f"The pooling {name} needs the whole bag at once, so it cannot read one in chunks. Expected a verifier "
        "with a pooling that can, such as cap_dba_l2, nearest or gabmil."
    )


def needs_variance(verifier: Verifier) -> bool:
    """Whether a bag must be read twice: for its variance, then for everything else."""
    return form_of(verifier.pooling).needs_variance


class BagVariance:
    r"""Count, mean and squared deviations of the normed features of a part of a bag.

    Parts are joined by the formula of Chan, Golub and LeVeque (1979), which loses no digits to a large mean:

    .. math:: M = M_a + M_b + \delta^2 \, \frac{n_a n_b}{n_a + n_b}, \qquad \delta = \mu_b - \mu_a
    """

    def __init__(self, verifier: Verifier) -> None:
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


def verify_stream(
    verifier: Verifier,
    queries: Any,
    source: Any,
    top: int = 10,
    resize: Fit | None = None,
    progress: Progress | None = None,
) -> list[Verdict]:
    """Verify queries against one bag that is read in chunks; see ``Verifier.verify_stream``."""
    reader, progress = ChunkReader(verifier, resize), progress or SilentProgress()
    features, foreign = query_features(reader, queries)
    check_queries(features, verifier.pooling.channels)  # before a pass for the variance, which may take long
    bag = reader.read(source)
    variance = _variance(verifier, bag, progress)
    state = StreamingPass(verifier, features, top, variance, None, foreign)
    for chunk in _checked(verifier, bag, progress, "Reading the bag"):
        state.update(chunk)
    if state.needs_second_pass and not bag.once:  # only that can name the leading targets
        state = StreamingPass(verifier, features, top, variance, state.log_sums, foreign)
        for chunk in _checked(verifier, bag, progress, "Reading the bag again"):
            state.update(chunk)
    return state.finish()


def _variance(verifier: Verifier, bag: BagChunks, progress: Progress) -> Floats | None:
    """The variance of the bag, by a pass of its own, if the pooling needs it."""
    if not needs_variance(verifier):
        return None
    if bag.once:
        raise MIVError(
            "cap_vema reads a bag twice, but this iterator can be read only once. Expected a file, an array, a list of "
            "chunks, or a function that returns a new iterator."
        )
    variance = BagVariance(verifier)
    for chunk in _checked(verifier, bag, progress, "Reading the variance of the bag"):
        variance.update(chunk)
    return variance.finish()


def _checked(verifier: Verifier, bag: BagChunks, progress: Progress, text: str) -> Iterator[Rows]:
    """The chunks, as long as they have the verifier's channels and all numbers are finite."""
    place = 0
    with progress.step(text, total=bag.size) as advance:
        for chunk in bag.open():
            check_chunk(chunk, verifier.pooling.channels, place)
            yield chunk
            place += len(chunk)
            advance(len(chunk))
