"""Pool one bag that is too large for a machine: workers pool parts of it, and the parts are merged."""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from miv.backbones.features import Features
from miv.errors import MIVError
from miv.files.json import Floats
from miv.runtime import Progress, SilentProgress
from miv.scoring.ray import LOCAL, Say, connected, import_ray
from miv.verifier.chunks import ChunkReader, NumpyFile, check_chunk
from miv.verifier.network import Verifier
from miv.verifier.streaming import BagVariance, StreamedVerdict, StreamingPass, needs_variance

ROWS = 250_000  # targets per part: 400 MB of 384 float32 numbers

Partial = TypeVar("Partial", BagVariance, StreamingPass)


@dataclass(frozen=True)
class BagPart:
    """Consecutive rows of a ``.npy`` file; ``place`` is that of the first of them in the bag."""

    path: str
    first: int
    last: int
    place: int

    def chunks(self, verifier: Verifier) -> Iterator[tuple[NDArray[np.float32], int]]:
        """Features of a few targets at a time, and the place of the first of them in the bag."""
        place = self.place
        for rows in NumpyFile(Path(self.path)).chunks(self.first, self.last):
            features = ChunkReader(verifier).embedded(rows)
            check_chunk(features, verifier.pooling.channels, place)
            yield features, place
            place += len(features)


def pool_giant(
    verifier: Verifier | str | Path,
    queries: ArrayLike,
    bag: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    top: int = 10,
    workers: int | None = 1,
    address: str | None = None,
    rows: int = ROWS,
    progress: Progress | None = None,
    say: Say = lambda text: None,
) -> list[StreamedVerdict]:
    r"""Verify queries with one bag of features that need not fit in memory, exactly.

    Attention is a softmax over the bag, so each part :math:`p` needs only its greatest logit :math:`m_p`, and the sums
    :math:`\sum_n e^{l_n - m_p}` and :math:`\sum_n e^{l_n - m_p} v_n`. Two parts are merged by scaling both to the
    greater of the two logits. What a worker returns does not grow with its part.

    Args:
        verifier: the verifier, a run, a verifier folder, or a name.
        queries: features ``(R, C)`` of the queries, which share the pass.
        bag: a ``.npy`` file of features ``(N, C)``, float16 or float32; several of them; or a folder of them. Workers
            of a cluster read it under the same name.
        top: number of targets to name per query.
        workers: number of workers; ``None``: as many as the cluster has room for. One without an address is this
            process.
        address: address of a Ray cluster; by default this machine alone.
        rows: targets per part.
        progress: reports the progress.
        say: receives lines on what is going on.
    """
    if not isinstance(verifier, Verifier):
        verifier = Verifier.from_pretrained(verifier)
    parts = _parts(bag, verifier.pooling.channels, rows)
    verifier = _without_encoder(verifier)
    asked = ChunkReader(verifier).embedded(np.atleast_2d(np.asarray(queries, np.float32)))
    progress = progress or SilentProgress()
    if workers == 1 and address is None:
        return _pooled(verifier, asked, parts, top, progress, lambda work, some: map(work, some))
    ray = import_ray("Several workers", address)
    with connected(ray, address or LOCAL, say, workers):
        run = ray.remote(num_cpus=1, max_retries=3)(_run_on_worker)

        def on_ray(work: Callable[[BagPart], Partial], some: list[BagPart]) -> Iterator[Partial]:
            shared, most = ray.put(work), workers or int(ray.cluster_resources().get("CPU", 1))
            sent: list[Any] = []
            for number, _ in enumerate(some):  # in order, so that the result does not depend on who was faster
                while len(sent) < min(len(some), number + most):
                    sent.append(run.remote(shared, some[len(sent)]))
                found = ray.get(sent[number])
                if isinstance(found, MIVError):
                    raise found
                yield found
                sent[number] = None

        return _pooled(verifier, asked, parts, top, progress, on_ray)


def _pooled(
    verifier: Verifier,
    queries: NDArray[np.float32],
    parts: list[BagPart],
    top: int,
    progress: Progress,
    spread: Callable[..., Any],
) -> list[StreamedVerdict]:
    """Pool in one pass, after one for the variance if the pooling needs it, and before one that names targets."""
    variance: Floats | None = None
    if needs_variance(verifier):
        found = spread(partial(_variance_of, verifier), parts)
        variance = _merged(BagVariance(verifier), found, parts, progress, "Measuring").finish()

    def pool(log_sums: Floats | None, text: str) -> StreamingPass:
        state = StreamingPass(verifier, queries, top, variance, log_sums)
        passes = spread(partial(_pass_over, verifier, queries, top, variance, log_sums), parts)
        return _merged(state, passes, parts, progress, text)

    whole = pool(None, "Pooling")
    if whole.needs_second_pass:
        whole = pool(whole.log_sums, "Naming targets")
    return whole.finish()


def _merged(whole: Partial, found: Any, parts: list[BagPart], progress: Progress, text: str) -> Partial:
    with progress.step(text, total=sum(part.last - part.first for part in parts)) as advance:
        for part, one in zip(parts, found, strict=True):
            whole.merge(one)
            advance(part.last - part.first)
    return whole


def _run_on_worker(work: Callable[[BagPart], Any], part: BagPart) -> Any:
    """What a part of the work gives; its error is returned as well, because Ray puts a traceback into raised ones."""
    torch.set_num_threads(1)
    try:
        return work(part)
    except MIVError as error:
        return MIVError(str(error))


def _variance_of(verifier: Verifier, part: BagPart) -> BagVariance:
    found = BagVariance(verifier)
    for features, _ in part.chunks(verifier):
        found.update(features)
    return found


def _pass_over(
    verifier: Verifier,
    queries: NDArray[np.float32],
    top: int,
    variance: Floats | None,
    log_sums: Floats | None,
    part: BagPart,
) -> StreamingPass:
    found = StreamingPass(verifier, queries, top, variance, log_sums)
    for features, place in part.chunks(verifier):
        found.update(features, place)
    return found


def _without_encoder(verifier: Verifier) -> Verifier:
    """The verifier of features without its encoder, which features do not need, so that little is sent around."""
    if isinstance(verifier.backbone, Features):
        return verifier
    light = copy.copy(verifier)
    light._modules = dict(verifier._modules)
    light.backbone = Features(verifier.backbone.channels)
    return light


def _parts(bag: str | PathLike[str] | Sequence[str | PathLike[str]], channels: int, rows: int) -> list[BagPart]:
    if rows < 1:
        raise MIVError(f"rows is {rows}. Expected 1 or more.")
    given = [Path(bag)] if isinstance(bag, str | PathLike) else [Path(one) for one in bag]
    files = [file for one in given for file in (sorted(one.glob("*.npy")) if one.is_dir() else [one])]
    parts: list[BagPart] = []
    place = 0
    for file in files:
        try:
            array = np.load(file, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise MIVError(f"{file} cannot be read: {error}. Expected a .npy file, which numpy.save writes.") from error
        if array.ndim != 2 or array.shape[1] != channels or array.dtype not in (np.float16, np.float32):
            raise MIVError(
                f"{file} is {array.dtype} {array.shape}. Expected float16 or float32 (N, {channels}): features of the "
                "verifier's length."
            )
        for first in range(0, len(array), rows):
            last = min(first + rows, len(array))
            parts.append(BagPart(str(file.absolute()), first, last, place + first))
        place += len(array)
    if not parts:
        raise MIVError("The bag is empty. Expected at least one .npy file with at least one row.")
    return parts
