"""What holds for every task, checked over the registry."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from miv import ExemplarSet, MIVError
from miv.data import load_splits, save_splits
from miv.data.inspection import audit
from miv.runtime import SilentProgress
from miv.tasks import create_task, list_tasks
from tests.tasks import test_claims, test_fever, test_qmnist

SMALL: dict[str, dict[str, Any]] = {
    "claims": {},
    "digits-twin": {"writers": 8, "held_out_writers": 7, "copies": 3},
    "fever": {"train_per_label": 4},
    "fever-dev": {},
    "qmnist": {"download": False},
    "signature": {"width": 16, "height": 8, "held_out": 0.34},
}
TWINS = [name for name in SMALL if name.endswith("-twin")]
REFERENCED = {
    "digits-twin": {"writers": 8, "held_out_writers": 8, "copies": 6},
    "qmnist": SMALL["qmnist"],
    "signature": SMALL["signature"],
}


def write_raw(name: str, folder: Path) -> None:
    if name == "qmnist":
        test_qmnist.write_raw(folder)
    elif name == "fever":
        test_fever.write_raw(folder)
    elif name == "signature":
        random = np.random.default_rng(0)
        for writer in range(9):
            for kind, count in (("genuine", 4), ("forged", 2)):
                (folder / f"{writer}" / kind).mkdir(parents=True)
                for number in range(count):
                    image = Image.fromarray(random.integers(0, 256, (8, 16), dtype=np.uint8))
                    image.save(folder / f"{writer}" / kind / f"{number}.png")
    else:
        for split, pages in (("train", 10), ("validation", 3), ("test", 3)):
            rows = [test_claims.claim_row(f"{split} {page}", number) for page in range(pages) for number in range(4)]
            test_claims.write_lines(folder / f"{split}.jsonl", rows)


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folders = {name: tmp_path_factory.mktemp(name) for name in SMALL if name not in TWINS}
    for name, folder in folders.items():
        write_raw(name, folder)
    return folders


def build(raw: dict[str, Path], name: str, **options: Any) -> dict[str, ExemplarSet]:
    options |= {"raw": raw[name]} if name in raw else {}
    return create_task(name, **options).build(SilentProgress())


def test_every_task_is_here() -> None:
    assert list_tasks() == sorted(SMALL)


@pytest.mark.parametrize("name", SMALL)
def test_splits_share_nothing_and_no_label_is_contradicted(raw: dict[str, Path], name: str) -> None:
    sets = build(raw, name, **SMALL[name])
    assert list(sets) == ["train", "validation", "test"]
    classes = [set(exemplars.pool.classes) for exemplars in sets.values() if exemplars.pool.classes is not None]
    assert len(set().union(*classes)) == sum(map(len, classes))
    assert bool(classes) == (name != "fever-dev")
    for exemplars in sets.values():
        assert abs(exemplars.label.mean() - 0.5) < 0.01
        for number in range(len(exemplars)):
            bag, witness = exemplars.bag(number), exemplars.bag_witness(number)
            assert witness.any() == bool(exemplars.label[number])
            assert len(set(bag)) == len(bag)
            assert exemplars.query[number] not in bag
    if name in TWINS:
        assert not audit(sets)


@pytest.mark.parametrize("name", SMALL)
def test_the_seed_and_the_round_decide(raw: dict[str, Path], name: str, tmp_path: Path) -> None:
    first, again = build(raw, name, **SMALL[name]), build(raw, name, **SMALL[name])
    assert [exemplars.fingerprint for exemplars in first.values()] == [s.fingerprint for s in again.values()]
    for change in ("seed", "round"):
        other = build(raw, name, **SMALL[name], **{change: 1})
        assert (other["train"].fingerprint == first["train"].fingerprint) == (name == "fever-dev")
    save_splits(first, tmp_path / "set", builder=name, options={}, seed=0)
    assert load_splits(tmp_path / "set")["train"].fingerprint == first["train"].fingerprint


def check_references(exemplars: ExemplarSet, most: int) -> None:
    assert max(len(exemplars.references(number)) for number in range(len(exemplars))) == most
    for number in range(len(exemplars)):
        references = exemplars.references(number).tolist()
        assert len(set(references)) == len(references)
        assert set(references).isdisjoint(exemplars.bag(number).tolist())
        assert len(set(exemplars.pool.classes[references])) == 1


@pytest.mark.parametrize("name", REFERENCED)
def test_several_references_are_never_in_the_bag(raw: dict[str, Path], name: str) -> None:
    for exemplars in build(raw, name, references_per_query=2, **REFERENCED[name]).values():
        check_references(exemplars, 2)
    single = build(raw, name, references_per_query=1, **REFERENCED[name])
    assert not any(exemplars.has_references for exemplars in single.values())


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        *[(name, {option: -1}, f"{option} is -1") for name in SMALL for option in ("seed", "round")],
        *[(name, {"references_per_query": 0}, "references_per_query is 0") for name in REFERENCED],
        ("claims", {"missing_gold": "ad"}, "Did you mean 'add'"),
        ("claims", {"validation_share": 1.0}, "validation_share is 1.0"),
        ("digits-twin", {"writers": 5}, "writers is 5"),
        ("digits-twin", {"copies": 1}, "copies is 1"),
        ("digits-twin", {"difficulty": float("nan")}, "difficulty is nan"),
        ("digits-twin", {"writers": 10_000, "copies": 1_000}, "images of .* need .* GiB"),
        ("fever", {"max_bag": 0}, "max_bag is 0"),
        ("qmnist", {"draw": "gemetric"}, "Did you mean 'geometric'"),
        ("qmnist", {"mean_bag": 2}, "mean_bag is 2"),
        ("qmnist", {"mean_bags": 10}, "Did you mean 'mean_bag'"),
        ("signature", {"width": 0}, "width is 0"),
        ("signature", {"held_out": 0.0}, "held_out is 0.0"),
    ],
)
def test_impossible_options_are_refused(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(MIVError, match=message):
        create_task(name, **options)
