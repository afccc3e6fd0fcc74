"""Draw the picture of docs/tasks.md: ``python docs/images/draw_twins.py``."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from miv.tasks.digits_twin import Hands

HERE = Path(__file__).parent


def draw_digits(writers: int = 10, copies: int = 2) -> None:
    """One row per writer, each digit twice."""
    rng = np.random.default_rng(3)
    writer = np.repeat(np.arange(writers), 10 * copies)
    digit = np.tile(np.repeat(np.arange(10), copies), writers)
    images = Hands.draw(writers, rng).write(writer, digit, 1.0, rng)
    _tile(images, columns=10 * copies, gap=0, between=20).save(HERE / "digits-twin.png", optimize=True)


def _tile(images: NDArray[np.uint8], columns: int, gap: int, between: int) -> Image.Image:
    height, width = images.shape[1] + gap, images.shape[2] + gap
    rows = len(images) // columns
    sheet = np.full((rows * height + gap, columns * width + gap), between, np.uint8)
    for place, image in enumerate(images):
        y, x = gap + place // columns * height, gap + place % columns * width
        sheet[y : y + image.shape[0], x : x + image.shape[1]] = image
    picture = Image.fromarray(sheet)
    scale = max(1, 1120 // picture.width)
    return picture.resize((picture.width * scale, picture.height * scale), Image.Resampling.NEAREST).quantize(32)


if __name__ == "__main__":
    draw_digits()
