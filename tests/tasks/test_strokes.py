import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from miv.tasks.synthetic.strokes import Glyph, ink, trace

CORNER = Glyph.from_strokes([(0, 0), (1, 0), (2, 0)], [(2, 0), (2, 2)])


def test_strokes_that_name_the_same_point_share_it() -> None:
    assert CORNER.points.tolist() == [[0, 0], [1, 0], [2, 0], [2, 2]]
    assert CORNER.strokes == ((0, 1, 2), (2, 3))


@pytest.mark.parametrize("curvature", [0.0, 1.0])
def test_points_on_a_line_give_a_line_and_each_stroke_its_beginning(curvature: float) -> None:
    places, begins = trace(CORNER, CORNER.points[None], np.array([curvature], np.float32), samples=8)
    first, second = np.split(places[0], np.flatnonzero(begins)[1:])
    assert np.abs(first[:, 1]).max() < 1e-6
    assert np.abs(second[:, 0] - 2).max() < 1e-6
    assert first[[0, -1]].tolist() == [[0, 0], [2, 0]]
    assert second[[0, -1]].tolist() == [[2, 0], [2, 2]]


def test_a_smooth_stroke_still_passes_through_its_control_points() -> None:
    bow = Glyph.from_strokes([(0, 0), (1, 1), (2, 0)])
    places, _ = trace(bow, bow.points[None], np.ones(1, np.float32), samples=40)
    for point in bow.points:
        assert np.linalg.norm(places[0] - point, axis=1).min() < 1e-6
    straight, _ = trace(bow, bow.points[None], np.zeros(1, np.float32), samples=40)
    assert np.abs(places - straight).max() > 0.05


@given(
    st.lists(st.tuples(st.floats(-3, 12), st.floats(-3, 9), st.floats(0.3, 2.5)), min_size=1, max_size=6),
    st.integers(1, 3),
)
def test_ink_is_the_distance_to_the_nearest_rim(discs: list[tuple[float, float, float]], drawings: int) -> None:
    height, width = 6, 9
    places = np.array([[disc[:2] for disc in discs]] * drawings, np.float32)
    places += np.arange(drawings, dtype=np.float32)[:, None, None]  # each drawing elsewhere
    radius = np.array([[disc[2] for disc in discs]] * drawings, np.float32)
    got = ink(places, radius, height, width)
    for drawing in range(drawings):
        for y in range(height):
            for x in range(width):
                depth = max(
                    r - np.hypot(x - px, y - py) for (px, py), r in zip(places[drawing], radius[drawing], strict=True)
                )
                if depth > -0.5:  # farther out nothing is drawn, and the exact distance does not matter
                    assert got[drawing, y, x] == pytest.approx(depth, abs=1e-4)
                else:
                    assert got[drawing, y, x] <= -0.4999
