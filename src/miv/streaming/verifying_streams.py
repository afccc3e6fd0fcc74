"""From queries and one bag of any size to verdicts."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from miv.errors import MIVError
from miv.files.atomic import whole_folder
from miv.files.images import Fit
from miv.files.json import Floats
from miv.poolings.kept_form import Rows
from miv.runtime import Progress, SilentProgress
from miv.streaming.chunks import BagChunks, ChunkReader, check_chunk, check_queries, query_features
from miv.streaming.kept_bag import (
    BagWriter,
    ProjectedBag,
    RowType,
    check_keepable,
    is_kept_bag,
    kept_bag_for,
    write_manifest,
)
from miv.streaming.streamed_verdict import StreamedVerdict
from miv.streaming.streaming_pass import BagVariance, StreamingPass, needs_variance

if TYPE_CHECKING:
    from miv.verifier.network import Verifier


def verify_stream(
    verifier: "Verifier",
    queries: Any,
    source: Any,
    top: int = 10,
    resize: Fit | None = None,
    progress: Progress | None = None,
) -> list[StreamedVerdict]:
    """Verify queries against one bag that is read in chunks; see ``Verifier.verify_stream``."""
    reader, progress = ChunkReader(verifier, resize), progress or SilentProgress()
    features = query_features(reader, queries)
    check_queries(features, verifier.pooling.channels)  # before a pass for the variance, which may take long
    if is_kept_bag(source):
        return _over_kept(verifier, features, kept_bag_for(verifier, source), top, progress)
    bag = reader.read(source)
    variance = _variance(verifier, bag, progress)

    def read(state: StreamingPass) -> None:
        for chunk in _checked(verifier, bag, progress, "Reading the bag"):
            state.update(chunk)

    return _in_one_pass_or_two(verifier, features, top, variance, read, bag.once)


def keep_bag(
    verifier: "Verifier",
    source: Any,
    folder: Path,
    rows: RowType = "float16",
    resize: Fit | None = None,
    progress: Progress | None = None,
) -> ProjectedBag:
    """Project a bag once and keep it on disk; see ``Verifier.keep_bag``."""
    check_keepable(folder, rows)
    if is_kept_bag(source):
        raise MIVError("The bag is a kept bag, whose rows are projected already. Expected the bag that it was made of.")
    reader, progress = ChunkReader(verifier, resize), progress or SilentProgress()
    bag = reader.read(source)
    variance = _variance(verifier, bag, progress)
    some_query = np.zeros((1, verifier.pooling.channels), np.float32)  # rows do not depend on it
    maker = StreamingPass(verifier, some_query, 0, variance)
    least_distance = math.inf
    with whole_folder(folder) as temporary:
        writer = BagWriter(temporary, verifier.pooling.channels, rows)
        for chunk in _checked(verifier, bag, progress, "Keeping the bag"):
            if verifier.unlike is not None and len(chunk):
                least_distance = min(least_distance, float(verifier.unlike.distance(chunk).min()))
            writer.add(maker.rows(chunk))
        writer.close()
        if not writer.size:
            raise MIVError("The bag is empty. Expected at least one instance.")
        write_manifest(temporary, verifier, writer.size, rows, variance, least_distance)
    return ProjectedBag(folder, verifier)


def _over_kept(
    verifier: "Verifier", features: Rows, bag: ProjectedBag, top: int, progress: Progress
) -> list[StreamedVerdict]:
    """Verify queries with the features ``(R, C)`` against a kept bag, by the exact pass."""
    all_unlike = bag.all_unlike(verifier)

    def read(state: StreamingPass) -> None:
        with progress.step("Reading the kept bag", total=bag.size) as advance:
            for rows in bag.rows():
                state.update_kept(rows, all_unlike=all_unlike)
                advance(len(rows))

    return _in_one_pass_or_two(verifier, features, top, bag.variance, read, once=False)


def _in_one_pass_or_two(
    verifier: "Verifier",
    features: Rows,
    top: int,
    variance: Floats | None,
    read: Callable[[StreamingPass], None],
    once: bool,
) -> list[StreamedVerdict]:
    """Let ``read`` fill a pass, and a second one if only that can name the leading targets."""
    state = StreamingPass(verifier, features, top, variance)
    read(state)
    if state.needs_second_pass and not once:
        state = StreamingPass(verifier, features, top, variance, state.log_sums)
        read(state)
    return state.finish()


def _variance(verifier: "Verifier", bag: BagChunks, progress: Progress) -> Floats | None:
    """The variance of the bag, by a pass of its own, if the pooling needs it."""
    if not needs_variance(verifier):
        return None
    if bag.once:
        raise MIVError(
            "cap_vema reads a bag twice, first for its variance, but this iterator can be read only once. Give a file, "
            "an array, a list of chunks, or a function that returns a new iterator."
        )
    variance = BagVariance(verifier)
    for chunk in _checked(verifier, bag, progress, "Reading the variance of the bag"):
        variance.update(chunk)
    return variance.finish()


def _checked(verifier: "Verifier", bag: BagChunks, progress: Progress, text: str) -> Iterator[Rows]:
    """The chunks, as long as they have the verifier's channels and all numbers are finite."""
    place = 0
    with progress.step(text, total=bag.size) as advance:
        for chunk in bag.open():
            check_chunk(chunk, verifier.pooling.channels, place)
            yield chunk
            place += len(chunk)
            advance(len(chunk))
