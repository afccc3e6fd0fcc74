"""Files of a run with contents of any shape: an error that names the file and the field, never a traceback."""

import json
from pathlib import Path

import pytest

import miv
from miv.errors import MIVWarning
from tests.cli.running import run_command
from tests.training.tiny import tiny_sets


def test_one_damaged_run_does_not_hide_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    miv.train(tiny_sets("features", 60), out="runs/b", max_epochs=1, threads=1, verbose=False)
    Path("runs/a").mkdir()
    Path("runs/a/run.json").write_text('{"format": "miv-run", "data": 3, "seed": 0, "done": true}')
    with pytest.warns(MIVWarning, match=r"runs/a/run.json: 'data' is '3'. Expected an object"):
        rows = json.loads(run_command("runs", "list", "--json"))
    assert [(row["run"], row["state"]) for row in rows] == [("runs/a", "damaged"), ("runs/b", "done")]
