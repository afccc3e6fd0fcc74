"""Audits and sheets look at every reference of a query."""

from pathlib import Path

import numpy as np

from miv import ExemplarSet, InstancePool
from miv.data.inspection import audit, same_exemplar
from miv.data.sheet import write_contact_sheet


def referenced(references: list[list[int]]) -> ExemplarSet:
    images = np.arange(6 * 4, dtype=np.uint8).reshape(6, 2, 2)
    names = np.array([f"{number}.png" for number in range(6)], dtype=object)
    pool = InstancePool("image", images, names=names)
    return ExemplarSet.from_lists(pool, None, [[3, 4], [4, 5]], [1, 0], references=references)


def test_a_further_reference_in_the_bag_is_found() -> None:
    assert audit({"train": referenced([[0, 1], [2]])}) == []
    found = audit({"train": referenced([[0], [2, 1, 5]])})
    assert [one.check for one in found] == ["query_in_bag"]
    assert found[0].examples == ["exemplar 1: instance 5"]


def test_exemplars_with_other_references_are_others() -> None:
    images = np.arange(4 * 4, dtype=np.uint8).reshape(4, 2, 2)
    exemplars = ExemplarSet.from_lists(
        InstancePool("image", images), None, [[3]] * 3, [1, 0, 1], references=[[0, 1], [0, 2], [1, 0]]
    )
    assert same_exemplar(exemplars, exemplars.pool.first_identical()).tolist() == [0, 1, 0]


def test_the_sheet_shows_all_references_and_their_files(tmp_path: Path) -> None:
    write_contact_sheet({"train": referenced([[0, 1], [2]])}, tmp_path / "sheet.html")
    page = (tmp_path / "sheet.html").read_text()
    assert page.count("<img") == 7  # three references and four members
    assert "instance 1, 1.png" in page
