"""From queries and one bag of any size to verdicts."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from miv.errors import MIVError
from miv.inference.given_instances import is_finite
from miv.io.image_files import Fit
from miv.kept.similarity_of_query import Rows
from miv.runtime.progress import Progress, SilentProgress
from miv.streaming.bag_chunks import BagChunks, ChunkReader, query_features
from miv.streaming.bag_variance import BagVariance, needs_variance
from miv.streaming.streamed_verdict import StreamedVerdict
from miv.streaming.streaming_pass import StreamingPass

if TYPE_CHECKING:
    from miv.models.verifier import Verifier


def verify_stream(
    verifier: "Verifier",
    queries: Any,
    source: Any,
    top: int = 10,
    resize: Fit | None = None,
    progress: Progress | None = None,
) -> list[StreamedVerdict]:
    """Verify queries against one bag that is read in chunks; see ``Verifier.verify_stream``."""
    reader = ChunkReader(verifier, resize)
    features = query_features(reader, queries)
    bag = reader.read(source)
    progress = progress or SilentProgress()
    variance = None
    if needs_variance(verifier):
        if bag.once:
            raise MIVError(
                "cap_vema reads a bag twice, first for its variance, but this iterator can be read only once. Give a "
                "file, an array, a list of chunks, or a function that returns a new iterator."
            )
        first = BagVariance(verifier)
        for chunk in _checked(bag, progress, "Reading the variance of the bag"):
            first.update(chunk)
        variance = first.finish()
    state = StreamingPass(verifier, features, top, variance)
    for chunk in _checked(bag, progress, "Reading the bag"):
        state.update(chunk)
    return state.finish()


def _checked(bag: BagChunks, progress: Progress, text: str) -> Iterator[Rows]:
    """The chunks, as long as all numbers are finite."""
    place = 0
    with progress.step(text, total=bag.size) as advance:
        for chunk in bag.open():
            if not is_finite(chunk):
                row = place + int((~np.isfinite(chunk)).any(axis=1).argmax())
                raise MIVError(f"Instance {row:,} of the bag contains NaN or infinity. Expected finite numbers.")
            yield chunk
            place += len(chunk)
            advance(len(chunk))
