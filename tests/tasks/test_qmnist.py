import gzip
import os
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from miv.data import ExemplarSet
from miv.errors import MIVError
from miv.runtime import SilentProgress
from miv.tasks.qmnist import Qmnist, read_idx
from miv.tasks.writer_bags import ExemplarPlan, draw_bags, hold_out

SHARED = Path(os.environ.get("MIV_SHARED_DIR", Path(__file__).parents[3] / "shared")) / "data" / "qmnist"
real_data = pytest.mark.skipif(not SHARED.exists(), reason="needs the real files")


CODES = {"u1": 0x08, "i4": 0x0C}


def idx_bytes(array: NDArray[Any]) -> bytes:
    """Write the format by hand, independently of the reader."""
    shape = b"".join(struct.pack(">I", side) for side in array.shape)
    header = bytes([0, 0, CODES[array.dtype.str[1:]], array.ndim]) + shape
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


def write_raw(folder: Path, writers: int = 12, each: int = 5, *, official: bool = True) -> None:
    """The official layout: every writer writes every digit ``each`` times; no two images are equal."""
    folder.mkdir(parents=True, exist_ok=True)
    images = (
        {"train": "qmnist-train-images-idx3-ubyte", "test": "qmnist-test-images-idx3-ubyte"}
        if official
        else {"train": "train-images-idx3-ubyte", "test": "t10k-images-idx3-ubyte"}
    )
    for split, first_writer in (("train", 0), ("test", 1000)):
        rows = [
            (digit, 4, first_writer + writer, 0, digit, 0, 0, 0)
            for _ in range(each)
            for writer in range(2 * writers if split == "test" else writers)
            for digit in range(10)
        ]
        order = np.random.default_rng(0).permutation(len(rows))
        labels = np.array(rows, ">i4")[order]
        pictures = np.zeros((len(rows), 28, 28), np.uint8)
        pictures[:, 0, :2] = np.stack(divmod(np.arange(len(rows)), 256), axis=1)
        (folder / images[split]).write_bytes(idx_bytes(pictures))
        (folder / f"qmnist-{split}-labels-idx2-int").write_bytes(idx_bytes(labels))


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("raw")
    write_raw(folder)
    return folder


@pytest.fixture(scope="module")
def task(raw: Path) -> Qmnist:
    return Qmnist(raw=raw, download=False)


@pytest.fixture(scope="module")
def sets(task: Qmnist) -> dict[str, ExemplarSet]:
    return task.build(SilentProgress())


def writers_of(exemplars: ExemplarSet) -> NDArray[Any]:
    return exemplars.pool.classes


def check_exemplars(exemplars: ExemplarSet, queries: int) -> None:
    """Everything that must hold of any set, in a plain loop over exemplars."""
    writers = writers_of(exemplars)
    for number in range(len(exemplars)):
        bag, query = exemplars.bag(number), exemplars.query[number]
        witness = exemplars.bag_witness(number)
        assert query not in bag
        assert len(set(bag)) == len(bag)
        assert witness.tolist() == [writers[member] == writers[query] for member in bag]
        assert witness.any() == bool(exemplars.label[number])
        lent = [(writers[bag] == writer).sum() for writer in set(writers[bag])]
        assert 3 <= len(lent) <= 5
        assert max(lent) <= 5
    of_writer = [(writers[query], group) for query, group in zip(exemplars.query, exemplars.group, strict=True)]
    assert len(set(exemplars.query)) == queries * len(set(of_writer))


def test_every_exemplar_keeps_the_rules(sets: dict[str, ExemplarSet]) -> None:
    # 12 writers, 10 digits, 5 instances: 2 held out in train, else 1; a positive and a negative each
    assert {split: len(exemplars) for split, exemplars in sets.items()} == {
        "train": 12 * 10 * 2 * 2,
        "validation": 12 * 10 * 2,
        "test": 12 * 10 * 2,
    }
    for split, exemplars in sets.items():
        check_exemplars(exemplars, queries=2 if split == "train" else 1)


def test_an_exemplar_has_one_digit(raw: Path, sets: dict[str, ExemplarSet]) -> None:
    labels = np.frombuffer((raw / "qmnist-train-labels-idx2-int").read_bytes(), ">i4", offset=12).reshape(-1, 8)
    train = sets["train"]
    for number in range(len(train)):
        digits = labels[[train.query[number], *train.bag(number)], 0]
        assert set(digits) == {int(train.group[number])}


def test_mnist_images_and_gzip_give_the_same_set(tmp_path: Path, sets: dict[str, ExemplarSet]) -> None:
    write_raw(tmp_path, official=False)
    for path in list(tmp_path.iterdir()):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    built = Qmnist(raw=tmp_path, download=False).build(SilentProgress())
    assert {split: built[split].fingerprint for split in built} == {split: sets[split].fingerprint for split in sets}


def test_uniform_lends_more_than_geometric(task: Qmnist, sets: dict[str, ExemplarSet]) -> None:
    uniform = replace(task, draw="uniform").build(SilentProgress())["train"]
    check_exemplars(uniform, queries=2)
    assert uniform.bag_sizes.mean() == pytest.approx(4 * 2, rel=0.05)  # 1 to 3 digits are left
    geometric = sets["train"].bag_sizes.mean()
    expected = 4 * sum(0.435**i for i in range(3))
    assert geometric == pytest.approx(expected, rel=0.05)


def test_fewer_exemplars(task: Qmnist) -> None:
    built = replace(task, exemplars=100).build(SilentProgress())
    assert len(built["train"]) == 100
    assert 0.3 < built["train"].label.mean() < 0.7
    with pytest.raises(MIVError, match="exemplars is 481, but the main train set has 480"):
        replace(task, exemplars=481).build(SilentProgress())


def test_size_study_has_any_number_of_exemplars_of_binomial_size(tmp_path: Path) -> None:
    write_raw(tmp_path, writers=24, each=8)
    for count in (60, 6000):  # the second needs the pool to be drawn more than once
        task = Qmnist(raw=tmp_path, download=False, mean_bag=8, exemplars=count)
        train = task.build(SilentProgress())["train"]
        assert len(train) == count
        assert set(train.bag_sizes) <= set(range(3, 11))  # binomial: at most round(8 / 0.8)
        for number in range(0, count, 50):
            assert train.query[number] not in train.bag(number)
            witness = train.bag_witness(number)
            assert witness.any() == bool(train.label[number])
    assert train.bag_sizes.mean() == pytest.approx(8, rel=0.02)
    assert train.bag_sizes.var() == pytest.approx(8 / 5, rel=0.1)
    assert train.label.mean() == pytest.approx(0.5, abs=0.05)


def test_the_order_of_a_bag_does_not_tell_who_lent_what() -> None:
    writer = np.repeat(np.arange(3), 50)  # as in QMNIST the instances of a writer lie together
    stock = hold_out(np.random.default_rng(0), writer, np.zeros(150, np.int64), 1)
    bags = 4000
    lender, lends = np.tile([0, 1, 2], (bags, 1)), np.full((bags, 3), 2)
    plan = ExemplarPlan(np.zeros(bags, np.int64), np.zeros(bags, np.int8), lender, lends)
    _, bag_index = draw_bags(np.random.default_rng(1), stock, plan)
    writers = writer[bag_index].reshape(bags, 6)
    assert (np.sort(writers, axis=1) == [0, 0, 1, 1, 2, 2]).all()
    # Of the five others, one is by the same writer, whatever the place.
    assert (writers[:, 1:] == writers[:, :-1]).mean(axis=0) == pytest.approx([1 / 5] * 5, abs=0.03)
    assert (writers == 0).mean(axis=0) == pytest.approx([1 / 3] * 6, abs=0.03)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(MIVError) as error:
        Qmnist(raw=tmp_path, download=False).build(SilentProgress())
    for name in ("train-images-idx3-ubyte", "t10k-images-idx3-ubyte", "qmnist-train-labels-idx2-int"):
        assert f"{name}.gz" in str(error.value)
    assert str(tmp_path) in str(error.value)


def test_rounds_use_the_same_writers_and_seeds_do_not(task: Qmnist, sets: dict[str, ExemplarSet]) -> None:
    writers = set(writers_of(sets["test"]))
    for other, is_same in ((replace(task, round=1), True), (replace(task, seed=1), False)):
        assert (set(writers_of(other.build(SilentProgress())["test"])) == writers) == is_same


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train-images-idx3-ubyte": lambda content: content[:-5]}, "qmnist-train-images.*Download it again"),
        ({"train-labels-idx2-int": lambda _: idx_bytes(np.zeros((7, 8), "i4"))}, "600 images.*7 labels"),
        (
            {"train-labels-idx2-int": lambda content: content[:108] + bytes([0, 0, 0, 11]) + content[112:]},
            "row 3: the digit is 11",
        ),
        ({"test-labels-idx2-int": lambda _: idx_bytes(np.zeros(600, np.uint8))}, "not an IDX file of labels"),
        ({"train-labels-idx2-int": None, "train-images-idx3-ubyte": None}, "Writer 0 is in the train and the test"),
    ],
)
def test_damaged_files(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    write_raw(tmp_path)
    for name, damage in change.items():
        source = tmp_path / f"qmnist-{name}"
        target = source if damage else source.with_name(source.name.replace("train", "test"))
        target.write_bytes(damage(source.read_bytes()) if damage else source.read_bytes())
    with pytest.raises(MIVError, match=message):
        Qmnist(raw=tmp_path, download=False).build(SilentProgress())


@pytest.mark.parametrize(
    ("writers", "options", "message"),
    [(5, {}, "Digit 0: 5 writers"), (24, {"mean_bag": 90, "exemplars": 50}, "Use a smaller mean")],
)
def test_too_few_digits(tmp_path: Path, writers: int, options: dict[str, Any], message: str) -> None:
    write_raw(tmp_path, writers=writers, each=6)
    with pytest.raises(MIVError, match=message):
        Qmnist(raw=tmp_path, download=False, **options).build(SilentProgress())


@real_data
@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_paper_s_figures(number: int) -> None:
    sets = Qmnist(raw=SHARED, download=False, round=number).build(SilentProgress())
    train = sets["train"]
    assert len(train) == 21_509
    assert train.bag_sizes.mean() == pytest.approx(6.9, abs=0.1)
    assert train.bag_sizes.var() == pytest.approx(6.4, abs=0.4)
    assert train.bag_sizes.min() >= 3
    assert train.bag_sizes.max() <= 25
    assert train.label.mean() == pytest.approx(0.5, abs=0.01)
    assert len(sets["validation"]) + len(sets["test"]) == 2408 + 2253
    writers = [set(writers_of(exemplars)) for exemplars in sets.values()]
    assert list(map(len, writers)) == [539, 149, 148]
    assert len(set().union(*writers)) == 836


# The IDX format.


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("idx")


@given(kind=st.sampled_from(["images", "labels"]), compressed=st.booleans(), data=st.data())
@settings(max_examples=60, deadline=None)
def test_what_is_written_is_read(folder: Path, kind: Any, compressed: bool, data: st.DataObject) -> None:
    dtype, axes = (np.uint8, 3) if kind == "images" else (np.int32, 2)
    array = data.draw(arrays.arrays(dtype, arrays.array_shapes(min_dims=axes, max_dims=axes, min_side=0, max_side=5)))
    content = idx_bytes(array)
    path = folder / "written"
    path.write_bytes(gzip.compress(content) if compressed else content)
    np.testing.assert_array_equal(read_idx(path, kind), array)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x89PNG\r\n\x1a\n", "not an IDX file"),
        (bytes([0, 0, 8, 3, *([0, 0, 0, 1] * 3), 1, 2]), "contains more"),
        (bytes([0, 0, 8, 3, 32, 0, 0, 1, *([0, 0, 0, 1] * 2)]), "more than the maximum of 536,870,912 bytes"),
        (bytes([0, 0, 8, 100, *([0, 0, 0, 1] * 100), 7]), "it starts with 00 00 08 64"),
    ],
)
def test_refused(folder: Path, content: bytes, message: str) -> None:
    path = folder / "bad"
    path.write_bytes(content)
    with pytest.raises(MIVError, match=message):
        read_idx(path, "images")
