"""How ``benchmarks/scale.py`` measures, calculates and reports."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from benchmarks import scale
from benchmarks.scale_machines import ASSUMED, arithmetic
from benchmarks.scale_memory import in_new_process
from benchmarks.scale_page import goals, growth_bags
from benchmarks.scale_plots import draw_growth

_TAKES_100_MB = """
import json, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from benchmarks.scale_memory import cost
np.ones(50 << 17).sum()  # 50 MB before
print(json.dumps(cost(lambda: np.ones(100 << 17).sum())))
"""


def test_peak_memory_is_that_of_the_work_whatever_its_process_or_its_parent_took_before(tmp_path: Path) -> None:
    script = tmp_path / "work.py"
    script.write_text(_TAKES_100_MB, "utf-8")
    of_this_process = np.ones(400 << 17)  # resident when the other process starts
    found = in_new_process(str(script), Path(__file__).parents[1])
    assert of_this_process.nbytes > 4e8
    assert 95 < found["megabytes"] < 110
    assert 0 < found["processor_seconds"] <= found["seconds"] * 1.1


def test_a_billion_instances_take_what_their_rates_say() -> None:
    cores = ASSUMED["machines"] * ASSUMED["cores"]
    rates = {"features_1": 1e9 / cores / 4, "features_16": 1e9 / cores / 20, "kept_1": 1e9 / cores}
    embedding = {"texts": 1e9 / cores / 7200, "images": 1e9 / cores / 60}
    found = arithmetic(embedding, {"texts": 125.0, "images": 1250.0}, rates, 10_000)
    expected = {
        "text_read_seconds": 1,  # 125 GB over 100 networks of 1.25 GB/s
        "image_read_seconds": 10,
        "text_embed_hours": 2,
        "image_embed_minutes": 1,
        "stored_gb": 768,  # a billion times 384 numbers of two bytes
        "disk_seconds": 7.68,  # 768 GB on 100 disks of 1 GB/s
        "pass_processor_seconds": 4,
        "pass_seconds": 7.68,  # the disks are slower
        "pass_16_seconds": 20,  # the processors are
        "one_machine_pass_minutes": 12.8,
        "parts": 4000,
        "merged_mb": 40,
        "merge_milliseconds": 32,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)


def test_goals_are_reached_or_not_or_not_measured() -> None:
    figures = {
        "stream_efficiency": 0.41,
        "stream_queries_cost": 0.31,
        "quantised_auroc_loss": 0.001,
        "runs": {"stream_efficiency": {"running_before": 7}, "quantised_auroc_loss": {"load_before": 1.6}},
    }
    rows = {row.split("`")[1]: row.split(" | ")[-3:] for row in goals(figures).splitlines()[2:]}
    assert rows["stream_efficiency"] == ["0.41", "yes", "7.00 |"]
    assert rows["stream_queries_cost"] == ["0.31", "**no**", "7.00 |"]
    assert rows["quantised_auroc_loss"] == ["0.001", "yes", "unknown (load average 1.60) |"]  # of the figure before too
    assert rows["ray_efficiency"] == ["–", "–", "– |"]


def test_growth_is_a_table_and_a_picture(tmp_path: Path) -> None:
    cell = {"seconds": 9.0, "processor_seconds": 0.004, "megabytes": 0.0}
    figures = {"growth_bags": {"verify": {"100": cell}, "stream": {"100": cell, "1000": {**cell, "megabytes": 12.3}}}}
    assert growth_bags(figures).splitlines()[2:] == [
        "| 100 | 0.004 | 0 | 0.004 | 0 |",
        "| 1,000 | – | – | 0.004 | 12 |",
    ]
    draw_growth(figures, tmp_path / "plots")
    assert {path.name for path in (tmp_path / "plots").iterdir()} == {"growth_bags.png", "growth_bags.svg"}


@pytest.mark.slow
def test_the_cells_of_growth_are_measured(tmp_path: Path) -> None:
    script = Path(__file__).parents[1] / "benchmarks" / "scale_growth.py"
    found = in_new_process(str(script), "--largest-bag", 1000, "--most-exemplars", 1000, "--folder", tmp_path)
    bags, exemplars = found["growth_bags"], found["growth_exemplars"]
    assert [(way, *cells) for way, cells in bags.items()] == [
        ("verify", "100", "1000"),
        ("stream", "100", "1000"),
        ("kept", "100", "1000"),
    ]
    assert [(way, *cells) for way, cells in exemplars.items()] == [("verify_many", "1000"), ("score", "1000")]
    assert found["stream_memory_mb"] == bags["stream"]["1000"]["megabytes"]
    assert all(cell["processor_seconds"] > 0 for cells in bags.values() for cell in cells.values())
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def one_figure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A figure that is measured at once, in this process, on a machine where two threads run beside."""
    (tmp_path / "loadavg").write_text("9.00 8.00 7.00 3/400 1234\n")
    monkeypatch.setattr(scale, "LOADAVG", tmp_path / "loadavg")
    monkeypatch.setattr(scale, "_PAUSE", 0)
    monkeypatch.setattr(scale, "FIGURES", {"one": lambda folder, data: {"one": len(list(folder.iterdir()))}})
    monkeypatch.setattr(scale, "ProcessPoolExecutor", lambda count, context: ThreadPoolExecutor(count))


@pytest.mark.usefixtures("one_figure")
def test_the_folder_of_the_output_is_made_or_told_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "new" / "figures.json"
    monkeypatch.setattr(sys, "argv", ["scale.py", "--folder", str(tmp_path / "work"), "--out", str(out)])
    scale.main()
    figures = json.loads(out.read_text())
    assert figures["one"] == 0
    assert figures["runs"]["one"]["running_before"] == 2
    assert list((tmp_path / "work").iterdir()) == []
    monkeypatch.setattr(sys, "argv", ["scale.py", "--out", str(out / "figures.json")])
    with pytest.raises(SystemExit, match="2"):
        scale.main()
    told = capsys.readouterr()
    assert f"cannot create the folder {out}: File exists" in told.err
    assert told.err.count("1 of 1") == 1


def test_an_unknown_figure_is_an_error_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["scale.py", "--only", "stream_efficency", "--folder", str(tmp_path / "none")]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit, match="2"):
        scale.main()
    assert "there is no figure 'stream_efficency'; known: stream_efficiency, " in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
