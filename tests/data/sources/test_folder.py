import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from miv.data import ExemplarSet
from miv.data.sources import Drawing, FromFolder, ImageForm, Shares
from miv.data.splits import warn_of_few_classes
from miv.errors import MIVError
from miv.runtime import SilentProgress

ALL_TRAIN = Shares(0, 0)
SMALL = Drawing(exemplars=40, bag_mean=3, bag_min=2, bag_max=5)


def make_vectors(root: Path, sizes: dict[str, int]) -> Path:
    """Class number k has the vectors (k, 0), (k, 1), ...: class and member can be read off a value."""
    for number, (name, size) in enumerate(sizes.items()):
        (root / name).mkdir(parents=True)
        for member in range(size):
            np.save(root / name / f"{member}.npy", np.array([number, member], dtype=np.float64))
    return root


def build(root: Path, **options: Any) -> dict[str, ExemplarSet]:
    options.setdefault("drawing", SMALL)
    return FromFolder(root, **options).build(SilentProgress())


def class_of(exemplars: ExemplarSet) -> Any:
    return exemplars.pool.values[:, 0]


def test_labels_witnesses_and_bags_agree_with_the_classes(tmp_path: Path) -> None:
    root = make_vectors(tmp_path, dict.fromkeys("abcdefgh", 6))
    for exemplars in build(root).values():
        of = class_of(exemplars)
        for e in range(len(exemplars)):
            bag, query = exemplars.bag(e), exemplars.query[e]
            same = of[bag] == of[query]
            witness = exemplars.bag_witness(e)
            assert witness.tolist() == same.tolist()
            assert exemplars.label[e] == same.any()
            assert query not in bag
            assert len(set(bag.tolist())) == len(bag)
            assert 2 <= len(bag) <= 5


def test_splits_have_their_shares_and_no_common_class(tmp_path: Path) -> None:
    root = make_vectors(tmp_path, {f"c{number}": 4 for number in range(20)})
    sets = build(root, shares=Shares(0.2, 0.3), drawing=Drawing(100, 3, 2, 5))
    classes = {split: set(exemplars.pool.classes) for split, exemplars in sets.items()}
    assert {split: len(names) for split, names in classes.items()} == {"train": 10, "validation": 4, "test": 6}
    assert len(set.union(*classes.values())) == 20
    assert {split: len(exemplars) for split, exemplars in sets.items()} == {"train": 50, "validation": 20, "test": 30}


def test_every_query_has_one_positive_and_one_negative_in_turn(tmp_path: Path) -> None:
    exemplars = build(make_vectors(tmp_path, {"a": 3, "b": 3, "c": 9}), shares=ALL_TRAIN)["train"]
    assert exemplars.label.tolist() == [1, 0] * 20
    assert exemplars.query[::2].tolist() == exemplars.query[1::2].tolist()
    # 15 instances and 20 pairs: each is asked about once before any is asked about twice.
    assert sorted(exemplars.query[:30:2].tolist()) == list(range(15))


def test_the_bag_size_and_witness_rate_have_the_wanted_mean(tmp_path: Path) -> None:
    root = make_vectors(tmp_path, {f"c{number}": 30 for number in range(4)})
    drawing = Drawing(exemplars=2000, bag_mean=12, bag_min=8, bag_max=20, witness_rate=0.3)
    exemplars = build(root, shares=ALL_TRAIN, drawing=drawing)["train"]
    assert exemplars.bag_sizes.mean() == pytest.approx(12, abs=0.2)
    assert (exemplars.bag_sizes.min(), exemplars.bag_sizes.max()) >= (8, 12)
    positive_entries = exemplars.bag_sizes[exemplars.label == 1].sum()
    assert exemplars.witness.sum() / positive_entries == pytest.approx(0.3, abs=0.01)


def test_a_number_of_witnesses_is_met_exactly(tmp_path: Path) -> None:
    root = make_vectors(tmp_path, dict.fromkeys("abc", 5))
    drawing = Drawing(exemplars=20, bag_mean=4, bag_min=4, bag_max=4, witness_rate=0.75)
    exemplars = build(root, shares=ALL_TRAIN, drawing=drawing)["train"]
    shown = [exemplars.bag_witness(e).sum() for e in range(20)]
    assert shown == [3, 0] * 10


def test_a_small_class_lends_all_it_has_and_says_so(tmp_path: Path, warned: list[str]) -> None:
    root = make_vectors(tmp_path, dict.fromkeys("abcdef", 2))
    drawing = Drawing(exemplars=8, bag_mean=4, bag_min=4, bag_max=4, witness_rate=0.5)
    exemplars = build(root, shares=ALL_TRAIN, drawing=drawing)["train"]
    assert exemplars.bag_witness(0).sum() == 1
    assert exemplars.bag_sizes.tolist() == [4] * 8
    assert "4 of 4 positive bags contain fewer witnesses" in " ".join(warned)


def test_a_class_of_one_is_only_ever_a_distractor(tmp_path: Path) -> None:
    exemplars = build(make_vectors(tmp_path, {"a": 1, "b": 6, "c": 6}), shares=ALL_TRAIN)["train"]
    assert 0 not in class_of(exemplars)[exemplars.query]
    assert 0 in class_of(exemplars)[exemplars.bag_index]


def test_the_seed_decides_and_rounds_differ(tmp_path: Path) -> None:
    root = make_vectors(tmp_path, {f"c{number}": 6 for number in range(12)})
    first, again, other = build(root, seed=3), build(root, seed=3), build(root, seed=3, round=1)
    assert [s.fingerprint for s in first.values()] == [s.fingerprint for s in again.values()]
    assert first["train"].fingerprint != other["train"].fingerprint


def test_images_of_several_sizes_need_one_size(tmp_path: Path) -> None:
    for name, side in zip("abcd", (8, 9, 8, 8), strict=True):
        (tmp_path / name).mkdir()
        for member in range(4):
            picture = np.full((side, 10), ord(name) + member * 7, dtype=np.uint8)
            Image.fromarray(picture).save(tmp_path / name / f"ü{member}.png")
    with pytest.raises(MIVError, match=r"ü0\.png: 9 × 10 grey pixels, but .*ü0\.png has 8 × 10.*--size"):
        build(tmp_path, shares=ALL_TRAIN)
    sets = build(tmp_path, shares=ALL_TRAIN, images=ImageForm((6, 7), colour=True))
    assert sets["train"].pool.values.shape == (16, 6, 7, 3)


def write_squares(root: Path, colours: dict[str, tuple[int, int, int]]) -> Path:
    """Four squares of each colour, of several sizes, in the format RGB."""
    for name, colour in colours.items():
        (root / name).mkdir()
        for member in range(4):
            square = np.full((3 + member, 3, 3), colour, np.uint8) - np.uint8(member)
            Image.fromarray(square).save(root / name / f"{member}.png")
    return root


def test_images_are_as_the_files_are(tmp_path: Path, warned: list[str]) -> None:
    greys = {"black": (10, 10, 10), "grey": (100, 100, 100), "white": (250, 250, 250)}
    root = write_squares(tmp_path, greys)
    small = ImageForm((2, 2))
    values = build(root, shares=ALL_TRAIN, images=small)["train"].pool.values
    assert values[:, 0, 0].tolist() == [10, 9, 8, 7, 100, 99, 98, 97, 250, 249, 248, 247]  # no file has a colour
    write_squares(root, {"red": (200, 10, 10)})
    values = build(root, shares=ALL_TRAIN, images=small)["train"].pool.values
    assert values[[0, 8], 0, 0].tolist() == [[10, 10, 10], [200, 10, 10]]
    assert warned == []
    grey = build(root, shares=ALL_TRAIN, images=ImageForm((2, 2), colour=False))["train"].pool.values
    assert grey[[0, 8], 0, 0].tolist() == [10, round(0.299 * 200 + 0.701 * 10)]
    assert ImageForm(binarise=True).read(root / "red" / "0.png").shape == (3, 3)


def test_copies_count_once_and_contradictions_are_left_out(tmp_path: Path, warned: list[str]) -> None:
    root = make_vectors(tmp_path, {"a": 4, "b": 4, "c": 4})
    np.save(root / "a" / "copy.npy", np.array([0.0, 1.0]))
    np.save(root / "b" / "foreign.npy", np.array([0.0, 2.0]))
    exemplars = build(root, shares=ALL_TRAIN, drawing=Drawing(200, 3, 2, 5))["train"]
    assert len(exemplars.pool) == 11
    assert [0.0, 2.0] not in exemplars.pool.values.tolist()
    assert "1 duplicate within a class" in " ".join(warned)
    assert "1 instance in more than one class" in " ".join(warned)


def test_files_of_no_use_are_named_and_ignored(tmp_path: Path, warned: list[str]) -> None:
    root = make_vectors(tmp_path, {"a": 4, "b": 4})
    (root / "a" / "notes.md").write_text("hello")
    (root / "a" / ".DS_Store").write_bytes(b"x")
    (root / "readme.txt").write_text("not a class")
    assert len(build(root, shares=ALL_TRAIN, drawing=Drawing(10, 3, 2, 4))["train"]) == 10
    assert "ignored 1 entry, such as notes.md" in " ".join(warned)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(3), r"x\.npy: a vector of 3 numbers, but .*0\.npy has a vector of 2"),
        (np.array([[0.0, 5.0], [1.0, np.nan]]), r"x\.npy, row 1: number 1 of the vector is NaN"),
        (np.array([{"a": 1}], dtype=object), r"x\.npy: not a NumPy file of numbers"),
        (None, r"class folder .*b contains no instances"),
    ],
)
def test_bad_folders_give_one_error_with_the_file(tmp_path: Path, array: Any, message: str) -> None:
    root = make_vectors(tmp_path, {"a": 4, "b": 0 if array is None else 4})
    if array is not None:
        np.save(root / "b" / "x.npy", array, allow_pickle=True)
    with pytest.raises(MIVError, match=message):
        build(root, shares=ALL_TRAIN)


def test_other_kinds_and_cut_files_are_refused(tmp_path: Path) -> None:
    file = make_vectors(tmp_path, {"a": 4, "b": 4}) / "b" / "3.npy"
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(MIVError, match=r"3\.npy: not a NumPy file of numbers, or damaged"):
        build(tmp_path, shares=ALL_TRAIN)
    (tmp_path / "a" / "x.txt").write_text("hello")
    with pytest.raises(MIVError, match=r"several kinds of instances \(features: .*npy, text: .*x\.txt\)"):
        build(tmp_path, shares=ALL_TRAIN)


def test_other_folders_beside_splits_are_refused(tmp_path: Path) -> None:
    names = [f"{split}/{name}" for split in ("train", "test", "extra") for name in "abcd"]
    root = make_vectors(tmp_path, dict.fromkeys(names, 3))
    with pytest.raises(MIVError, match=r"splits \(test/, train/\) and others \(extra/\).* Move extra/ out of"):
        build(root)
    assert sum(len(split) for split in build(root, split_by="parent", drawing=Drawing(30, 3, 2, 4)).values()) == 30


def test_a_class_may_have_the_name_of_a_split(tmp_path: Path) -> None:
    root = make_vectors(tmp_path, {"test": 6, "cat": 6, "dog": 6})
    classes = build(root, shares=ALL_TRAIN)["train"].pool.classes
    assert set(classes) == {"test", "cat", "dog"}


def test_given_splits_are_taken_as_they_are(tmp_path: Path) -> None:
    names = {"train": "abcdef", "val": "gh", "test": "ij"}
    root = make_vectors(tmp_path, {f"{split}/{name}": 6 for split, letters in names.items() for name in letters})
    sets = build(root)
    assert list(sets) == ["train", "validation", "test"]
    for exemplars, letters in zip(sets.values(), names.values(), strict=True):
        assert set(exemplars.pool.classes) == set(letters)
    assert {split: len(one) for split, one in sets.items()} == {"train": 24, "validation": 8, "test": 8}  # 36, 12, 12


def test_without_a_validation_folder_classes_of_train_become_it(tmp_path: Path, warned: list[str]) -> None:
    root = make_vectors(tmp_path, {**{f"train/{name}": 6 for name in "abcdef"}, "test/g": 6, "test/h": 6})
    classes = {split: set(one.pool.classes) for split, one in build(root).items()}
    assert classes["train"] | classes["validation"] == set("abcdef")
    assert (len(classes["validation"]), classes["test"]) == (2, {"g", "h"})
    assert "There is no validation folder" in " ".join(warned)
    assert list(build(root, shares=ALL_TRAIN)) == ["train", "test"]


def test_classes_and_copies_in_two_given_splits_are_told_and_copies_used_once(
    tmp_path: Path, warned: list[str]
) -> None:
    root = make_vectors(tmp_path, {"train/a": 6, "train/b": 6, "validation/a": 6, "validation/c": 6})
    shutil.copy(root / "train" / "a" / "0.npy", root / "validation" / "a" / "copy.npy")
    sets = build(root)
    assert "1 class in more than one split, such as a" in " ".join(warned)
    assert "1 instance in more than one split: used only in the first" in " ".join(warned)
    in_both = {split: {tuple(row) for row in one.pool.values.tolist()} for split, one in sets.items()}
    assert in_both["train"] & in_both["validation"] == set()


def test_no_parent_is_in_two_splits(tmp_path: Path) -> None:
    root = make_vectors(tmp_path, {f"{parent}/{name}": 4 for parent in ("x", "y", "z") for name in "abc"})
    sets = build(root, split_by="parent")
    parents = {split: {name.split("/")[0] for name in one.pool.classes} for split, one in sets.items()}
    assert sorted(next(iter(found)) for found in parents.values()) == ["x", "y", "z"]
    assert [len(found) for found in parents.values()] == [1, 1, 1]
    assert set(sets["train"].pool.classes) == {f"{next(iter(parents['train']))}/{name}" for name in "abc"}
    with pytest.raises(MIVError, match="use --split-by parent"):
        build(root)
    with pytest.raises(MIVError, match=r"contains no folders\. Expected .*<class>"):
        build(root / "x", split_by="parent")
    with pytest.raises(MIVError, match="Did you mean 'parent'"):
        build(root, split_by="parents")
    shutil.rmtree(root / "z")
    with pytest.raises(MIVError, match="2 parents cannot be split into train, validation, test"):
        build(root, split_by="parent")


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({"train": 16, "validation": 2, "test": 2}, "Of 20 classes, validation has only 2 and test has only 2. "),
        ({"train": 13, "validation": 5, "test": 2}, "Of 20 classes, test has only 2. "),
        ({"train": 12, "validation": 8}, ""),
    ],
)
def test_few_classes_for_validation_and_test_are_told(warned: list[str], counts: dict[str, int], message: str) -> None:
    warn_of_few_classes({split: {f"{split} {n}" for n in range(count)} for split, count in counts.items()})
    assert bool(warned) == bool(message)
    assert message in "".join(warned)


def test_too_few_classes_or_instances_say_what_to_do(tmp_path: Path) -> None:
    root = make_vectors(tmp_path, {"a": 4, "b": 4, "c": 2})
    with pytest.raises(MIVError, match=r"3 classes cannot be split.*--validation 0"):
        build(root)
    with pytest.raises(MIVError, match=r"there are 6, too few for a bag of 7.*--bag-max"):
        build(root, shares=ALL_TRAIN, drawing=Drawing(10, 3, 2, 7))
    with pytest.raises(MIVError, match="not a folder"):
        build(root / "nothing")


@pytest.mark.parametrize(
    "options",
    [
        {"exemplars": 1},
        {"bag_min": 0},
        {"bag_mean": float("nan")},
        {"bag_mean": 30, "bag_max": 20},
        {"witness_rate": float("nan")},
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(MIVError):
        Drawing(**options)
    with pytest.raises(MIVError):
        Shares(0.6, 0.5)
    with pytest.raises(MIVError):
        ImageForm((0, 5))


@pytest.mark.skipif(os.name == "nt", reason="names of files are always text there")
def test_a_class_whose_name_is_not_utf8_is_refused(tmp_path: Path) -> None:
    root = make_vectors(tmp_path, {"a": 4, "b": 4})
    (root / "b").rename(os.fsdecode(os.fsencode(root) + b"/caf\xe9"))
    with pytest.raises(MIVError, match="name of this class"):
        build(root, shares=ALL_TRAIN)


@pytest.mark.parametrize("drawing", [{"exemplars": 10**12}, {"exemplars": 10**6, "bag_mean": 10**5}])
def test_more_exemplars_than_fit_in_memory_are_refused(drawing: dict[str, int]) -> None:
    with pytest.raises(MIVError, match=r"GiB. Expected at most 8; draw fewer exemplars or smaller bags"):
        Drawing(**drawing)
