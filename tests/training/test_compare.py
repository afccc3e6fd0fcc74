import json
from pathlib import Path

import pytest

from miv.errors import MIVError
from miv.evaluation.runs import FORMAT, compare_runs, find_runs, summarise_runs
from miv.runtime import table_of
from miv.training.config import TrainingConfig

METRICS = {"classification": {"auroc": 0.75}, "witnesses": None}


def write_run(path: Path, splits: tuple[str, ...], **about: object) -> Path:
    path.mkdir(parents=True)
    known = {"format": FORMAT, "data": {"name": "d", "fingerprints": {}}, "seed": 0, "done": True, "seconds": 1.0}
    (path / "run.json").write_text(json.dumps({**known, **about}))
    (path / "config.json").write_text(json.dumps(TrainingConfig().document()))
    (path / "evaluation.json").write_text(json.dumps(dict.fromkeys(splits, METRICS)))
    return path


def test_a_run_that_lacks_the_split_has_no_figures_and_stops_nothing(tmp_path: Path) -> None:
    with_test = write_run(tmp_path / "a", ("validation", "test"))
    without = write_run(tmp_path / "b", ("validation",))
    rows = summarise_runs(find_runs(tmp_path), "test")
    assert [(row["run"], row["auroc"], row["state"]) for row in rows] == [
        (str(with_test), 0.75, "done"),
        (str(without), None, "done"),
    ]
    assert "–" in table_of(compare_runs([with_test, without], "test"))
    with pytest.raises(MIVError, match=r"no split 'tset'\. Did you mean 'test'.*validation"):
        summarise_runs(find_runs(tmp_path), "tset")


def test_a_run_from_before_a_metric_has_a_dash_for_it(tmp_path: Path) -> None:
    old, new = (write_run(tmp_path / name, ("test",)) for name in ("old", "new"))
    ranks = {"i_auroc": 0.9, "i_ap": 0.8}
    for run, witnesses in ((old, ranks), (new, {**ranks, "i_mrr": 0.7, "i_top1": 0.6})):
        (run / "evaluation.json").write_text(json.dumps({"test": {**METRICS, "witnesses": witnesses}}))
    rows = compare_runs([old, new], "test")
    assert [(row["i_ap"], row["i_mrr"], row["i_top1"]) for row in rows] == [(0.8, None, None), (0.8, 0.7, 0.6)]
    assert "0.8000  –       –" in table_of(rows)


@pytest.mark.parametrize("missing", ["data", "seed", "done"])
def test_a_record_that_lacks_something_is_damaged(tmp_path: Path, missing: str) -> None:
    run = write_run(tmp_path / "a", ("test",))
    about = json.loads((run / "run.json").read_text())
    del about[missing]
    (run / "run.json").write_text(json.dumps(about))
    with pytest.raises(MIVError, match=f"run.json.*{missing}.*damaged"):
        summarise_runs([run], "test")
