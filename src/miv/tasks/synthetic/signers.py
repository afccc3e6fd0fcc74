"""Invented signers: one name each, signed by themselves with variation, or by a forger who imitates it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from miv.tasks.synthetic.signature_shapes import han_signature, latin_signature
from miv.tasks.synthetic.strokes import Float32s, Glyph, ink, trace

_SAMPLES = 900
_TREMOR = 14  # places over which a tremor changes direction


@dataclass(frozen=True, eq=False)
class Signer:
    """The way a person signs.

    Args:
        glyph: the shape of the name.
        slant: horizontal shift per unit of height.
        width: logarithm of the ratio of width to height.
        rise: radians by which the baseline climbs.
        pen: radius of the pen, in hundredths of the image's height.
        curvature: 0 straight, 1 round.
        nib: how much thicker downward strokes are than level ones.
    """

    glyph: Glyph
    slant: float
    width: float
    rise: float
    pen: float
    curvature: float
    nib: float

    @classmethod
    def draw(cls, script: str, rng: np.random.Generator) -> "Signer":
        """Invent a signer of the ``latin`` or the ``han`` script."""
        latin = script == "latin"
        return cls(
            glyph=latin_signature(rng) if latin else han_signature(rng),
            slant=rng.normal(0.3, 0.22) if latin else rng.normal(0.05, 0.1),
            width=rng.normal(0.1, 0.18),
            rise=rng.normal(0.06, 0.06),
            pen=rng.uniform(0.75, 1.5),
            curvature=rng.normal(1.0, 0.12) if latin else rng.normal(0.6, 0.2),
            nib=rng.uniform(0, 0.35),
        )

    def sign(
        self,
        count: int,
        height: int,
        difficulty: float,
        rng: np.random.Generator,
        forger: "Signer | None" = None,
    ) -> NDArray[np.uint8]:
        """Draw ``count`` signatures, by the signer or by a forger.

        A forger copies the name: the shape is right, but proportions, slant and pen are partly the forger's own,
        and the line trembles because it is drawn slowly.

        Args:
            count: number of signatures, ``N``.
            height: height of the images; they are twice as wide.
            difficulty: variation; 0 signs the same each time, 1 varies as people do.
            rng: source of the variation.
            forger: the forger, if any.

        Returns:
            ``(N, H, 2 H)`` black ink on white.
        """

        def vary(own: float, foreign: float, deviation: float) -> Float32s:
            mean = own + 0.5 * (foreign - own)
            return (mean + difficulty * deviation * rng.standard_normal(count)).astype(np.float32)

        other = forger or self
        points = self.glyph.points + difficulty * _wander(count, len(self.glyph.points), 0.06, 0.03, rng)
        if forger is not None:
            points = points + _wander(1, len(self.glyph.points), 0.08, 0.04, rng)
        curvature = vary(self.curvature, other.curvature, 0.06)
        places, _ = trace(self.glyph, points, curvature, _SAMPLES)  # (N, M, 2)
        if forger is not None:
            places = places + _tremor(places, rng)
        slant, rise = vary(self.slant, other.slant, 0.06), vary(self.rise, other.rise, 0.03)
        stretch = np.exp(vary(self.width, other.width, 0.06))
        places = np.stack([stretch[:, None] * (places[..., 0] - slant[:, None] * places[..., 1]), places[..., 1]], -1)
        turn = np.array([[np.cos(rise), -np.sin(rise)], [np.sin(rise), np.cos(rise)]], np.float32)
        places = places @ np.moveaxis(turn, -1, 0)
        pen = np.exp(vary(np.log(self.pen), np.log(other.pen), 0.1)) * (2 * height / 100)
        nib = vary(self.nib, other.nib, 0.04)
        move = np.gradient(places, axis=1)
        down = np.abs(move[..., 1]) / (np.hypot(move[..., 0], move[..., 1]) + 1e-6)
        radius = (pen[:, None] * (1 + nib[:, None] * (down - 0.5))).clip(0.7, None).astype(np.float32)
        return _print(places, radius, height)


def _wander(count: int, points: int, jitter: float, drift: float, rng: np.random.Generator) -> Float32s:
    """Return displacements ``(N, K, 2)``: independent ones per point, plus a drift along the name."""
    own, step = rng.standard_normal((2, count, points, 2))
    return (jitter * own + drift * np.cumsum(step, axis=1)).astype(np.float32)


def _tremor(places: Float32s, rng: np.random.Generator) -> Float32s:
    """Return the small, quick tremor of a hand that draws slowly, ``(N, M, 2)``."""
    noise = rng.standard_normal(places.shape).astype(np.float32)
    summed = np.cumsum(np.pad(noise, ((0, 0), (_TREMOR, 0), (0, 0))), axis=1)
    return 0.02 * (summed[:, _TREMOR:] - summed[:, :-_TREMOR]) / np.float32(np.sqrt(_TREMOR))


def _print(places: Float32s, radius: Float32s, height: int) -> NDArray[np.uint8]:
    """Fit each signature ``(N, M, 2)`` into its image, make it black and white, and halve the size.

    Real signatures are processed in the same way: black and white at twice the size, then resized.
    """
    full = np.array([4 * height, 2 * height], np.float32)  # x, y
    room = 0.92 * full - 2 * radius.max(axis=1)[:, None]
    low, high = places.min(axis=1), places.max(axis=1)  # (N, 2)
    scale = (room / (high - low)).min(axis=1)[:, None, None]
    pixels = (places - ((low + high) / 2)[:, None]) * scale + (full - 1) / 2
    black = ink(pixels, radius, 2 * height, 4 * height) > 0
    quarters = black.reshape(len(black), height, 2, 2 * height, 2)
    return (255 * (1 - quarters.mean(axis=(2, 4)))).astype(np.uint8)
