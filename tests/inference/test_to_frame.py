"""Verdicts as a table of pandas."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from miv import MIVError, Verifier

VERDICTS = Verifier("nearest", channels=2).verify_many(
    [[1.0, 0.0], [0.0, 1.0]], [[[0.0, 1.0], [1.0, 0.1]], [[1.0, 0.0]]]
)


def test_one_row_per_exemplar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever pandas is there: what it is given."""
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=dict))
    frame = VERDICTS.to_frame()
    assert list(frame) == ["verdict", "decision", "probability", "logit", "size", "witnesses"]
    assert (frame["verdict"].tolist(), frame["size"].tolist()) == ([True, False], [2, 1])
    assert frame["decision"].tolist() == ["yes", "no"]
    np.testing.assert_array_equal(frame["probability"], VERDICTS.probability)
    assert frame["witnesses"] == [[witness.index for witness in verdict.witnesses] for verdict in VERDICTS]


def test_a_frame_of_pandas() -> None:
    pandas = pytest.importorskip("pandas", reason="needs pandas (pip install pandas)")
    frame = VERDICTS.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["witnesses"][0] == [1]


def test_without_pandas_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MIVError, match="Run: pip install pandas"):
        VERDICTS.to_frame()
