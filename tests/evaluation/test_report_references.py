"""Reports on queries of several references: they are shown, with the matrix of matches and the files."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from miv import ExemplarSet, InstancePool, Verifier
from miv.evaluation import ReportModel, ReportSource, predict, write_report
from miv.evaluation.report_exemplars import gallery
from miv.verifier.decisions import OperatingPoint


@pytest.fixture
def source(tmp_path: Path) -> ReportSource:
    random = np.random.default_rng(0)
    names = np.array([f"photos/{number}.png" for number in range(8)], dtype=object)
    pool = InstancePool("features", random.normal(size=(8, 4)).astype(np.float32), names=names)
    exemplars = ExemplarSet.from_lists(
        pool, [0, 1], [[3, 4, 5], [6, 7]], [1, 0], references=[[1, 2], []], query_ids=["anna", "bo"]
    )
    verifier = Verifier("cap_dba_l2", channels=4).eval()
    verifier.save_pretrained(tmp_path / "verifier")
    model = ReportModel("one", predict(verifier, exemplars), OperatingPoint(), {}, {}, None, tmp_path / "verifier")
    return ReportSource("data", "test", exemplars, [model])


def test_the_gallery_has_the_references_and_their_matches(source: ReportSource) -> None:
    found = gallery(source, 10)
    order = found["exemplar"].index(0), found["exemplar"].index(1)
    rows = found["reference"][found["reference_ptr"][order[0]] : found["reference_ptr"][order[0] + 1]]
    assert [found["number"][row] for row in rows] == [0, 1, 2]
    assert [found["names"][row] for row in rows] == ["photos/0.png", "photos/1.png", "photos/2.png"]
    assert found["number"][found["query"][order[0]]] == 0
    bag = found["bag"][found["ptr"][order[0]] : found["ptr"][order[0] + 1]]
    assert [found["number"][row] for row in bag] == [3, 4, 5]
    assert found["query_id"][order[1]] == "bo"
    matches = found["models"][0]["matches"]
    assert matches[order[1]] is None
    verifier = Verifier.from_pretrained(source.models[0].verifier)  # type: ignore[arg-type]
    values = source.exemplars.pool.values
    expected = verifier.verify(values[:3], values[3:6]).matches
    assert np.array(matches[order[0]]) == pytest.approx(expected, abs=1e-3)


def test_single_queries_have_none(source: ReportSource) -> None:
    exemplars = source.exemplars.with_first_reference()
    model = replace(source.models[0], answers=predict(Verifier("baseline", channels=4).eval(), exemplars))
    found = gallery(ReportSource("data", "test", exemplars, [model]), 10)
    assert found["reference"] is None
    assert found["models"][0]["matches"] is None


def test_the_page_is_written(source: ReportSource, tmp_path: Path) -> None:
    write_report(source, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "photos/2.png" in page
    assert "Which reference matches which instance?" in page
