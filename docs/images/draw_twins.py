"""Draw the pictures of docs/twins.md: ``python docs/images/draw_twins.py``."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from miv.data import ExemplarSet
from miv.runtime import SilentProgress
from miv.tasks import create_task
from miv.tasks.digits_twin import Hands
from miv.tasks.signatures_twin import Signer

HERE = Path(__file__).parent
GREEN = (40, 150, 70)


def draw_digits(writers: int = 10, copies: int = 2) -> None:
    """A row a writer, each digit twice."""
    rng = np.random.default_rng(3)
    writer = np.repeat(np.arange(writers), 10 * copies)
    digit = np.tile(np.repeat(np.arange(10), copies), writers)
    images = Hands.draw(writers, rng).write(writer, digit, 1.0, rng)
    _tile(images, columns=10 * copies, gap=0, between=20).save(HERE / "digits-twin.png", optimize=True)


def draw_signatures(writers: int = 7) -> None:
    """A row a writer: four genuine signatures, then two forgeries."""
    rng = np.random.default_rng(4)
    images = []
    for number in range(writers):
        script = "separate" if number >= writers - 2 else "joined"
        signer, forger = Signer.draw(script, rng), Signer.draw(script, rng)
        images += [signer.sign(4, 64, 1.0, rng), signer.sign(2, 64, 1.0, rng, forger)]
    _tile(np.concatenate(images), columns=6, gap=2, between=225).save(HERE / "signatures-twin.png", optimize=True)


def draw_claims() -> None:
    """A supported and a refuted claim of one page, the witnesses framed."""
    exemplars = create_task("claims-twin", pages=12, held_out_pages=2).build(SilentProgress())["train"]
    supported = next(e for e in range(0, len(exemplars), 2) if len(exemplars.bag(e)) < 14)
    page = Image.new("RGB", (900, 660), "white")
    draw = ImageDraw.Draw(page)
    y = 12
    for exemplar in (supported, supported + 1):
        y = _write(draw, exemplars, exemplar, y) + 18
    page.crop((0, 0, 900, y)).quantize(32).save(HERE / "claims-twin.png", optimize=True)


def _write(draw: ImageDraw.ImageDraw, exemplars: ExemplarSet, exemplar: int, y: int) -> int:
    texts = exemplars.pool.values
    members = slice(*exemplars.bag_ptr[exemplar : exemplar + 2])
    witness = np.zeros(0, bool) if exemplars.witness is None else exemplars.witness[members]
    label = "supported" if exemplars.label[exemplar] else "refuted"
    draw.text((14, y), f"{texts[exemplars.query[exemplar]]}", "black", ImageFont.load_default(20))
    draw.text((790, y + 3), label, GREEN if label == "supported" else (180, 50, 40), ImageFont.load_default(17))
    y += 32
    for instance, shows in zip(exemplars.bag(exemplar), witness, strict=True):
        if shows:
            draw.rectangle((28, y - 1, 886, y + 19), outline=GREEN, width=2)
        draw.text((36, y), texts[instance], (70, 70, 70), ImageFont.load_default(15))
        y += 22
    return y


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
    draw_signatures()
    draw_claims()
