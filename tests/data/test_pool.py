from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from miv import ExemplarSet, InstancePool, MIVError, Verifier
from miv.data import pool as pool_module


def texts(*values: str) -> NDArray[Any]:
    return np.array(values, dtype=object)


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        ("picture", np.zeros((1, 2, 2), np.uint8), "no kind of instance 'picture'"),
        ("image", np.zeros((1, 2, 2), np.float32), r"float32 \(1, 2, 2\). Expected uint8"),
        ("image", np.zeros((1, 2, 2, 4), np.uint8), r"Expected uint8 \(P, H, W\)"),
        ("image", np.zeros((1, 0, 2), np.uint8), "each side at least 1"),
        ("features", np.zeros((1, 2)), r"float64 \(1, 2\). Expected float32"),
        ("features", np.zeros((1, 0), np.float32), "C at least 1"),
        ("features", np.zeros((0, 3), np.float32), "pool is empty"),
        ("text", np.array(["a", 3], dtype=object), r"values\[1\] is a int. Expected a string"),
        ("text", None, "values is nothing. Expected an array of strings"),
    ],
)
def test_refuses_what_is_no_pool(kind: Any, values: Any, message: str) -> None:
    with pytest.raises(MIVError, match=message):
        InstancePool(kind, values)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_names_the_first_instance_that_is_not_finite(bad: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "PIECE_BYTES", 24)  # two instances a piece
    values = np.zeros((7, 3), np.float32)
    values[[5, 6], 1] = bad
    with pytest.raises(MIVError, match="features of instance 5 are NaN or infinite"):
        InstancePool("features", values)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("text", texts("a", "b", "a", "c", "b")),
        ("image", np.array([1, 2, 1, 3, 2], np.uint8).reshape(5, 1, 1)),
        ("features", np.array([1, 2, 1, 3, 2], np.float32).reshape(5, 1)),
    ],
)
def test_finds_identical_instances(kind: Any, values: Any) -> None:
    assert InstancePool(kind, values).first_identical.tolist() == [0, 1, 0, 3, 1]


def test_fingerprint_tells_content_from_content_but_not_from_where_it_lies(tmp_path: Path) -> None:
    values = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    np.save(tmp_path / "values.npy", values)
    mapped = InstancePool("image", np.load(tmp_path / "values.npy", mmap_mode="r"))
    assert mapped.is_mapped
    assert mapped.fingerprint == InstancePool("image", np.asfortranarray(values)).fingerprint
    assert mapped.fingerprint != InstancePool("image", values.reshape(2, 4, 3)).fingerprint
    assert InstancePool("text", texts("ab", "c")).fingerprint != InstancePool("text", texts("a", "bc")).fingerprint


def test_take_keeps_the_order_asked_for() -> None:
    taken = InstancePool("text", texts("a", "b", "c"), np.array(["x", "y", "z"])).take([2, 0])
    assert taken.values.tolist() == ["c", "a"]
    assert taken.classes.tolist() == ["z", "x"]


# Arrays and tensors that would silently lose something, or have no numbers at all.


def test_a_mask_is_not_dropped() -> None:
    masked = np.ma.masked_greater(np.array([[1.0, 9.0], [1.0, 2.0]], np.float32), 5)
    with pytest.raises(MIVError, match=r"1 masked entries. Fill them"):
        InstancePool("features", masked)
    with pytest.raises(MIVError, match=r"1 masked entries. Fill them"):
        ExemplarSet.from_arrays([masked[0]], [[masked[1]]], [1])
    with pytest.raises(MIVError, match=r"1 masked entries. Fill them"):
        Verifier("baseline", channels=2).verify([1.0, 0.0], masked)
    assert len(InstancePool("features", np.ma.array(np.ones((2, 2), np.float32)))) == 2  # nothing is masked
