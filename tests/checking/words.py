"""A verifier of texts that needs no encoder: a sentence is the words it has."""

import zlib
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from miv import Backbone, Verifier
from miv.verifier.decisions import ConformalRule, OperatingPoint

CHANNELS = 512


class Words(Backbone):
    """Counts words by their hash."""

    kind = "text"
    channels = CHANNELS
    instance_shape = (CHANNELS,)

    def prepare(self, values: NDArray[Any]) -> Tensor:
        counts = np.zeros((len(values), CHANNELS), np.float32)
        for row, text in enumerate(values):
            for word in str(text).lower().replace(".", "").split():
                counts[row, zlib.crc32(word.encode()) % CHANNELS] += 1
        return torch.from_numpy(counts)

    def forward(self, instances: Tensor) -> Tensor:
        return instances


def word_verifier(backbone: Backbone | None = None) -> Verifier:
    """A yes at a cosine of 0.5; witnesses are sentences that suffice alone."""
    verifier = Verifier("nearest", backbone or Words()).eval()
    verifier.operating_point = OperatingPoint(witness_rule=ConformalRule(0.3, 0.1, by="alone"), goal="words in common")
    return verifier
