"""Pen strokes: curves through control points, and their ink on a grid of pixels."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Float32s = NDArray[np.float32]
Stroke = list[tuple[float, float]]


def read_strokes(text: str) -> list[Stroke]:
    """Read points in hundredths; a bar lifts the pen.

    >>> read_strokes("0,0 50,-20 | 100,100")
    [[(0.0, 0.0), (0.5, -0.2)], [(1.0, 1.0)]]
    """
    points = [[point.split(",") for point in stroke.split()] for stroke in text.split("|")]
    return [[(int(x) / 100, int(y) / 100) for x, y in stroke] for stroke in points]


@dataclass(frozen=True, eq=False)
class Glyph:
    """A drawing of ``K`` control points; strokes that name the same point stay joined when it moves.

    Args:
        points: ``(K, 2)`` x to the right and y downwards.
        strokes: for each stroke, the points it passes, in drawing order.
    """

    points: Float32s
    strokes: tuple[tuple[int, ...], ...]

    @classmethod
    def from_strokes(cls, *strokes: Stroke) -> "Glyph":
        """Create a glyph from coordinates; equal coordinates are one point.

        >>> Glyph.from_strokes([(0, 0), (1, 0)], [(1, 0), (1, 1)]).strokes
        ((0, 1), (1, 2))
        """
        place: dict[tuple[float, float], int] = {}
        indices = tuple(tuple(place.setdefault(point, len(place)) for point in stroke) for stroke in strokes)
        return cls(np.array(list(place), np.float32), indices)


def trace(glyph: Glyph, points: Float32s, curvature: Float32s, samples: int) -> tuple[Float32s, NDArray[np.bool_]]:
    """Follow the pen through moved control points.

    Args:
        glyph: gives the strokes.
        points: ``(N, K, 2)`` the control points of each drawing.
        curvature: ``(N,)`` 0 joins the points with straight lines, 1 with Catmull-Rom splines.
        samples: approximate number of places to return.

    Returns:
        ``(N, M, 2)`` places along the strokes, and ``(M,)`` True where a stroke begins.
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
    """Draw discs of ink along the path of the pen.

    Args:
        places: ``(N, M, 2)`` in pixels, close enough together that the discs overlap.
        radius: ``(N, M)`` radius of the pen at each place, in pixels.
        height: height of the image.
        width: width of the image.

    Returns:
        ``(N, H, W)`` the signed distance from the rim of the ink in pixels, positive inside, at least -1.
        Ink beyond the border is cut off.
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
