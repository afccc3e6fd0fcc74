"""Finished cells in one file: the same answers, the same bytes in any order, and nothing lost on the way."""

import json
from pathlib import Path

import pytest

from miv.errors import MIVError
from miv.experiments.packed_cells import packed_file, read_packed
from miv.experiments.results import METRICS, PREDICTIONS, RESULT, find_result, pack_results, write_result
from tests.experiments.examples import answers_of, files_of, finish, job_of

ANSWERS = answers_of([2.0, -1.0, 1.0, -2.0], [1, 0, 1, 0], [True, False, True, False])


def test_a_packed_cell_is_the_cell_that_was_packed(tmp_path: Path) -> None:
    job = job_of("pma")
    before = finish(job, ANSWERS, tmp_path)
    path = tmp_path / "cpu" / "qmnist.jsonl"
    assert pack_results(tmp_path) == {path: 1}
    assert not before.folder.exists()
    after = find_result(job, tmp_path)
    assert after is not None
    assert after.document == before.document
    assert {name: after.files[name] for name in (METRICS, PREDICTIONS)} == before.files
    assert after.predictions.logit.tolist() == [2.0, -1.0, 1.0, -2.0]
    assert pack_results(tmp_path) == {}  # there is nothing left to pack


def test_a_packed_cell_is_not_computed_again(tmp_path: Path) -> None:
    job = job_of("pma")
    finish(job, ANSWERS, tmp_path)
    pack_results(tmp_path)
    folder = write_result(job, tmp_path, files_of(job, ANSWERS, tmp_path))
    assert not folder.exists()


def test_the_order_of_packing_does_not_matter(tmp_path: Path) -> None:
    jobs = [job_of("pma", 1), job_of("baseline"), job_of("pma", 0)]
    for folder, order in (("at once", jobs), ("one by one", jobs[::-1])):
        for job in order:
            finish(job, ANSWERS, tmp_path / folder)
            if folder == "one by one":
                pack_results(tmp_path / folder)
        pack_results(tmp_path / folder)
    first, second = ((tmp_path / folder / "cpu" / "qmnist.jsonl").read_bytes() for folder in ("at once", "one by one"))
    assert first == second
    names = [json.loads(line)["cell"] for line in first.splitlines()]
    assert names == ["baseline/round-0", "pma/round-0", "pma/round-1"]


def test_tasks_and_tiers_have_files_of_their_own(tmp_path: Path) -> None:
    for job in (job_of(task="qmnist"), job_of(task="claims"), job_of(tier="smoke")):
        finish(job, ANSWERS, tmp_path)
    packed = {path.relative_to(tmp_path).as_posix() for path in pack_results(tmp_path)}
    assert packed == {"cpu/qmnist.jsonl", "cpu/claims.jsonl", "smoke/qmnist.jsonl"}


def test_two_results_for_one_cell_are_refused(tmp_path: Path) -> None:
    job = job_of()
    finish(job, ANSWERS, tmp_path / "one")
    pack_results(tmp_path / "one")
    other = finish(job, answers_of([1.0, 2.0], [1, 0]), tmp_path / "other")
    place = job.result_folder(tmp_path / "one")
    place.parent.mkdir(parents=True)
    other.folder.rename(place)
    with pytest.raises(MIVError, match="hold different results for one cell"):
        pack_results(tmp_path / "one")
    assert (place / RESULT).is_file()


def test_a_damaged_cell_is_not_packed(tmp_path: Path) -> None:
    cell = finish(job_of(), ANSWERS, tmp_path)
    (cell.folder / METRICS).write_text("epoch\n")
    with pytest.raises(MIVError, match=r"SHA-256 differs. Remove the folder to compute the cell again"):
        pack_results(tmp_path)
    assert cell.folder.is_dir()


def test_what_a_killed_process_left_is_not_packed(tmp_path: Path) -> None:
    cell = finish(job_of(), ANSWERS, tmp_path)
    left = cell.folder.with_name(".round-1.abc.part")
    left.mkdir()
    (left / METRICS).write_text("epoch\n")
    pack_results(tmp_path)
    assert list(read_packed(job_of().task_folder(tmp_path))) == ["baseline/round-0"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 1"),
        ('{"cell": "baseline/round-0"}', "line 1: not a packed cell"),
        ('{"cell": "a", "files": {}}\n{"cell": "a", "files": {}}', "line 2: the cell a occurs twice"),
        ('{"cell": "baseline/round-0", "files": {"result.json": {}}}', "not a result.*Restore .*qmnist.jsonl"),
        ('{"cell": "baseline/round-0", "files": {"result.json": [1]}}', "not a result"),
        ('{"cell": "baseline/round-0", "files": {"predictions.parquet": "?"}}', "line 1: not a packed cell"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, line: str, words: str) -> None:
    path = packed_file(job_of().task_folder(tmp_path))
    path.parent.mkdir(parents=True)
    path.write_text(line + "\n")
    with pytest.raises(MIVError, match=words):
        find_result(job_of(), tmp_path)
