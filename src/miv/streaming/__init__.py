"""Bags that do not fit in memory: read in chunks, pooled exactly, in parts that merge."""

from miv.streaming.chunks import BagChunks, ChunkReader, NumpyFile, check_chunk
from miv.streaming.kept_bag import ProjectedBag, RowType, backbone_fingerprint, verifier_fingerprint
from miv.streaming.streamed_verdict import StreamedVerdict
from miv.streaming.streaming_pass import BagVariance, StreamingPass, needs_variance
from miv.streaming.verifying_streams import keep_bag, verify_stream

__all__ = [
    "BagChunks",
    "BagVariance",
    "ChunkReader",
    "NumpyFile",
    "ProjectedBag",
    "RowType",
    "StreamedVerdict",
    "StreamingPass",
    "backbone_fingerprint",
    "check_chunk",
    "keep_bag",
    "needs_variance",
    "verifier_fingerprint",
    "verify_stream",
]
