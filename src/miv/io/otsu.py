"""Otsu's threshold: black and white from grey."""

import numpy as np
from numpy.typing import NDArray


def otsu_threshold(image: NDArray[np.uint8]) -> int:
    r"""Return the grey level ``t`` that parts dark (``<= t``) from light best.

    .. math:: t = \arg\max_t\; w_0 w_1 (\mu_0 - \mu_1)^2

    with the shares :math:`w` and the means :math:`\mu` of both parts (Otsu, 1979); the lowest of equals. An
    image of one level has nothing to part: 0 if it is black, else the level below, so that it is all light.

    >>> otsu_threshold(np.array([[10, 12, 200], [11, 201, 202]], np.uint8))
    12
    """
    count = np.bincount(image.ravel(), minlength=256).astype(np.float64)
    level = np.arange(256)
    dark, light = np.cumsum(count), count.sum() - np.cumsum(count)
    dark_sum = np.cumsum(count * level)
    split = (dark > 0) & (light > 0)
    if not split.any():
        return max(int(image.max()) - 1, 0)
    dark_mean = dark_sum / np.maximum(dark, 1)
    light_mean = (dark_sum[-1] - dark_sum) / np.maximum(light, 1)
    between = np.where(split, dark * light * (dark_mean - light_mean) ** 2, -1)
    return int(between.argmax())


def black_and_white(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return 0 where the image is dark and 255 where it is light."""
    return np.where(image <= otsu_threshold(image), 0, 255).astype(np.uint8)
