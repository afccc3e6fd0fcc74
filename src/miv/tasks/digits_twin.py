"""The handwriting twin: the QMNIST task with digits by invented writers, generated on demand."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from miv.data import ExemplarSet, InstancePool
from miv.files.json import finite_number
from miv.runtime import Progress
from miv.tasks.base import check_room, check_whole, register_task
from miv.tasks.writer_bags import Recipe, draw_exemplars, hold_out, plan_exemplars

Float32s = NDArray[np.float32]
Stroke = list[tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Glyph:
    """A drawing of ``K`` control points; strokes that name the same point stay joined when it moves."""

    points: Float32s  # (K, 2) x to the right and y downwards
    strokes: tuple[tuple[int, ...], ...]  # for each stroke, the points it passes, in drawing order

    @classmethod
    def from_strokes(cls, *strokes: Stroke) -> "Glyph":
        """Create a glyph from coordinates; equal coordinates are one point."""
        place: dict[tuple[float, float], int] = {}
        indices = tuple(tuple(place.setdefault(point, len(place)) for point in stroke) for stroke in strokes)
        return cls(np.array(list(place), np.float32), indices)


def trace(glyph: Glyph, points: Float32s, curvature: Float32s, samples: int) -> tuple[Float32s, NDArray[np.bool_]]:
    """Follow the pen through control points ``(N, K, 2)``: places ``(N, M, 2)``, and ``(M,)`` where a stroke begins.

    A curvature ``(N,)`` of 0 joins the points with straight lines, 1 with Catmull-Rom splines.
    """
    straight, smooth, begins = _bases(glyph, samples)
    angular, rounded = straight @ points, smooth @ points  # (N, M, 2) each
    return angular + curvature[:, None, None] * (rounded - angular), begins


def _bases(glyph: Glyph, samples: int) -> tuple[Float32s, Float32s, NDArray[np.bool_]]:
    """Return weights ``(M, K)`` of the control points for straight and for smooth strokes."""
    spans = [np.linalg.norm(np.diff(glyph.points[list(s)], axis=0), axis=1) for s in glyph.strokes]
    density = samples / sum(float(span.sum()) for span in spans)
    straight, smooth, begins = [], [], []
    for stroke, span in zip(glyph.strokes, spans, strict=True):
        for i, length in enumerate(span):
            last = i == len(span) - 1
            t = np.linspace(0, 1, max(2, round(length * density)) + last, endpoint=last, dtype=np.float32)
            # A spline needs a point before and after its piece; at the ends the end itself serves.
            around = [stroke[max(i - 1, 0)], stroke[i], stroke[i + 1], stroke[min(i + 2, len(stroke) - 1)]]
            weights = (-t + 2 * t**2 - t**3, 2 - 5 * t**2 + 3 * t**3, t + 4 * t**2 - 3 * t**3, t**3 - t**2)
            lines, curves = np.zeros((2, len(t), len(glyph.points)), np.float32)
            for place, weight in zip(around, weights, strict=True):
                curves[:, place] += weight / 2
            lines[:, stroke[i]] += 1 - t
            lines[:, stroke[i + 1]] += t
            straight.append(lines)
            smooth.append(curves)
            begins.append((np.arange(len(t)) == 0) & (i == 0))
    return np.concatenate(straight), np.concatenate(smooth), np.concatenate(begins)


def ink(places: Float32s, radius: Float32s, height: int, width: int) -> Float32s:
    """Draw discs of ink along the path of the pen ``(N, M, 2)``, in pixels, with a radius ``(N, M)`` each.

    The result ``(N, H, W)`` is the distance from the rim of the ink in pixels, positive inside, at least -1.
    """
    count = len(places)
    reach = int(np.ceil(radius.max(initial=0.0))) + 1
    # The border of the canvas takes the discs that stick out, so that no index needs a check.
    rows, columns = height + 2 * reach, width + 2 * reach
    canvas = np.full(count * rows * columns, -1, np.float32)
    offset_x, offset_y = (axis.ravel() for axis in np.meshgrid(*[np.arange(-reach, reach + 1)] * 2))  # (R²,)
    nearest = np.rint(places).clip(0, (width - 1, height - 1)).astype(np.intp)  # (N, M, 2)
    first = np.arange(count)[:, None] * (rows * columns) + reach * (columns + 1)
    middle = first + nearest[..., 1] * columns + nearest[..., 0]  # (N, M)
    away = (nearest - places).astype(np.float32)
    around = offset_y * columns + offset_x
    disc_x, disc_y = offset_x.astype(np.float32), offset_y.astype(np.float32)
    # Discs of one drawing overlap, those of different drawings do not: one place of all drawings at a time.
    for place in range(places.shape[1]):
        pixel = middle[:, place, None] + around  # (N, R²)
        distance = np.hypot(away[:, place, :1] + disc_x, away[:, place, 1:] + disc_y)
        canvas[pixel] = np.maximum(canvas[pixel], radius[:, place, None] - distance)
    inner = canvas.reshape(count, rows, columns)[:, reach : reach + height, reach : reach + width]
    return np.ascontiguousarray(inner)


# Allographs: the digit, how common the form is, and its points in hundredths of the height; a bar lifts the pen.
_SHAPES = """
0 0.5  40,0 18,12 4,45 12,86 34,100 58,86 68,48 58,12 38,1
0 0.3  30,4 10,26 4,60 16,92 40,98 62,74 66,36 52,6 30,8 20,20
0 0.2  50,4 22,8 4,40 10,80 34,100 60,84 68,46 60,16
1 0.6  32,0 31,50 30,100
1 0.2  36,0 30,32 31,68 26,100
1 0.12 14,20 24,12 34,0 | 34,0 33,34 32,66 32,100
1 0.08 14,18 24,10 34,0 | 34,0 33,50 32,98 | 6,100 32,98 58,97
2 0.45 6,22 16,6 36,0 56,12 55,34 35,62 4,96 | 4,96 38,93 72,95
2 0.4  6,22 16,6 36,0 56,12 55,34 35,62 16,92 2,90 8,74 26,78 46,94 74,92
2 0.15 6,8 34,2 60,6 | 60,6 32,52 2,96 | 2,96 36,95 70,98
3 0.55 6,14 22,2 44,3 56,18 46,36 28,45 | 28,45 52,52 62,72 48,94 24,100 2,88
3 0.25 6,12 26,0 50,8 54,26 36,44 20,50 22,42 46,50 62,70 50,92 26,100 2,90
3 0.2  4,4 30,3 56,2 | 56,2 42,24 28,45 | 28,45 52,52 62,72 48,94 24,100 2,88
4 0.45 16,4 12,28 6,54 | 6,54 36,55 70,50 | 54,2 52,34 48,68 44,100
4 0.35 10,4 4,28 10,48 32,50 52,36 60,4 | 60,4 54,40 48,70 42,100
4 0.2  50,0 28,30 2,62 | 2,62 36,61 72,58 | 50,0 48,34 46,68 44,100
5 0.6  16,4 13,24 10,44 | 10,44 32,38 56,50 60,74 42,94 20,100 2,90 | 16,4 42,3 68,0
5 0.25 66,2 40,4 20,14 14,36 36,46 54,60 52,84 32,100 4,94
5 0.15 14,10 11,26 10,44 | 10,44 32,38 56,50 60,74 42,94 20,100 2,90 | 24,4 46,2 70,0
6 0.5  46,0 26,18 10,46 6,74 20,96 42,96 56,78 48,58 28,58 10,76
6 0.3  34,0 20,32 10,64 14,90 32,100 50,88 50,70 34,62 14,76
6 0.2  56,4 30,12 10,42 6,76 26,98 54,90 60,66 40,54 22,66 26,80
7 0.5  4,8 34,6 64,3 | 64,3 46,36 34,68 26,100
7 0.2  4,16 20,4 44,2 60,10 52,40 38,70 30,100
7 0.15 4,8 34,6 64,3 | 64,3 46,36 34,68 26,100 | 16,52 40,50 64,47
7 0.15 4,24 6,13 6,4 | 6,4 34,6 62,3 | 62,3 48,36 38,68 32,100
8 0.55 58,10 38,0 16,12 22,34 42,52 54,76 38,98 14,92 12,70 34,48 52,28 58,10
8 0.25 50,14 32,2 12,16 24,38 46,56 50,80 30,100 10,84 20,62 42,36 64,6
8 0.2  34,46 14,34 16,10 36,0 54,12 52,34 34,46 | 34,46 10,60 8,86 32,100 56,88 56,60 34,46
9 0.5  58,10 36,0 12,12 6,32 22,47 44,38 58,10 | 58,10 54,40 50,70 46,100
9 0.25 58,10 36,0 12,12 6,32 22,47 44,38 58,10 | 58,10 58,50 50,84 32,100 10,94
9 0.25 52,6 30,0 8,16 10,38 32,42 52,22 58,4 54,36 44,70 36,100
"""


def _read_allographs() -> dict[int, list[tuple[float, Glyph]]]:
    allographs: dict[int, list[tuple[float, Glyph]]] = {digit: [] for digit in range(10)}
    for line in _SHAPES.strip().splitlines():
        digit, common, shape = line.split(maxsplit=2)
        points = [[point.split(",") for point in stroke.split()] for stroke in shape.split("|")]
        glyph = Glyph.from_strokes(*([(int(x) / 100, int(y) / 100) for x, y in stroke] for stroke in points))
        allographs[int(digit)].append((float(common), glyph))
    return allographs


ALLOGRAPHS = _read_allographs()
SIDE = 28
_BOX = 20  # MNIST fits a digit into 20 × 20 pixels, then puts its centre of mass into the middle of 28 × 28
_SAMPLES = 72
_CHUNK = 256  # drawings at a time: their discs stay in the cache


# Mean of each trait, and its deviation between and within hands. Slant is shift per height, width and the pen's radius
# are logarithms, a curvature of 1 is round, turn is in radians, nib is how much thicker downward strokes are.
_TRAITS = {
    "slant": (0.2, 0.2, 0.11),
    "width": (0.0, 0.2, 0.14),
    "pen": (0.2, 0.22, 0.19),
    "curvature": (1.02, 0.16, 0.11),
    "turn": (0.0, 0.06, 0.06),
    "nib": (0.06, 0.12, 0.07),
}
_POINT_BETWEEN, _POINT_WITHIN = 0.028, 0.024  # deviations of a control point, in heights of a digit
_LOYALTY = 0.87  # how often a hand keeps to its own allograph


@dataclass(frozen=True, eq=False)
class Hands:
    """The hands of ``W`` writers, drawn at random."""

    traits: dict[str, Float32s]  # (W,) each
    allograph: NDArray[np.int64]  # (W, 10) the writer's allograph of each digit
    points: dict[tuple[int, int], Float32s]  # for each digit and allograph, the control points (W, K, 2) of this hand

    @classmethod
    def draw(cls, writers: int, rng: np.random.Generator) -> "Hands":
        """Invent writers."""
        traits = {
            name: (mean + between * rng.standard_normal(writers)).astype(np.float32)
            for name, (mean, between, _) in _TRAITS.items()
        }
        allograph = np.stack([_choose(digit, writers, rng) for digit in range(10)], axis=1)
        points = {
            (digit, form): glyph.points
            + _POINT_BETWEEN * rng.standard_normal((writers, *glyph.points.shape)).astype(np.float32)
            for digit, forms in ALLOGRAPHS.items()
            for form, (_, glyph) in enumerate(forms)
        }
        return cls(traits, allograph, points)

    def write(
        self, writer: NDArray[np.int64], digit: NDArray[np.int64], difficulty: float, rng: np.random.Generator
    ) -> NDArray[np.uint8]:
        """Let writers ``(N,)`` write digits ``(N,)``: ``(N, 28, 28)``, white ink on black."""
        form = self.allograph[writer, digit]
        strays = rng.random(len(writer)) > _LOYALTY**difficulty
        for value in range(10):
            rows = np.flatnonzero(strays & (digit == value))
            form[rows] = _choose(value, len(rows), rng)
        images = np.empty((len(writer), SIDE, SIDE), np.uint8)
        for value, forms in ALLOGRAPHS.items():
            for number in range(len(forms)):
                rows = np.flatnonzero((digit == value) & (form == number))
                for begin in range(0, len(rows), _CHUNK):
                    chunk = rows[begin : begin + _CHUNK]
                    images[chunk] = self._draw(writer[chunk], value, number, difficulty, rng)
        return images

    def _draw(
        self, writer: NDArray[np.int64], digit: int, form: int, difficulty: float, rng: np.random.Generator
    ) -> NDArray[np.uint8]:
        glyph = ALLOGRAPHS[digit][form][1]
        count = len(writer)

        def vary(name: str) -> Float32s:
            noise = rng.standard_normal(count).astype(np.float32)
            return self.traits[name][writer] + difficulty * _TRAITS[name][2] * noise

        shake = rng.standard_normal((count, *glyph.points.shape)).astype(np.float32)
        points = self.points[digit, form][writer] + difficulty * _POINT_WITHIN * shake
        places, begins = trace(glyph, points, vary("curvature"), _SAMPLES)  # (N, M, 2)
        places = _tilt(places, vary("slant"), vary("width"), vary("turn"))
        radius = _press(places, begins, np.exp(vary("pen")), vary("nib"))  # (N, M)
        distance = ink(_centre(places, radius), radius, SIDE, SIDE)
        # Paper and scanner leave the rim of a stroke uneven.
        rough = rng.standard_normal(distance.shape, dtype=np.float32) * (0.16 * (distance > -1))
        return (255 * (1.25 * distance + rough + 0.55).clip(0, 1)).astype(np.uint8)


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


@register_task("digits-twin")
@dataclass(frozen=True)
class SyntheticDigits:
    """Handwritten digits by invented writers: QMNIST without a download.

    No writer is in two splits.

    Args:
        writers: number of writers in the train split.
        held_out_writers: number of other writers in each of validation and test.
        copies: number of times a writer writes each of the ten digits.
        difficulty: variation within a writer; 0 repeats the same image, 1 varies as much as QMNIST.
        references_per_query: number of digits of the query's writer to ask with; fewer if there are too few copies.
        seed: random seed.
        round: index of the random draw; draws are independent.
    """

    writers: int = 120
    held_out_writers: int = 40
    copies: int = 5
    difficulty: float = 1.0
    references_per_query: int = 1
    seed: int = 0
    round: int = 0

    def __post_init__(self) -> None:
        check_whole(6, 10_000, writers=self.writers, held_out_writers=self.held_out_writers)
        check_whole(2, 1_000, copies=self.copies)
        check_whole(1, 100, references_per_query=self.references_per_query)
        check_whole(0, seed=self.seed, round=self.round)
        finite_number("difficulty", self.difficulty, low=0, high=5)
        check_room((self.writers + 2 * self.held_out_writers) * 10 * self.copies, SIDE, SIDE)

    def build(self, progress: Progress) -> dict[str, ExemplarSet]:
        """Invent writers, let them write, and draw exemplars as for QMNIST."""
        counts = {"train": self.writers, "validation": self.held_out_writers, "test": self.held_out_writers}
        with progress.step("Writing digits", total=sum(counts.values()) * 10 * self.copies) as advance:
            sets = {}
            for stream, (split, writers) in enumerate(counts.items()):
                rng = np.random.default_rng([self.seed, self.round, stream])
                writer = np.repeat(np.arange(writers), 10 * self.copies)
                digit = np.tile(np.repeat(np.arange(10), self.copies), writers)
                images = Hands.draw(writers, rng).write(writer, digit, self.difficulty, rng)
                # As in QMNIST: two queries per writer and digit in train, one elsewhere.
                queries = min(2, self.copies - 1) if split == "train" else 1
                stock = hold_out(rng, writer, digit, queries, self.references_per_query)
                plan = plan_exemplars(rng, stock, Recipe(queries, fewest=3, most=5, lent=5, draw="geometric"))
                names = np.array([f"{split}-{number:04d}" for number in writer], dtype=object)
                pool = InstancePool("image", images, names)
                sets[split] = draw_exemplars(rng, pool, writer, digit, [(stock, plan)])
                advance(len(writer))
        return sets
