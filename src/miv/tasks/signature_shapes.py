"""The shapes of invented signatures: a Latin name in cursive with a flourish, or a few Han-like characters.

Letters stand on the baseline y = 0 and are one unit high where they have neither ascender nor descender; y
grows downwards. A letter begins where the one before ended.
"""

import numpy as np

from miv.tasks.strokes import Glyph

Stroke = list[tuple[float, float]]

# fmt: off
LETTERS: tuple[Stroke, ...] = (
    [(0.35, -0.35), (0.6, -0.8), (0.4, -1), (0.2, -0.6), (0.4, -0.05), (0.8, -0.05)],  # e
    [(0.35, -0.8), (0.6, -1.9), (0.4, -2.2), (0.25, -1.6), (0.3, -0.3), (0.5, 0), (0.8, -0.1)],  # l
    [(0.15, -0.9), (0.25, -0.1), (0.5, -0.95), (0.75, -0.8), (0.8, -0.1), (1.05, -0.05)],  # n
    [(0.2, -0.95), (0.25, -0.2), (0.5, 0), (0.75, -0.4), (0.8, -0.95), (0.85, -0.1), (1.1, -0.05)],  # u
    [(0.25, -0.95), (0.3, -0.15), (0.6, -0.05)],  # i
    [(0.4, -0.95), (0.15, -0.6), (0.3, -0.02), (0.6, -0.4), (0.5, -0.95), (0.85, -0.75)],  # o
    [(0.6, -0.9), (0.25, -0.85), (0.15, -0.3), (0.4, 0), (0.65, -0.7), (0.7, -0.1), (0.95, -0.05)],  # a
    [(0.6, -0.9), (0.2, -0.8), (0.25, -0.15), (0.6, -0.6), (0.6, 0.6), (0.4, 1.3), (0.15, 1), (0.95, -0.1)],  # g
    [(0.35, -1.2), (0.5, -2.1), (0.3, -2.1), (0.25, -0.1), (0.45, -0.9), (0.7, -0.8), (0.75, -0.1), (1, -0.05)],  # h
    [(0.4, -1), (0.55, -0.5), (0.4, -0.02), (0.15, -0.1), (0.75, -0.1)],  # s
    [(0.3, -1.8), (0.32, -0.2), (0.65, -0.05)],  # t
    [(0.55, -0.85), (0.2, -0.7), (0.25, -0.05), (0.6, -0.6), (0.65, -2), (0.68, -0.2), (0.95, -0.05)],  # d
    [(0.2, -1), (0.4, -0.85), (0.5, -0.2), (0.8, -0.05)],  # r
    [(0.2, -0.9), (0.35, -0.2), (0.7, -0.9), (0.6, 0.6), (0.35, 1.3), (0.15, 1), (0.9, -0.05)],  # y
    [(0.4, -1), (0.6, -2), (0.35, -2), (0.3, 0), (0.3, 1.2), (0.5, 0.9), (0.45, 0), (0.85, -0.1)],  # f
)
CAPITALS: tuple[tuple[Stroke, ...], ...] = (
    ([(1.1, -2.1), (0.7, -2.4), (0.3, -1.9), (0.7, -1.2), (1, -0.5), (0.5, 0), (0, -0.3), (1.3, -0.1)],),  # S
    ([(1.1, -2), (0.7, -2.4), (0.1, -1.5), (0.3, -0.2), (0.8, 0), (1.3, -0.4)],),  # C
    ([(0.9, -2.1), (0.6, -2.4), (0.4, -1.6), (0.4, -0.5), (0.1, -0.05), (0.3, -0.2), (0.8, 0), (1.3, -0.1)],),  # L
    ([(0.2, -1.9), (0.8, -2.4), (1, -1.8), (0.8, 0), (0.5, 1.1), (0.1, 0.9), (0.6, 0.1), (1.3, -0.3)],),  # J
    ([(0, 0), (0.4, -1.2), (0.8, -2.4)], [(0.8, -2.4), (0.95, -1.1), (1.1, 0)], [(0.3, -0.9), (1.3, -0.8)]),  # A
    ([(0, 0), (0.2, -2.2)], [(0.2, -2.2), (0.6, -0.8)], [(0.6, -0.8), (1.1, -2.3)],
     [(1.1, -2.3), (1.3, -0.1), (1.5, -0.05)]),  # M
    ([(0.3, -2.2), (0.25, -1.1), (0.2, 0)], [(0, -1.9), (0.5, -2.4), (1, -1.9), (0.4, -1.25)],
     [(0.4, -1.25), (1.2, -0.8), (0.8, 0), (0.2, -0.1)]),  # B
    ([(0.3, -2.2), (0.25, -1), (0.15, 0.1)], [(0, -1.8), (0.5, -2.4), (1.1, -1.9), (0.8, -1.2), (0.25, -1.1)]),  # P
    ([(0.3, -2.2), (0.25, -1), (0.15, 0.1)],
     [(0, -1.8), (0.5, -2.4), (1.1, -1.9), (0.5, -1.1)], [(0.5, -1.1), (0.8, -0.5), (1.3, 0)]),  # R
    ([(0.3, -2.2), (0.3, -1), (0.2, 0)], [(0, -2.1), (0.7, -2.3), (1.3, -1.4), (1, -0.2), (0.2, 0)]),  # D
    ([(0.2, -2.3), (0.2, -1.1), (0.15, 0)], [(1, -2.3), (0.6, -1.5), (0.25, -1.1)],
     [(0.25, -1.1), (0.6, -0.5), (1.2, 0)]),  # K
    ([(0.1, -2.3), (0.1, 0)], [(1, -2.3), (0.95, -1), (1, 0)], [(0, -1.1), (0.6, -1.2), (1.2, -1.2)]),  # H
    ([(0, -2.1), (0.6, -2.3), (1.3, -2.2)], [(0.7, -2.3), (0.65, -1), (0.6, 0)]),  # T
    ([(1, -2.2), (0.5, -2.4), (0.2, -1.8), (0.6, -1.25), (0.15, -0.7), (0.4, 0), (1.2, -0.2)],),  # E
)
HAN_STROKES: tuple[Stroke, ...] = (  # in a cell of one unit
    [(0.05, 0.5), (0.5, 0.46), (0.95, 0.42)],
    [(0.1, 0.2), (0.5, 0.17), (0.9, 0.14)],
    [(0.05, 0.85), (0.5, 0.82), (0.98, 0.78)],
    [(0.5, 0.02), (0.5, 0.5), (0.49, 0.98)],
    [(0.55, 0.05), (0.42, 0.5), (0.05, 0.95)],
    [(0.45, 0.3), (0.65, 0.65), (0.98, 0.92)],
    [(0.15, 0.25), (0.13, 0.55), (0.15, 0.85)],
    [(0.15, 0.22), (0.8, 0.18), (0.82, 0.2), (0.78, 0.85), (0.68, 0.78)],  # across, then down, with a hook
    [(0.3, 0.1), (0.4, 0.2), (0.45, 0.28)],
    [(0.7, 0.1), (0.62, 0.2), (0.52, 0.28)],
    [(0.2, 0.3), (0.22, 0.8), (0.3, 0.92), (0.85, 0.9), (0.92, 0.7)],
)
# fmt: on


def latin_signature(rng: np.random.Generator) -> Glyph:
    """Invent a name in cursive: capitals, letters that fade as many signatures do, and often a flourish."""
    strokes: list[Stroke] = []
    x = 0.0
    for _ in range(rng.integers(1, 3)):
        size = rng.uniform(0.9, 1.5)
        strokes += _placed(CAPITALS[rng.integers(len(CAPITALS))], x, size * rng.uniform(0.8, 1.2), size)
        x = max(px for stroke in strokes for px, _ in stroke) - rng.uniform(-0.1, 0.3)
    letters = int(rng.integers(3, 8))
    fading = rng.uniform(0, 0.7)
    name: Stroke = [(x, -0.1)]
    marks: list[Stroke] = []
    for place in range(letters):
        height = 1 - fading * place / letters
        width = rng.uniform(0.75, 1.25)
        letter = LETTERS[rng.integers(len(LETTERS))]
        name += _placed([letter], x, width, height)[0]
        if rng.random() < 0.12:  # the dot of an i or the bar of a t
            bar = rng.uniform(0.05, 0.9)
            marks.append([(x + 0.1, -1.5), (x + 0.1 + bar, -1.5 - 0.15 * bar)])
        x = name[-1][0]
    return Glyph.from_strokes(*strokes, *_with_flourish(name, rng), *marks)


def _with_flourish(name: Stroke, rng: np.random.Generator) -> list[Stroke]:
    end = name[-1][0]
    kind = rng.integers(5)
    if kind == 0:  # back under the name and forth again
        low = rng.uniform(0.6, 1.1)
        back = rng.uniform(-0.4, 0.4) * end
        tail = [(end + 0.6, -0.4), (end + 0.7, 0.3), (end * 0.5, low), (back, low), (end * 0.5, low - 0.25)]
        return [name + tail + [(end + rng.uniform(0, 1), low)]]
    if kind == 1:  # a line below
        low, left = rng.uniform(0.5, 1.1), rng.uniform(-0.2, 0.5) * end
        return [name, [(left, low + 0.1), (end * 0.6, low - 0.1), (end + rng.uniform(-0.5, 1), low - 0.2)]]
    if kind == 2:  # a long tail
        return [[*name, (end + 1, -0.4), (end + rng.uniform(1.5, 2.8), rng.uniform(-0.6, 0.6))]]
    if kind == 3:  # up, around the name and back below
        high = rng.uniform(-2.9, -2.2)
        return [[*name, (end + 0.9, -1.3), (end * 0.6, high), (end * 0.1, -1), (end * 0.4, 0.7), (end + 0.8, 0.4)]]
    return [name]


def han_signature(rng: np.random.Generator) -> Glyph:
    """Invent two or three characters of two parts each; strokes are sometimes drawn in one go."""
    strokes: list[Stroke] = []
    x = 0.0
    for _ in range(rng.integers(2, 4)):
        size = rng.uniform(2, 2.6)
        split = rng.uniform(0.35, 0.65)
        side_by_side = rng.random() < 0.6
        for begin, extent in ((0.0, split), (split, 1 - split)):
            for number in rng.choice(len(HAN_STROKES), size=rng.integers(3, 5), replace=False):
                unit = HAN_STROKES[number]
                part = [(begin + extent * px, py) if side_by_side else (px, begin + extent * py) for px, py in unit]
                stroke = [(x + size * px, size * (py - 1)) for px, py in part]
                if strokes and rng.random() < 0.12:
                    strokes[-1] = strokes[-1] + stroke
                else:
                    strokes.append(stroke)
        x += size * rng.uniform(0.9, 1.15)
    return Glyph.from_strokes(*strokes)


def _placed(strokes: tuple[Stroke, ...] | list[Stroke], x: float, width: float, height: float) -> list[Stroke]:
    return [[(x + width * px, height * py) for px, py in stroke] for stroke in strokes]
