"""Small pictures of instances: images unchanged, feature vectors as a square of grey cells."""

import base64
import io
from functools import cached_property
from math import ceil, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from miv.data import InstancePool

LARGEST_SIDE = 192  # pixels; enough to recognise a signature while fifty exemplars stay a small file


class Thumbnails:
    """Pictures of a pool's instances of kind ``image`` or ``features``."""

    def __init__(self, pool: InstancePool) -> None:
        self.pool = pool

    def picture(self, instance: int) -> Image.Image:
        """The instance as a picture of at most ``LARGEST_SIDE`` pixels per side."""
        values = np.asarray(self.pool.values[instance])
        pixels = values if self.pool.kind == "image" else self._cells(values)
        picture = Image.fromarray(np.ascontiguousarray(pixels))
        picture.thumbnail((LARGEST_SIDE, LARGEST_SIDE))
        return picture

    def data_address(self, instance: int) -> str:
        """The picture as a data URI for an HTML image."""
        file = io.BytesIO()
        self.picture(instance).save(file, "PNG")
        return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")

    def _cells(self, vector: NDArray[Any]) -> NDArray[np.uint8]:
        side = ceil(sqrt(len(vector)))
        low, high = self._range
        grey = np.zeros(side * side)
        grey[: len(vector)] = (vector.astype(np.float64) - low) / ((high - low) or 1.0)
        return (grey.clip(0, 1) * 255).astype(np.uint8).reshape(side, side)

    @cached_property
    def _range(self) -> tuple[float, float]:
        """The same black and white levels for all vectors, so that they can be compared by eye."""
        some = np.asarray(self.pool.values[:1000], dtype=np.float64)
        low, high = np.quantile(some, [0.01, 0.99])
        return float(low), float(high)
