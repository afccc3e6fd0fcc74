"""Builders draw several references per query, never in a bag, and single queries as before."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from miv import ExemplarSet, MIVError
from miv.runtime import SilentProgress
from miv.tasks.base import create_task

TWINS = {
    "digits-twin": {"writers": 8, "held_out_writers": 8, "copies": 6},
    "signatures-twin": {"writers": 4, "held_out_writers": 4, "genuine": 6, "height": 16},
}


def check_references(exemplars: ExemplarSet, most: int) -> None:
    classes = exemplars.pool.classes
    assert classes is not None
    counts = [len(exemplars.references(number)) for number in range(len(exemplars))]
    assert max(counts) == most
    for number in range(len(exemplars)):
        references = exemplars.references(number).tolist()
        assert len(set(references)) == len(references)
        assert set(references).isdisjoint(exemplars.bag(number).tolist())
        assert len(set(classes[references])) == 1


@pytest.mark.parametrize("name", TWINS)
def test_the_twins_draw_references(name: str) -> None:
    options = TWINS[name]
    for exemplars in create_task(name, references_per_query=3, **options).build(SilentProgress()).values():
        check_references(exemplars, 3)
    single = create_task(name, references_per_query=1, **options).build(SilentProgress())
    assert not any(exemplars.has_references for exemplars in single.values())


@pytest.mark.parametrize("name", [*TWINS, "qmnist", "signature"])
def test_a_number_below_1_is_refused(name: str) -> None:
    with pytest.raises(MIVError, match="references_per_query is 0"):
        create_task(name, references_per_query=0)


def test_a_folder_of_classes_draws_references(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for name in "abcd":
        (tmp_path / name).mkdir()
        for number in range(2 if name == "a" else 6):
            Image.fromarray(random.integers(0, 255, (4, 4)).astype(np.uint8)).save(tmp_path / name / f"{number}.png")
    drawn = ExemplarSet.from_folder(tmp_path, exemplars=40, bag_mean=3, references_per_query=4)
    check_references(drawn, 4)
    small = [len(drawn.references(n)) for n in range(40) if drawn.pool.names[drawn.query[n]].startswith("a/")]  # type: ignore[index]
    assert small == [1] * len(small) != []  # the other one is the witness
    # Both bags of a query ask with the same references, so that these do not reveal the label.
    for number in range(0, 40, 2):
        assert drawn.references(number).tolist() == drawn.references(number + 1).tolist()
    with pytest.raises(MIVError, match="references per query is 0"):
        ExemplarSet.from_folder(tmp_path, references_per_query=0)
