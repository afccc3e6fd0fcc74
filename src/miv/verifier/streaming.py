"""Verify queries against one bag of any size, which is read in chunks of features."""

from collections.abc import Iterable, Iterator, Sized
from dataclasses import replace
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from miv.bags import Bags
from miv.bags.borders import refuse_nested
from miv.data.kinds import KINDS
from miv.data.pool import InstancePool
from miv.errors import MIVError
from miv.files.arrays import Floats, Integers, Mask
from miv.files.images import Fit
from miv.files.instances import is_file, refuse_masked
from miv.poolings import POOLINGS, PoolingOutput, Rows
from miv.runtime import Progress, SilentProgress, evaluating
from miv.verifier.engine import foreign_of, not_finite, witnesses_by
from miv.verifier.network import Verifier
from miv.verifier.out_of_distribution import flags_of, reason_of
from miv.verifier.reading import ErrorLocations, as_vectors, check_finite, is_finite, single_instances, with_folders
from miv.verifier.verdict import Verdict, Witness
from miv.verifier.verifying import bag_reader, embedded, query_features

_ROWS = 4096  # pooled together
CHUNK_BYTES = 1 << 20  # read together
_INSTANCES = 256  # images or texts that are read and embedded together


class BagChunks:
    """Chunks of one bag: features ``(n, C)``, and which instances have foreign statistics, ``(n,)`` bool.

    Args:
        verifier: the verifier.
        source: a ``.npy`` file, a folder or a ``.txt`` file, an array, an iterable of arrays ``(n, C)`` or of
            instances, or a function that returns an iterator.
        resize: as for ``Verifier.verify``.
    """

    def __init__(self, verifier: Verifier, source: Any, resize: Fit | None = None) -> None:
        bag_reader(verifier, resize)  # refuses what cannot be read in chunks
        self._verifier, self._resize = verifier, resize
        self._takes_vectors = KINDS[verifier.backbone.kind].is_vector
        refuse_nested(source, "The bag")
        refuse_masked(source, "The bag")
        if isinstance(source, str | PathLike):
            source = path = Path(source)
            if not (path.suffix == ".npy" and is_file(path)):
                [source] = with_folders([path], verifier.backbone.kind)
                if source is path:
                    raise MIVError(f"There is no bag {path}. Expected a .npy file, a folder, or a .txt file of texts.")
        elif isinstance(source, Tensor):
            source = source.detach().cpu().numpy()
        if not (callable(source) or isinstance(source, Iterable | Path)):
            raise MIVError(
                f"The bag is a {type(source).__name__}. Expected a .npy file, a folder, an array, or an iterable of "
                "chunks or instances."
            )
        self._source = source
        self.size: int | None = len(source) if isinstance(source, Sized) else None
        """Number of instances or of chunks, if it is known before the bag is read."""
        if isinstance(source, Path):
            self.size = len(_mapped(source))

    def __iter__(self) -> Iterator[tuple[Rows, Mask]]:
        done, waiting, kinds = 0, [], set()
        for item in self._items():
            if isinstance(item, Tensor):
                item = item.detach().cpu().numpy()
            kinds.add(self._is_chunk(item))
            if len(kinds) > 1:
                raise MIVError("The bag mixes chunks of features and single instances. Expected one of them.")
            if self._is_chunk(item):
                refuse_masked(item, "A chunk of the bag")
                rows, backbone = np.asarray(item, np.float32), self._verifier.backbone
                if self._takes_vectors and not backbone.is_identity:
                    rows = embedded(backbone, InstancePool("features", rows))
                yield rows, np.zeros(len(item), bool)
                continue
            waiting.append(item)
            if len(waiting) == _INSTANCES:
                yield self._embedded(waiting, done)
                done, waiting = done + len(waiting), []
        if waiting:
            yield self._embedded(waiting, done)

    def _items(self) -> Iterator[Any]:
        """Arrays of features, or single instances."""
        source = self._source() if callable(self._source) else self._source
        if not isinstance(source, np.ndarray | Path):
            yield from source
            return
        array = _mapped(source) if isinstance(source, Path) else source
        rows = max(1, CHUNK_BYTES // max(1, array[:1].nbytes))
        for start in range(0, len(array), rows):
            if isinstance(source, Path):
                array = _mapped(source)  # anew: pages that stay mapped count as memory of the process
            chunk = np.array(array[start : start + rows])
            yield from [chunk] if self._is_chunk(chunk) else chunk

    def _is_chunk(self, item: Any) -> bool:
        is_matrix = isinstance(item, np.ndarray) and item.ndim == 2
        return is_matrix and (item.dtype.kind == "f" or self._takes_vectors)

    def _embedded(self, instances: list[Any], first: int) -> tuple[Rows, Mask]:
        """Features of instances, each distinct one embedded once."""
        reader = bag_reader(self._verifier, self._resize)
        rows = reader.add_all(instances, "The bag", first)
        pool = reader.take_new()
        assert pool is not None  # noqa: S101 - there is at least one
        return embedded(self._verifier.backbone, pool)[rows], foreign_of(self._verifier, pool)[rows]


def _mapped(path: Path) -> NDArray[Any]:
    """A ``.npy`` file of numbers ``(N, ...)``; a false header cannot allocate memory."""
    try:
        array: Any = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # damaged headers raise many types
        raise MIVError(f"{path}: not a NumPy file of numbers, or damaged ({error}).") from error
    if not isinstance(array, np.memmap) or array.dtype.kind not in "fiu" or array.ndim < 2:
        content = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else "an archive"
        raise MIVError(f"{path}: expected numbers of shape (N, C), got {content}.")
    return array


def check_chunk(features: Rows, channels: int, place: int) -> None:
    """Raise an error unless a chunk is ``(N, channels)`` and finite; ``place`` is that of its first row."""
    if features.ndim != 2 or features.shape[1] != channels:
        raise MIVError(
            f"A chunk of the bag is {features.shape}. Expected (N, {channels}): one row of features per target."
        )
    if not is_finite(features):
        row = place + int((~np.isfinite(features)).any(axis=1).argmax())
        raise MIVError(f"Instance {row:,} of the bag contains NaN or infinity. Expected finite numbers.")


class StreamingPass:
    r"""Pools one bag for ``R`` queries, chunk by chunk.

    With the scores :math:`s_n` of a head, the bag vector of a part :math:`P` counts as much as its sum of exponentials:

    .. math:: l_P = \log \sum_{n \in P} e^{s_n}, \qquad
        v = \sum_P e^{l_P - l} v_P, \qquad l = \log \sum_P e^{l_P}

    A pooling that takes the best target has the bag vector of the part with the greatest score. To name targets, their
    scores are kept: ``4 h`` bytes per target and query.

    Args:
        verifier: the verifier.
        queries: features ``(R, C)``.
        top: number of targets to name per query.
        foreign: ``(R,)`` bool, which queries are out of distribution whatever their features.

    >>> from miv import Verifier
    >>> verifier = Verifier("cap_dba_l2", channels=4, pooling_options={"heads": 1}).eval()
    >>> random = np.random.default_rng(0)
    >>> bag, query = (random.normal(size=(size, 4)).astype(np.float32) for size in (9, 1))
    >>> state = StreamingPass(verifier, query)
    >>> state.update(bag[:5])
    >>> state.update(bag[5:])
    >>> bool(np.isclose(state.finish()[0].probability, verifier.verify(query[0], bag).probability))
    True
    """

    def __init__(self, verifier: Verifier, queries: Rows, top: int = 10, foreign: Mask | None = None) -> None:
        if isinstance(top, bool) or not isinstance(top, Integral) or top < 0:
            raise MIVError(f"top is {top!r}. Expected the number of targets to name, from 0.")
        self.verifier: Verifier = verifier
        queries = as_vectors(queries, verifier.pooling.channels, "The list of queries")
        check_finite(queries, "The list of queries")
        self._queries: Tensor = self._normed(queries)  # (R, C)
        alone = [self._pooled(query, query[None]) for query in self._queries]
        scores = alone[0].attention_scores
        if scores is None:
            name = POOLINGS.name_of(type(verifier.pooling)) or type(verifier.pooling).__name__
            raise MIVError(
                f"The pooling {name} with these options needs the whole bag at once, so it cannot read one in chunks. "
                "Expected a verifier with a pooling that can, such as cap_dba_l2, nearest or gabmil."
            )
        count, heads = len(queries), scores.shape[1]
        self.size: int = 0
        self._top: int = int(top)
        # For each query the float32 scores (N, h), in one block: small arrays would scatter over the whole heap.
        self._scores: list[bytearray] = [bytearray() for _ in range(count)]
        self._log_sums: Floats = np.full((count, heads), -np.inf)  # (R, h), of the exponentials of the scores so far
        self._query_vectors: Tensor = torch.cat([output.query_vector for output in alone])  # (R, C)
        self._vectors: Floats = np.zeros((count, alone[0].bag_vector.shape[1]))  # (R, C), of the bag so far
        self._best: Floats = np.full(count, -np.inf)  # (R,) the greatest score
        self._query_flags: NDArray[np.int8] = self._flags(queries, foreign)
        self._least_flag: int = 2  # of the targets so far

    def update(self, features: Rows, foreign: Mask | None = None) -> None:
        """Add the features ``(N, C)`` of the next targets; ``foreign`` ``(N,)`` as for the queries."""
        check_chunk(features, self.verifier.pooling.channels, self.size)
        if len(features) and self._least_flag:
            self._least_flag = min(self._least_flag, int(self._flags(features, foreign).min()))
        for start in range(0, len(features), _ROWS):
            normed = self._normed(features[start : start + _ROWS])  # (n, C)
            for query, vector in enumerate(self._queries):
                output = self._pooled(vector, normed)
                assert output.attention_scores is not None  # noqa: S101 - checked at the start
                scores = output.attention_scores.double()  # (n, h)
                log_sums, bag_vector = scores.logsumexp(dim=0), output.bag_vector[0].double()
                self._join(query, log_sums.cpu().numpy(), float(scores.max()), bag_vector.cpu().numpy())
                if self._top:
                    self._scores[query] += scores.float().cpu().numpy().tobytes()
        self.size += len(features)

    def _normed(self, features: Rows) -> Tensor:
        """Features ``(n, C)`` after the first norm, on the device of the verifier."""
        verifier, writable = self.verifier, np.require(features, np.float32, ["C", "W"])
        with torch.inference_mode(), evaluating(verifier):
            normed: Tensor = verifier.pooling.norm(torch.from_numpy(writable).to(verifier.device, verifier.dtype))
        return normed

    def _pooled(self, query: Tensor, targets: Tensor) -> PoolingOutput:
        """The output for a query ``(C,)`` and targets ``(n, C)``, both after the first norm."""
        with torch.inference_mode(), evaluating(self.verifier):
            return self.verifier.pooling.forward(query[None], Bags.from_list([targets]))

    def _join(self, query: int, log_sums: Floats, best: float, vector: Floats) -> None:
        """Add a part with the ``log_sums`` ``(h,)`` and the bag vector ``(C,)``."""
        before = self._log_sums[query]
        total = np.logaddexp(before, log_sums)
        if not self.verifier.pooling.takes_best:
            heads = len(total)
            weights = np.exp(np.stack([before, log_sums]) - total)  # (2, h)
            parts = np.stack([self._vectors[query], vector]).reshape(2, heads, -1)
            self._vectors[query] = (weights[:, :, None] * parts).sum(axis=0).ravel()
        elif best > self._best[query]:
            self._vectors[query] = vector
        self._log_sums[query], self._best[query] = total, max(best, self._best[query])

    def _flags(self, features: Rows, foreign: Mask | None) -> NDArray[np.int8]:
        flags = flags_of(self.verifier.unlike, np.asarray(features, np.float32), self.verifier.backbone.kind)
        return flags if foreign is None else np.maximum(flags, foreign)

    def finish(self) -> list[Verdict]:
        """The verdicts for all queries."""
        if not self.size:
            raise MIVError("The bag is empty. Expected at least one instance.")
        with torch.inference_mode():
            vectors = torch.from_numpy(self._vectors).to(self._query_vectors)
            logits = self.verifier.pooling.similarity(self._query_vectors, vectors).double().cpu().numpy()
        if not np.isfinite(logits).all():
            raise not_finite("logit", f"query {int((~np.isfinite(logits)).argmax())}")
        if self._top and (method := witnesses_by(self.verifier, None)) != "attention":
            raise MIVError(
                f"The verifier's witness rule was calibrated on {method}, but a bag in chunks has only attention. Use "
                "top=0, or calibrate with --witnesses attention."
            )
        return [self._verdict(query, float(logit)) for query, logit in enumerate(logits)]

    def _leading(self, query: int) -> tuple[Integers, Floats]:
        """Places and shares of the targets with the greatest mean share over heads; of equals the first in the bag."""
        places, shares = np.zeros(0, np.int64), np.zeros(0)
        if not self._top:
            return places, shares
        scores = np.frombuffer(self._scores[query], np.float32).reshape(self.size, -1)
        for first in range(0, self.size, _ROWS):
            share = np.exp(scores[first : first + _ROWS] - self._log_sums[query]).mean(axis=1)
            places, shares = np.append(places, first + np.arange(len(share))), np.append(shares, share)
            order = np.lexsort((places, -shares))[: self._top]
            places, shares = places[order], shares[order]
        return places, shares

    def _verdict(self, query: int, logit: float) -> Verdict:
        """Apply the operating point to the logit and the leading targets of one query."""
        point = self.verifier.operating_point
        probability = float(point.probability(np.array([logit]))[0])
        places, shares = self._leading(query)
        leading = tuple(Witness(int(place), float(share)) for place, share in zip(places, shares, strict=True))
        marked = point.witness_rule.chosen(probability, not point.rejected(probability), shares, self.size)
        if point.witnesses_by is not None and point.verdict(probability) and not marked.any():
            marked[:1] = True  # as in ``OperatingPoint.witnesses``
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


def verify_stream(
    verifier: Verifier,
    queries: Any,
    source: Any,
    top: int = 10,
    resize: Fit | None = None,
    progress: Progress | None = None,
) -> list[Verdict]:
    """Verify queries against one bag that is read in chunks; see ``Verifier.verify_stream``."""
    is_single = isinstance(queries, str | PathLike) or not hasattr(queries, "__len__")
    if is_single or (len(queries) and (isinstance(queries[0], Real) or getattr(queries[0], "ndim", None) == 0)):
        raise MIVError("Got one query. Expected a list of queries, each one instance.")
    progress, places = progress or SilentProgress(), ErrorLocations()
    if single_instances(queries, verifier.backbone.kind, places)[1] is not None:
        raise MIVError("A query is a list of references. Expected one instance per query, for a bag in chunks.")
    features, foreign = query_features(verifier, queries, places, resize)
    bag, state = BagChunks(verifier, source, resize), StreamingPass(verifier, features, top, foreign)
    with progress.step("Reading the bag", total=bag.size) as advance:
        for chunk, is_foreign in bag:
            state.update(chunk, foreign=is_foreign)
            advance(len(chunk))
    return state.finish()
