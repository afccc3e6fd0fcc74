"""Invented writers of digits: how handwriting differs between and within writers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from miv.tasks.synthetic.digit_shapes import ALLOGRAPHS
from miv.tasks.synthetic.strokes import Float32s, ink, trace

SIDE = 28
_BOX = 20  # MNIST fits a digit into 20 × 20 pixels, then puts its centre of mass into the middle of 28 × 28
_SAMPLES = 72
_CHUNK = 256  # drawings at a time: their discs stay in the cache


@dataclass(frozen=True)
class HandSpread:
    """Standard deviations of the traits of a hand."""

    slant: float  # horizontal shift a unit of height
    width: float  # logarithm of the proportion of width to height
    pen: float  # logarithm of the pen's radius
    curvature: float  # 0 straight, 1 round
    turn: float  # radians
    nib: float  # how much thicker downward strokes are than level ones
    point: float  # of a control point, in heights of a digit


BETWEEN = HandSpread(slant=0.2, width=0.2, pen=0.22, curvature=0.16, turn=0.06, nib=0.12, point=0.028)
WITHIN = HandSpread(slant=0.11, width=0.14, pen=0.19, curvature=0.11, turn=0.06, nib=0.07, point=0.024)
_LOYALTY = 0.87  # how often a hand keeps to its own allograph


@dataclass(frozen=True, eq=False)
class Hands:
    """The hands of ``W`` writers, drawn at random.

    Args:
        traits: ``(W,)`` for each trait of :class:`HandSpread` but the points.
        allograph: ``(W, 10)`` the writer's allograph of each digit.
        points: for each digit and allograph, the control points ``(W, K, 2)`` of this hand.
    """

    traits: dict[str, Float32s]
    allograph: NDArray[np.int64]
    points: dict[tuple[int, int], Float32s]

    @classmethod
    def draw(cls, writers: int, rng: np.random.Generator) -> "Hands":
        """Invent writers."""
        normal = {name: rng.standard_normal(writers) for name in _CENTRE}
        traits = {name: (_CENTRE[name] + getattr(BETWEEN, name) * normal[name]).astype(np.float32) for name in normal}
        allograph = np.stack([_choose(digit, writers, rng) for digit in range(10)], axis=1)
        points = {
            (digit, form): glyph.points
            + BETWEEN.point * rng.standard_normal((writers, *glyph.points.shape)).astype(np.float32)
            for digit, forms in ALLOGRAPHS.items()
            for form, (_, glyph) in enumerate(forms)
        }
        return cls(traits, allograph, points)

    def write(
        self, writer: NDArray[np.int64], digit: NDArray[np.int64], difficulty: float, rng: np.random.Generator
    ) -> NDArray[np.uint8]:
        """Let writers ``(N,)`` write digits ``(N,)``.

        Args:
            writer: the writers.
            digit: the digits.
            difficulty: variation; 0 writes the same image each time, 1 varies as people do.
            rng: source of the variation.

        Returns:
            ``(N, 28, 28)`` white ink on black.
        """
        form = self.allograph[writer, digit]
        strays = rng.random(len(writer)) > _LOYALTY**difficulty
        for value in range(10):
            here = np.flatnonzero(strays & (digit == value))
            form[here] = _choose(value, len(here), rng)
        images = np.empty((len(writer), SIDE, SIDE), np.uint8)
        for value, forms in ALLOGRAPHS.items():
            for number in range(len(forms)):
                here = np.flatnonzero((digit == value) & (form == number))
                for begin in range(0, len(here), _CHUNK):
                    chunk = here[begin : begin + _CHUNK]
                    images[chunk] = self._draw(writer[chunk], value, number, difficulty, rng)
        return images

    def _draw(
        self, writer: NDArray[np.int64], digit: int, form: int, difficulty: float, rng: np.random.Generator
    ) -> NDArray[np.uint8]:
        glyph = ALLOGRAPHS[digit][form][1]
        count = len(writer)

        def vary(name: str) -> Float32s:
            noise = rng.standard_normal(count).astype(np.float32)
            return self.traits[name][writer] + difficulty * getattr(WITHIN, name) * noise

        shake = rng.standard_normal((count, *glyph.points.shape)).astype(np.float32)
        points = self.points[digit, form][writer] + difficulty * WITHIN.point * shake
        places, begins = trace(glyph, points, vary("curvature"), _SAMPLES)  # (N, M, 2)
        places = _tilt(places, vary("slant"), vary("width"), vary("turn"))
        radius = _press(places, begins, np.exp(vary("pen")), vary("nib"))  # (N, M)
        distance = ink(_centre(places, radius), radius, SIDE, SIDE)
        # Paper and scanner leave the rim of a stroke uneven.
        rough = rng.standard_normal(distance.shape, dtype=np.float32) * (0.16 * (distance > -1))
        return (255 * (1.25 * distance + rough + 0.55).clip(0, 1)).astype(np.uint8)


_CENTRE = {"slant": 0.2, "width": 0.0, "pen": 0.2, "curvature": 1.02, "turn": 0.0, "nib": 0.06}


def _choose(digit: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    common = np.array([weight for weight, _ in ALLOGRAPHS[digit]])
    return rng.choice(len(common), size=count, p=common / common.sum())


def _tilt(places: Float32s, slant: Float32s, width: Float32s, turn: Float32s) -> Float32s:
    """Stretch, slant and turn each drawing of ``(N, M, 2)``."""
    cosine, sine, stretch = np.cos(turn), np.sin(turn), np.exp(width)
    matrix = np.array([[cosine * stretch, sine * stretch], [-cosine * slant - sine, cosine - sine * slant]])
    return places @ np.moveaxis(matrix, -1, 0).astype(np.float32)  # (N, 2, 2)


def _press(places: Float32s, begins: NDArray[np.bool_], pen: Float32s, nib: Float32s) -> Float32s:
    """Return the pen's radius ``(N, M)`` in pixels: larger in downward strokes, smaller where the pen lands."""
    move = np.gradient(places, axis=1)
    down = move[..., 1] / (np.hypot(move[..., 0], move[..., 1]) + 1e-6)
    radius = pen[:, None] * (1 + nib[:, None] * np.abs(down))
    radius[:, begins] *= 0.9
    return radius.clip(0.6, 2.6)


def _centre(places: Float32s, radius: Float32s) -> Float32s:
    """Scale each drawing to MNIST's box and centre it by its centre of mass."""
    extent = np.ptp(places, axis=1).max(axis=1)  # (N,)
    pixels = places * ((_BOX - 2 * radius.mean(axis=1)) / extent)[:, None, None]
    step = np.hypot(*np.moveaxis(np.diff(pixels, axis=1, append=pixels[:, -1:]), -1, 0)).clip(0, 1)
    weight = (step * radius)[..., None]
    return pixels - (pixels * weight).sum(axis=1, keepdims=True) / weight.sum(axis=1, keepdims=True) + (SIDE - 1) / 2
