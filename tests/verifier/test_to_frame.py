"""Verdicts as a table of pandas."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from miv import MIVError, Verifier
from miv.verifier.verdict import witness_places

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


def test_the_places_of_witnesses_are_those_of_the_single_verdicts() -> None:
    random = np.random.default_rng(0)
    bags = [random.normal(size=(size, 4)) for size in (1, 9, 30, 2) * 5]
    bags[2][7] = bags[2][3]  # equal shares
    verifier, queries = Verifier("cap_dba_l2", channels=4), random.normal(size=(20, 4))
    found = verifier.verify_many(queries, bags)
    places = witness_places(found.witness, found.shares, found.ptr)
    assert max(map(len, places)) > 2
    assert places == [[one.index for one in verdict.witnesses] for verdict in found]
    none = verifier.verify_many(queries, bags, witnesses="none")
    assert witness_places(none.witness, none.shares, none.ptr) == [[]] * 20
    assert found.witness is not None
    for named, first, verdict in zip(places, found.ptr.tolist(), found, strict=False):
        assert (shares := verdict.shares) is not None
        among = [place for place in range(verdict.size) if found.witness[first + place]]
        assert named == sorted(among, key=(-shares).__getitem__)  # equal shares stay in their order


def test_without_pandas_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MIVError, match="Run: pip install pandas"):
        VERDICTS.to_frame()
