"""The shapes of invented signatures: a Latin name in cursive with a flourish, or a few Han-like characters.

Letters stand on the baseline y = 0 and are one unit high without ascender and descender; y grows downwards. A
letter begins where the previous one ended.
"""

import numpy as np

from miv.tasks.synthetic.strokes import Glyph, Stroke, read_strokes

_LETTERS = (
    "35,-35 60,-80 40,-100 20,-60 40,-5 80,-5",  # e
    "35,-80 60,-190 40,-220 25,-160 30,-30 50,0 80,-10",  # l
    "15,-90 25,-10 50,-95 75,-80 80,-10 105,-5",  # n
    "20,-95 25,-20 50,0 75,-40 80,-95 85,-10 110,-5",  # u
    "25,-95 30,-15 60,-5",  # i
    "40,-95 15,-60 30,-2 60,-40 50,-95 85,-75",  # o
    "60,-90 25,-85 15,-30 40,0 65,-70 70,-10 95,-5",  # a
    "60,-90 20,-80 25,-15 60,-60 60,60 40,130 15,100 95,-10",  # g
    "35,-120 50,-210 30,-210 25,-10 45,-90 70,-80 75,-10 100,-5",  # h
    "40,-100 55,-50 40,-2 15,-10 75,-10",  # s
    "30,-180 32,-20 65,-5",  # t
    "55,-85 20,-70 25,-5 60,-60 65,-200 68,-20 95,-5",  # d
    "20,-100 40,-85 50,-20 80,-5",  # r
    "20,-90 35,-20 70,-90 60,60 35,130 15,100 90,-5",  # y
    "40,-100 60,-200 35,-200 30,0 30,120 50,90 45,0 85,-10",  # f
)
_CAPITALS = (
    "110,-210 70,-240 30,-190 70,-120 100,-50 50,0 0,-30 130,-10",  # S
    "110,-200 70,-240 10,-150 30,-20 80,0 130,-40",  # C
    "90,-210 60,-240 40,-160 40,-50 10,-5 30,-20 80,0 130,-10",  # L
    "20,-190 80,-240 100,-180 80,0 50,110 10,90 60,10 130,-30",  # J
    "0,0 40,-120 80,-240 | 80,-240 95,-110 110,0 | 30,-90 130,-80",  # A
    "0,0 20,-220 | 20,-220 60,-80 | 60,-80 110,-230 | 110,-230 130,-10 150,-5",  # M
    "30,-220 25,-110 20,0 | 0,-190 50,-240 100,-190 40,-125 | 40,-125 120,-80 80,0 20,-10",  # B
    "30,-220 25,-100 15,10 | 0,-180 50,-240 110,-190 80,-120 25,-110",  # P
    "30,-220 25,-100 15,10 | 0,-180 50,-240 110,-190 50,-110 | 50,-110 80,-50 130,0",  # R
    "30,-220 30,-100 20,0 | 0,-210 70,-230 130,-140 100,-20 20,0",  # D
    "20,-230 20,-110 15,0 | 100,-230 60,-150 25,-110 | 25,-110 60,-50 120,0",  # K
    "10,-230 10,0 | 100,-230 95,-100 100,0 | 0,-110 60,-120 120,-120",  # H
    "0,-210 60,-230 130,-220 | 70,-230 65,-100 60,0",  # T
    "100,-220 50,-240 20,-180 60,-125 15,-70 40,0 120,-20",  # E
)
_HAN = (  # in a cell of one unit
    "5,50 50,46 95,42",
    "10,20 50,17 90,14",
    "5,85 50,82 98,78",
    "50,2 50,50 49,98",
    "55,5 42,50 5,95",
    "45,30 65,65 98,92",
    "15,25 13,55 15,85",
    "15,22 80,18 82,20 78,85 68,78",  # across, then down, with a hook
    "30,10 40,20 45,28",
    "70,10 62,20 52,28",
    "20,30 22,80 30,92 85,90 92,70",
)

LETTERS = tuple(read_strokes(letter)[0] for letter in _LETTERS)
CAPITALS = tuple(read_strokes(capital) for capital in _CAPITALS)
HAN_STROKES = tuple(read_strokes(stroke)[0] for stroke in _HAN)


def latin_signature(rng: np.random.Generator) -> Glyph:
    """Invent a name in cursive: capitals, letters that fade as in many signatures, and often a flourish."""
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
    """Invent two or three characters of two parts each; strokes are sometimes joined."""
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
