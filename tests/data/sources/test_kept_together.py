from pathlib import Path
from typing import Any

import numpy as np
import pytest

from miv.data import ExemplarSet
from miv.data.sources import Drawing, FromFolder, Shares
from miv.errors import MIVError
from miv.runtime import SilentProgress

SMALL = Drawing(exemplars=60, bag_mean=4, bag_min=3, bag_max=5, witnesses=2)


def make_signers(root: Path, count: int = 8, site: int = 0) -> Path:
    """Signer k has the folders k and k_forg, with the vectors (k, n, 0, site) and (k, n, 1, site)."""
    for number in range(count):
        for forged, name in enumerate((f"{number:03}", f"{number:03}_forg")):
            (root / name).mkdir(parents=True)
            for member in range(5):
                np.save(root / name / f"{member}.npy", np.array([number, member, forged, site], dtype=np.float64))
    return root


def build(root: Path, **options: Any) -> dict[str, ExemplarSet]:
    options.setdefault("drawing", SMALL)
    options.setdefault("shares", Shares(0.25, 0.25))
    return FromFolder(root, **options).build(SilentProgress())


def signers(exemplars: ExemplarSet) -> set[float]:
    return set(exemplars.pool.values[:, 0].tolist())


def test_keeps_folders_of_one_signer_in_one_split(tmp_path: Path) -> None:
    sets = build(make_signers(tmp_path), forgeries="_forg")
    names = [signers(exemplars) for exemplars in sets.values()]
    assert [*map(len, names)] == [4, 2, 2]
    assert len(set.union(*names)) == 8


def test_warns_of_twins_in_different_splits(tmp_path: Path, warned: list[str]) -> None:
    build(make_signers(tmp_path))
    assert "differ only by a suffix and are in different splits" in " ".join(warned)
    warned.clear()
    build(tmp_path, forgeries="_forg")
    assert not any("differ only" in warning for warning in warned)


def test_forgeries_stand_for_witnesses_in_negative_bags_and_never_ask(tmp_path: Path) -> None:
    exemplars = build(make_signers(tmp_path), forgeries="_forg")["train"]
    values = exemplars.pool.values
    for e in range(len(exemplars)):
        query, bag = values[exemplars.query[e]], values[exemplars.bag(e)]
        own = bag[bag[:, 0] == query[0]]  # of the query's signer
        assert query[2] == 0
        assert len(set(exemplars.bag(e).tolist())) == len(bag)
        if exemplars.label[e]:
            assert (own[:, 2] == 0).sum() == 2
        else:
            assert (own[:, 2] == 1).sum() >= 2
            assert (own[:, 2] == 0).sum() == 0
    assert {name.endswith("_forg") for name in exemplars.pool.classes} == {True, False}


def test_given_splits_that_part_what_belongs_together_are_refused(tmp_path: Path) -> None:
    make_signers(tmp_path / "all", 4)
    for split in ("train", "test"):
        (tmp_path / "root" / split).mkdir(parents=True)
    for folder in (tmp_path / "all").iterdir():
        folder.rename(tmp_path / "root" / ("test" if folder.name.endswith("_forg") else "train") / folder.name)
    with pytest.raises(MIVError, match="there is no folder 000 beside"):
        build(tmp_path / "root", forgeries="_forg")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"forgeries": " "}, "is empty"),
        ({"forgeries": "_fake"}, "No folder ends in '_fake'"),
    ],
)
def test_says_what_is_wrong(tmp_path: Path, options: dict[str, str], said: str) -> None:
    make_signers(tmp_path)
    with pytest.raises(MIVError, match=said):
        build(tmp_path, **options)
