"""Finished cells on disk: what is refused, and what stays."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from miv.errors import MIVError
from miv.reproduction.jobs import Job
from miv.reproduction.results import find_result, write_result
from tests.reproduction.examples import answers_of, document_of, finish, job_of

ANSWERS = answers_of([1.0, -1.0, 1.0, -1.0], [1, 0, 0, 1], [True, False, True, False])
Edit = Callable[[dict[str, Any]], object]


def change(job: Job, results: Path, edit: Edit) -> None:
    """Edit the document of the only cell."""
    path = job.result_file(results)
    line = json.loads(path.read_text())
    edit(line["result"])
    path.write_text(json.dumps(line))


def test_a_cell_has_the_error_of_each_figure_and_of_each_difference(tmp_path: Path) -> None:
    baseline = finish(job_of(), ANSWERS, tmp_path)
    cap = finish(job_of("cap_vema"), answers_of([1.0, -1.0, -1.0, 1.0], [1, 0, 0, 1], [True] * 4), tmp_path)
    other = finish(job_of("pma"), ANSWERS, tmp_path)
    assert (baseline.metrics["accuracy"], cap.metrics["accuracy"]) == (0.5, 1.0)
    assert baseline.error_of("accuracy") == pytest.approx((1 / 12) ** 0.5)  # of a share of 2 in 4
    assert cap.error_of("accuracy") == 0.0
    # Differences 0 0 1 1: the error of their mean, whichever cell is asked.
    assert cap.error_of_difference(baseline, "accuracy") == pytest.approx((1 / 12) ** 0.5)
    assert baseline.error_of_difference(cap, "accuracy") == cap.error_of_difference(baseline, "accuracy")
    assert set(other.document["paired"]) == {"baseline", "cap_vema"}
    assert cap.error_of_difference(other, "i_top1") is not None


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda document: document["config"].update(contrast_batch_size=32), "size was 32 and is 64"),
        (lambda document: document["description"]["data"]["options"].update(draw="uniform"), "draw was 'uniform' and"),
    ],
)
def test_a_result_with_other_settings_is_refused_and_stays(tmp_path: Path, edit: Edit, message: str) -> None:
    """Neither setting is named by the tier: the cell was computed with what was the default then."""
    result = finish(job_of(), ANSWERS, tmp_path)
    change(job_of(), tmp_path, edit)
    before = job_of().result_file(tmp_path).read_bytes()
    with pytest.raises(MIVError, match=message):
        find_result(job_of(), tmp_path)
    with pytest.raises(MIVError, match="different settings"):
        write_result(job_of(), tmp_path, result.document)
    assert job_of().result_file(tmp_path).read_bytes() == before


def test_a_cell_from_before_a_setting_came_stays_valid(tmp_path: Path) -> None:
    finish(job_of(), ANSWERS, tmp_path)

    def as_before(document: dict[str, Any]) -> None:
        del document["config"]["select_by"]
        document["description"]["data"]["options"] = {"round": 0}

    change(job_of(), tmp_path, as_before)
    assert find_result(job_of(), tmp_path) is not None


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace('"paired"', '"pair"'),
        lambda text: text.replace('"auroc"', '"area"'),
        lambda text: text.replace("miv-result", "miv-run"),
    ],
)
def test_a_damaged_cell_is_not_done_and_the_remedy_is_said(tmp_path: Path, damage: Callable[[str], str]) -> None:
    finish(job_of(), ANSWERS, tmp_path)
    path = job_of().result_file(tmp_path)
    path.write_text(damage(path.read_text()))
    with pytest.raises(MIVError, match="Remove its line to compute the cell again"):
        find_result(job_of(), tmp_path)
    path.write_text("")
    assert find_result(job_of(), tmp_path) is None


def test_cells_of_earlier_versions_are_refused_with_a_reason(tmp_path: Path) -> None:
    finish(job_of(), ANSWERS, tmp_path)
    change(job_of(), tmp_path, lambda document: document.update(version=1))
    with pytest.raises(MIVError, match="has version 1; this miv reads version 2"):
        find_result(job_of(), tmp_path)
    packed = tmp_path / "cpu" / "claims.jsonl"
    packed.write_text('{"cell": "pma/round-0", "files": {"result.json": {}}}\n')
    with pytest.raises(MIVError, match="line 1: expected"):
        find_result(job_of("pma", task="claims"), tmp_path)


def test_two_that_computed_the_same_cell_leave_the_first(tmp_path: Path) -> None:
    """Each in its own work folder, so neither knew of the other; the second comes while the first is writing."""
    job, results = job_of(), tmp_path / "results"
    second_document = document_of(job, answers_of([1.0, -1.0, 1.0, -1.0], [1, 0, 1, 0]), tmp_path / "second")
    first_document = document_of(job, ANSWERS, tmp_path / "first")
    results.mkdir()
    with FileLock(results / ".lock", thread_local=False):
        second = threading.Thread(target=write_result, args=(job, results, second_document))
        second.start()
        second.join(0.3)
        assert second.is_alive()
        job.result_file(results).parent.mkdir()
        job.result_file(results).write_text(json.dumps({"cell": job.result_name, "result": first_document}))
    second.join()
    result = find_result(job, results)
    assert result is not None
    assert result.metrics["auroc"] == 0.5


def test_a_file_has_every_cell_in_the_same_order(tmp_path: Path) -> None:
    jobs = [job_of("pma"), job_of("baseline", 1), job_of("msa", task="claims")]
    before = [finish(job, ANSWERS, tmp_path / "one").document for job in jobs]
    for job, document in reversed(list(zip(jobs, before, strict=True))):
        write_result(job, tmp_path / "two", document)
    for name in ("claims", "qmnist"):
        assert (tmp_path / f"one/cpu/{name}.jsonl").read_bytes() == (tmp_path / f"two/cpu/{name}.jsonl").read_bytes()
    assert sorted(path.name for path in (tmp_path / "one/cpu").iterdir()) == ["claims.jsonl", "qmnist.jsonl"]
    assert [find_result(job, tmp_path / "one").document for job in jobs] == before  # type: ignore[union-attr]


def test_a_cell_that_is_there_twice_is_named(tmp_path: Path) -> None:
    finish(job_of(), ANSWERS, tmp_path)
    path = job_of().result_file(tmp_path)
    path.write_text(path.read_text() * 2)
    with pytest.raises(MIVError, match="baseline/round-0 is there twice"):
        find_result(job_of(), tmp_path)
