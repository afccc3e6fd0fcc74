"""Bags that do not fit in memory: read in chunks, pooled exactly, in parts that merge."""

from miv.streaming.bag_chunks import BagChunks, ChunkReader
from miv.streaming.bag_variance import BagVariance, needs_variance
from miv.streaming.projected_bag import ProjectedBag
from miv.streaming.streamed_verdict import StreamedVerdict
from miv.streaming.streaming_pass import StreamingPass

__all__ = [
    "BagChunks",
    "BagVariance",
    "ChunkReader",
    "ProjectedBag",
    "StreamedVerdict",
    "StreamingPass",
    "needs_variance",
]
