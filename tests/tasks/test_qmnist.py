import gzip
import os
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from miv.data import ExemplarSet, load_splits, save_splits
from miv.errors import MIVError
from miv.files.downloads import RemoteFile
from miv.runtime import SilentProgress
from miv.tasks import qmnist
from miv.tasks.base import create_task
from miv.tasks.qmnist import Qmnist
from miv.tasks.writer_bags import ExemplarPlan, draw_bags, hold_out

SHARED = Path(os.environ.get("MIV_SHARED_DIR", Path(__file__).parents[3] / "shared")) / "data" / "qmnist"
real_data = pytest.mark.skipif(not SHARED.exists(), reason="needs the real files")


def write_idx(path: Path, array: NDArray[Any], code: int) -> None:
    shape = b"".join(struct.pack(">I", side) for side in array.shape)
    path.write_bytes(bytes([0, 0, code, array.ndim]) + shape + array.tobytes())


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
        write_idx(folder / images[split], pictures, 0x08)
        write_idx(folder / f"qmnist-{split}-labels-idx2-int", labels, 0x0C)


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
    assert exemplars.pool.classes is not None
    return exemplars.pool.classes


def check_exemplars(exemplars: ExemplarSet, queries: int) -> None:
    """Everything that must hold of any set, in a plain loop over exemplars."""
    writers = writers_of(exemplars)
    assert exemplars.witness is not None
    assert exemplars.group is not None
    for number in range(len(exemplars)):
        bag, query = exemplars.bag(number), exemplars.query[number]
        witness = exemplars.bag_witness(number)
        assert witness is not None
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


def test_queries_are_in_no_bag_of_the_set(sets: dict[str, ExemplarSet]) -> None:
    for exemplars in sets.values():
        assert not set(exemplars.query) & set(exemplars.bag_index)


def test_an_exemplar_has_one_digit(raw: Path, sets: dict[str, ExemplarSet]) -> None:
    labels = np.frombuffer((raw / "qmnist-train-labels-idx2-int").read_bytes(), ">i4", offset=12).reshape(-1, 8)
    train = sets["train"]
    assert train.group is not None
    for number in range(len(train)):
        digits = labels[[train.query[number], *train.bag(number)], 0]
        assert set(digits) == {int(train.group[number])}


def test_splits_share_no_writer(sets: dict[str, ExemplarSet]) -> None:
    writers = [set(writers_of(exemplars)) for exemplars in sets.values()]
    assert len(set().union(*writers)) == sum(map(len, writers)) == 36


def test_the_same_seed_gives_the_same_set_and_rounds_differ(task: Qmnist, sets: dict[str, ExemplarSet]) -> None:
    again = task.build(SilentProgress())
    next_round = replace(task, round=1).build(SilentProgress())
    next_seed = replace(task, seed=1).build(SilentProgress())
    for split, exemplars in sets.items():
        assert again[split].fingerprint == exemplars.fingerprint
        assert next_round[split].fingerprint != exemplars.fingerprint
        assert next_seed[split].fingerprint != exemplars.fingerprint
    assert set(writers_of(next_round["test"])) == set(writers_of(sets["test"]))
    assert set(writers_of(next_seed["test"])) != set(writers_of(sets["test"]))


def test_mnist_images_and_gzip_give_the_same_set(tmp_path: Path, sets: dict[str, ExemplarSet]) -> None:
    write_raw(tmp_path, official=False)
    for path in list(tmp_path.iterdir()):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    built = Qmnist(raw=tmp_path, download=False).build(SilentProgress())
    assert {split: built[split].fingerprint for split in built} == {split: sets[split].fingerprint for split in sets}


def test_saved_and_loaded(tmp_path: Path, sets: dict[str, ExemplarSet]) -> None:
    save_splits(sets, tmp_path / "set", builder="qmnist", options={}, seed=0)
    loaded = load_splits(tmp_path / "set")
    assert {split: loaded[split].fingerprint for split in sets} == {split: sets[split].fingerprint for split in sets}


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
            assert witness is not None
            assert witness.any() == bool(train.label[number])
    assert train.bag_sizes.mean() == pytest.approx(8, rel=0.02)
    assert train.bag_sizes.var() == pytest.approx(8 / 5, rel=0.1)
    assert train.label.mean() == pytest.approx(0.5, abs=0.05)


def test_a_bag_size_that_the_digits_cannot_give(tmp_path: Path) -> None:
    write_raw(tmp_path, writers=24, each=6)
    with pytest.raises(MIVError, match="Use a smaller mean"):
        Qmnist(raw=tmp_path, download=False, mean_bag=90, exemplars=50).build(SilentProgress())


def test_every_member_is_equally_likely() -> None:
    writer = np.repeat(np.arange(3), 4)
    stock = hold_out(np.random.default_rng(0), writer, np.zeros(12, np.int64), 1)
    assert stock.left.tolist() == [3, 3, 3]
    plans = ExemplarPlan(
        np.zeros(9000, np.int64),
        np.zeros(9000, np.int8),
        np.tile([1, 2], (9000, 1)),
        np.tile([2, 1], (9000, 1)),
    )
    bag_ptr, bag_index = draw_bags(np.random.default_rng(1), stock, plans)
    assert set(np.diff(bag_ptr)) == {3}
    counts = np.bincount(bag_index, minlength=12)
    for cell, expected in ((1, 6000), (2, 3000)):
        members = stock.instances[stock.start[cell] : stock.start[cell] + 3]
        assert counts[members] == pytest.approx([expected] * 3, rel=0.05)
    assert counts.sum() == 27_000


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"draw": "gemetric"}, "Did you mean 'geometric'"),
        ({"mean_bag": 2}, "mean_bag is 2"),
        ({"exemplars": 0}, "exemplars is 0"),
        ({"round": -1}, "round is -1"),
        ({"seed": -1}, "seed is -1"),
        ({"mean_bags": 10}, "Did you mean 'mean_bag'"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(MIVError, match=message):
        create_task("qmnist", **options)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(MIVError) as error:
        Qmnist(raw=tmp_path, download=False).build(SilentProgress())
    for name in ("train-images-idx3-ubyte", "t10k-images-idx3-ubyte", "qmnist-train-labels-idx2-int"):
        assert f"{name}.gz" in str(error.value)
    assert str(tmp_path) in str(error.value)


def test_no_network_says_what_to_put_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = {
        name: RemoteFile(f"http://127.0.0.1:9/{name}.gz", file.size, file.sha256)
        for name, file in qmnist.DOWNLOADS.items()
    }
    monkeypatch.setattr(qmnist, "DOWNLOADS", nowhere)
    with pytest.raises(MIVError, match="no connection") as error:
        Qmnist(raw=tmp_path).build(SilentProgress())
    assert f"Missing in {tmp_path}" in str(error.value)


def _cut_images(folder: Path) -> None:
    path = folder / "qmnist-train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-5])


def _other_count(folder: Path) -> None:
    write_idx(folder / "qmnist-train-labels-idx2-int", np.zeros((7, 8), ">i4"), 0x0C)


def _digit_eleven(folder: Path) -> None:
    path = folder / "qmnist-train-labels-idx2-int"
    content = bytearray(path.read_bytes())
    content[12 + 3 * 32 : 12 + 3 * 32 + 4] = struct.pack(">i", 11)
    path.write_bytes(content)


def _mnist_labels(folder: Path) -> None:
    write_idx(folder / "qmnist-test-labels-idx2-int", np.zeros(600, np.uint8), 0x08)


def _same_writers(folder: Path) -> None:
    (folder / "qmnist-test-images-idx3-ubyte").write_bytes((folder / "qmnist-train-images-idx3-ubyte").read_bytes())
    (folder / "qmnist-test-labels-idx2-int").write_bytes((folder / "qmnist-train-labels-idx2-int").read_bytes())


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_cut_images, "qmnist-train-images.*Download it again"),
        (_other_count, "600 images.*7 labels"),
        (_digit_eleven, "row 3: the digit is 11"),
        (_mnist_labels, "extended labels"),
        (_same_writers, "Writer 0 is in the train and the test"),
    ],
)
def test_damaged_files(tmp_path: Path, damage: Any, message: str) -> None:
    write_raw(tmp_path)
    damage(tmp_path)
    with pytest.raises(MIVError, match=message):
        Qmnist(raw=tmp_path, download=False).build(SilentProgress())


def test_too_few_writers(tmp_path: Path) -> None:
    write_raw(tmp_path, writers=5)
    with pytest.raises(MIVError, match="Digit 0: 5 writers"):
        Qmnist(raw=tmp_path, download=False).build(SilentProgress())


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


@real_data
@pytest.mark.parametrize(
    ("mean_bag", "table"),
    [  # paper, Table 5: mean and median number of witnesses, mean and median ratio
        (10, [2.742, 3.0, 0.288, 0.273]),
        (20, [3.699, 4.0, 0.187, 0.182]),
        (50, [3.273, 3.0, 0.066, 0.061]),
    ],
)
@pytest.mark.parametrize("number", [0, 1, 2])
def test_table_5(mean_bag: int, table: list[float], number: int) -> None:
    task = Qmnist(raw=SHARED, download=False, round=number, mean_bag=mean_bag)
    train = task.build(SilentProgress())["train"]
    assert train.witness is not None
    count = np.add.reduceat(train.witness.astype(int), train.bag_ptr[:-1])
    positive = train.label == 1
    assert (count[positive] > 0).all()
    assert (count[~positive] == 0).all()
    ratio = count[positive] / train.bag_sizes[positive]
    count = count[positive]
    found = [count.mean(), np.median(count), ratio.mean(), np.median(ratio)]
    assert found == pytest.approx(table, rel=0.1)
    assert train.bag_sizes.var() == pytest.approx(mean_bag / 5, rel=0.1)
    assert train.label.mean() == pytest.approx(0.5, abs=0.02)
