"""Features without learning: vectors as they are, histograms of gradients, colours and trigrams, and small pictures."""

import math
import re
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from miv.backbones.base import Backbone, check_images, whole_number
from miv.backbones.names import register_backbone
from miv.errors import MIVError

_LUMINANCE = (0.299, 0.587, 0.114)  # weights of red, green and blue, as in Pillow


def to_grey(values: NDArray[Any]) -> Tensor:
    """``(U, H, W)`` or ``(U, H, W, 3)`` uint8 to ``(U, 1, H, W)`` float, 0 to 1."""
    images = check_images(values).float() / 255  # (U, 1 or 3, H, W)
    return images if images.shape[1] == 1 else luminance(images)


def luminance(images: Tensor) -> Tensor:
    """``(U, 3, H, W)`` to ``(U, 1, H, W)``."""
    weights = torch.tensor(_LUMINANCE, dtype=images.dtype, device=images.device)[:, None, None]
    return (images * weights).sum(dim=1, keepdim=True)


def to_colour(values: NDArray[Any]) -> Tensor:
    """``(U, H, W)`` or ``(U, H, W, 3)`` uint8 to ``(U, 3, H, W)`` float, 0 to 1."""
    return (check_images(values).float() / 255).expand(-1, 3, -1, -1)


def resize(images: Tensor, size: tuple[int, int]) -> Tensor:
    r"""``(U, K, H, W)`` to ``(U, K, height, width)``: bilinear, averaging over all pixels when shrinking.

    Pixel :math:`i` of the new side is the mean of the old pixels with the weights

    .. math:: w_{ij} \propto \max\{0, 1 - |(j + .5) / s - (i + .5)| / \max(1, 1 / s)\}

    where :math:`s` is the new length divided by the old one. These are two matrix products, which work on every
    device, for every image size, and in ONNX.
    """
    height, width = images.shape[-2:]
    if size[0] != height:
        images = _weights(height, size[0], images) @ images
    if size[1] != width:
        images = images @ _weights(width, size[1], images).T
    return images


def _weights(old: int, new: int, like: Tensor) -> Tensor:
    """``(new, old)``; each row sums to 1."""
    scale = old / new
    centre = (torch.arange(new, dtype=like.dtype, device=like.device) + 0.5) * scale
    place = torch.arange(old, dtype=like.dtype, device=like.device) + 0.5
    weight = (1 - (place - centre[:, None]).abs() / max(1.0, scale)).clamp(min=0)
    return weight / weight.sum(dim=1, keepdim=True)


CLIP = 0.2  # maximum share of one direction of one cell in its block
SMALLEST = 0.05  # blocks with smaller gradients count as flat: paper is not perfectly white


@register_backbone("hog")
class HistogramOfGradients(Backbone):
    r"""Histogram of oriented gradients (Dalal and Triggs 2005): a fixed image descriptor without learning.

    An image of any size is converted to grey and stretched to ``cells × cells`` cells of ``cell_size`` pixels a side.
    Each pixel has a gradient of length :math:`m` and direction :math:`\theta` without sign. It votes with :math:`m` for
    the two nearest of ``orientations`` directions and for the cells around it, by distance:

    .. math:: h_{ck} = \sum_p m_p \, \max\{0, 1 - |\theta_p - \theta_k| / \Delta\} \, w_{cp}

    Each block :math:`v` of 2 × 2 neighbouring cells is divided by :math:`\sqrt{\|v\|^2 + \epsilon^2}`, clipped at 0.2
    and divided again (L2-Hys). The features are all ``(cells - 1)²`` blocks with ``4 orientations`` numbers each.

    Args:
        cells: number of cells along each side of the image, 2 to 32.
        cell_size: pixels along each side of a cell, 2 to 32.
        orientations: number of directions, 2 to 36.
    """

    kind = "image"
    instance_shape = (1, None, None)

    def __init__(self, cells: int = 5, cell_size: int = 12, orientations: int = 9) -> None:
        super().__init__()
        self.cells = whole_number("hog", "cells", cells, 2, 32)
        self.cell_size = whole_number("hog", "cell_size", cell_size, 2, 32)
        self.orientations = whole_number("hog", "orientations", orientations, 2, 36)
        self.channels = (cells - 1) ** 2 * 4 * orientations

    def prepare(self, values: NDArray[Any]) -> Tensor:
        return to_grey(values)  # (U, 1, H, W), 0 to 1

    def forward(self, instances: Tensor) -> Tensor:
        side = self.cells * self.cell_size
        images = functional.pad(resize(instances.float(), (side, side)), [1] * 4, mode="replicate")
        right = images[:, :, 1:-1, 2:] - images[:, :, 1:-1, :-2]  # (U, 1, side, side)
        down = images[:, :, 2:, 1:-1] - images[:, :, :-2, 1:-1]
        length = (right.square() + down.square()).sqrt()
        direction = torch.atan2(down, right) * (self.orientations / math.pi)  # in steps from one to the next
        votes = []
        for step in range(self.orientations):  # one at a time: all at once would not fit a small cache
            half = self.orientations / 2
            apart = (direction - (step + 0.5) + half).remainder(self.orientations) - half  # around the half circle
            votes.append(resize(length * (1 - apart.abs()).clamp(min=0), (self.cells, self.cells)))
        cells = torch.cat(votes, dim=1)  # (U, orientations, cells, cells)
        corners = [cells[:, :, y : y + self.cells - 1, x : x + self.cells - 1] for y in (0, 1) for x in (0, 1)]
        blocks = torch.cat(corners, dim=1)  # (U, 4 orientations, cells - 1, cells - 1)
        blocks = _unit(_unit(blocks).clamp(max=CLIP))
        return blocks.flatten(1).to(instances.dtype)  # (U, C)


def _unit(blocks: Tensor) -> Tensor:
    return blocks / (blocks.square().sum(dim=1, keepdim=True) + SMALLEST**2).sqrt()


_LEVELS = 3  # of value, and of saturation, above 0
LARGEST_SIDE = 32  # pixels; larger images are shrunk first


@register_backbone("colour")
class ColourHistogram(Backbone):
    r"""Histograms of hue, saturation and value (HSV), of the whole image and of its parts: a fixed descriptor.

    Each pixel :math:`p` has a share :math:`b_{pk}` in bin :math:`k`: it is divided between the nearest of four levels
    of value, of four of saturation and of ``hues`` hues, by distance. Black has no saturation and grey has no hue,
    so all pixels of value 0 share one bin, and so do those of saturation 0 and one value. A region :math:`c` is the
    whole image or one of ``cells × cells`` overlapping fields, in which near pixels count more
    (:math:`\sum_p w_{cp} = 1`). With :math:`R` regions, the cosine of two images is the mean of the Bhattacharyya
    coefficients of their regions:

    .. math:: x_{ck} = \sqrt{\tfrac{1}{R} \sum_p w_{cp} \, b_{pk}}, \qquad
        \cos(x, y) = \frac{1}{R} \sum_c \sum_k \sqrt{h_{ck}(x) \, h_{ck}(y)}

    Args:
        hues: number of hues, 3 to 36.
        cells: number of fields along each side of the image, 1 to 8.
    """

    kind = "image"
    instance_shape = (3, None, None)

    def __init__(self, hues: int = 12, cells: int = 2) -> None:
        super().__init__()
        self.hues = whole_number("colour", "hues", hues, 3, 36)
        self.cells = whole_number("colour", "cells", cells, 1, 8)
        self.channels = (1 + cells**2) * (1 + _LEVELS * (1 + _LEVELS * hues))

    def prepare(self, values: NDArray[Any]) -> Tensor:
        return to_colour(values)  # (U, 3, H, W), 0 to 1

    def forward(self, instances: Tensor) -> Tensor:
        height, width = (min(side, LARGEST_SIDE) for side in instances.shape[-2:])
        images = resize(instances.float(), (height, width))
        red, green, blue = images.flatten(2).unbind(dim=1)  # (U, P)
        value, least = images.amax(dim=1).flatten(1), images.amin(dim=1).flatten(1)
        saturation = (value - least) / value.clamp(min=1e-6)
        turn = torch.atan2(math.sqrt(3) * (green - blue), 2 * red - green - blue) / (2 * math.pi)  # -.5 to .5
        apart = self.hues * turn[:, None] - torch.arange(self.hues, device=turn.device)[:, None]  # (U, hues, P)
        hue = _share((apart + self.hues / 2).remainder(self.hues) - self.hues / 2)
        levels = _levels(saturation)
        coloured = (levels[:, 1:, None] * hue[:, None]).flatten(1, 2)
        colours = torch.cat([levels[:, :1], coloured], dim=1)  # (U, 1 + 3 hues, P)
        down, right = _weights(height, self.cells, images), _weights(width, self.cells, images)
        fields = (down[:, None, :, None] * right[:, None, :]).reshape(self.cells**2, -1)
        regions = torch.cat([torch.full_like(fields[:1], 1 / fields.shape[1]), fields])  # (R, P)
        votes = (regions[:, None] * _levels(value)[:, None]).flatten(1, 2)  # (U, 4 R, P)
        counts = (votes @ colours.transpose(1, 2)).unflatten(1, (len(regions), -1))  # (U, R, 4, 1 + 3 hues)
        black = counts[:, :, 0].sum(dim=2, keepdim=True)
        histogram = torch.cat([black, counts[:, :, 1:].flatten(2)], dim=2) / len(regions)
        return histogram.flatten(1).sqrt().to(instances.dtype)  # (U, C)


def _levels(numbers: Tensor) -> Tensor:
    """Shares ``(U, 4, P)`` of numbers ``(U, P)`` from 0 to 1 in levels at equal distances."""
    return _share(_LEVELS * numbers[:, None] - torch.arange(_LEVELS + 1, device=numbers.device)[:, None])


def _share(distance: Tensor) -> Tensor:
    return (1 - distance.abs()).clamp(min=0)


@register_backbone("hog_colour")
class HogColour(Backbone):
    r"""``hog`` beside ``colour``, so that the cosine of two images is the mean of two cosines.

    .. math:: x = \frac{1}{\sqrt 2} \Big( \frac{x_{HOG}}{\|x_{HOG}\|}, \frac{x_{colour}}{\|x_{colour}\|} \Big), \qquad
        \cos(x, y) = \tfrac{1}{2} \cos_{HOG}(x, y) + \tfrac{1}{2} \cos_{colour}(x, y)
    """

    kind = "image"
    instance_shape = (3, None, None)

    def __init__(self) -> None:
        super().__init__()
        self.hog, self.colour = HistogramOfGradients(), ColourHistogram()
        self.channels = self.hog.channels + self.colour.channels

    def prepare(self, values: NDArray[Any]) -> Tensor:
        return to_colour(values)  # (U, 3, H, W), 0 to 1

    def forward(self, instances: Tensor) -> Tensor:
        parts = self.hog(luminance(instances)), self.colour(instances)
        return torch.cat([functional.normalize(part, dim=1, eps=1e-6) for part in parts], dim=1) / math.sqrt(2)


@register_backbone("pixels")
class Pixels(Backbone):
    """The image itself, small, grey and mean-centred: the simplest descriptor, without learning.

    Args:
        size: pixels along each side of the small image, 2 to 128.
    """

    kind = "image"
    instance_shape = (1, None, None)

    def __init__(self, size: int = 16) -> None:
        super().__init__()
        self.size = whole_number("pixels", "size", size, 2, 128)
        self.channels = size**2

    def prepare(self, values: NDArray[Any]) -> Tensor:
        return to_grey(values)  # (U, 1, H, W), 0 to 1

    def forward(self, instances: Tensor) -> Tensor:
        small = resize(instances, (self.size, self.size)).flatten(1)  # (U, C)
        return small - small.mean(dim=1, keepdim=True)


@register_backbone("trigrams")
class Trigrams(Backbone):
    r"""How often a text has each run of three characters: names, numbers, codes and style, but no meaning.

    .. math:: x_k = \ln\Big(1 + \big|\{i : h(c_i c_{i+1} c_{i+2}) = k\}\big|\Big)

    over the words of the text in lower case with one space around each. The hash :math:`h` of the three characters is
    a number below ``buckets``, so few trigrams share a channel. It needs no encoder.

    Args:
        buckets: number of channels.
    """

    kind = "text"

    def __init__(self, buckets: int = 1024) -> None:
        super().__init__()
        self.channels = whole_number("trigrams", "buckets", buckets, 16, 1 << 16)
        self.instance_shape = (buckets,)

    def prepare(self, values: NDArray[Any]) -> Tensor:
        texts = [" ".join(["", *_WORD.findall(str(text).lower()), ""]) for text in values]
        return torch.from_numpy(np.stack([self._counts(text) for text in texts]))  # (U, C)

    def _counts(self, text: str) -> NDArray[np.float32]:
        codes = np.frombuffer(text.encode("utf-32-le", "replace"), np.uint32).astype(np.uint64)
        mixed = (codes[:-2] * _PRIMES[0] + codes[1:-1]) * _PRIMES[0] + codes[2:]  # modulo 2^64
        buckets = (mixed * _PRIMES[1] >> np.uint64(32)) % np.uint64(self.channels)
        return np.bincount(buckets.astype(np.int64), minlength=self.channels).astype(np.float32)

    def forward(self, instances: Tensor) -> Tensor:
        return instances.log1p()


_WORD = re.compile(r"\w+")
_PRIMES = np.uint64(1_000_003), np.uint64(11_400_714_819_323_198_549)  # the second spreads neighbours (Fibonacci)


@register_backbone("features")
class Features(Backbone):
    """For instances that are already feature vectors.

    Args:
        channels: the length of a vector.
        standardise: subtract the mean of each channel and divide by its standard deviation, as found by ``fit``. For
            tables of measurements, where a column in large units would dominate the others.
    """

    kind = "features"
    mean: Tensor
    deviation: Tensor

    def __init__(self, channels: int, standardise: bool = False) -> None:
        super().__init__()
        self.channels = channels
        self.instance_shape = (channels,)
        self.standardise = standardise
        self.is_identity = not standardise
        if standardise:
            self.register_buffer("mean", torch.zeros(channels))
            self.register_buffer("deviation", torch.ones(channels))

    def configuration(self) -> dict[str, Any]:
        return {"channels": self.channels, **({"standardise": True} if self.standardise else {})}

    def fit(self, values: NDArray[np.float32]) -> None:
        """Compute mean and deviation of each channel from vectors ``(P, C)``; a constant channel is only centred."""
        deviation = values.std(axis=0, dtype=np.float64)
        least = np.finfo(np.float32).tiny  # what float32 can divide by
        self.mean.copy_(torch.from_numpy(values.mean(axis=0, dtype=np.float64)))
        self.deviation.copy_(torch.from_numpy(np.where(deviation > least, deviation, 1.0)))

    def prepare(self, values: NDArray[Any]) -> Tensor:
        if values.dtype != np.float32 or values.shape[1:] != (self.channels,):
            raise MIVError(f"The features are {values.dtype} {values.shape}. Expected float32 (U, {self.channels}).")
        return torch.from_numpy(np.require(values, requirements=["C", "W"]))

    def forward(self, instances: Tensor) -> Tensor:
        return (instances - self.mean) / self.deviation if self.standardise else instances


def unlike_scales(values: NDArray[np.float32]) -> float:
    """Ratio of the largest channel deviation to the median one, for vectors ``(P, C)``.

    >>> unlike_scales(np.array([[0, 1, 0], [2, 3, 200]], np.float32))
    100.0
    """
    deviation = values.std(axis=0, dtype=np.float64)
    deviation = deviation[deviation > 0]
    return float(deviation.max() / np.median(deviation)) if len(deviation) else 1.0
