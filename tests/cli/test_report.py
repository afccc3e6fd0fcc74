"""The command ``miv report``, on runs in folders."""

from pathlib import Path

import pytest

from miv import MIVError
from miv.data import save_splits
from tests.cli.running import run_command as run
from tests.training.tiny import run_tiny, tiny_sets


def test_runs_become_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, pooling in (("one", "cap_dba_l2"), ("two", "gabmil")):
        run_tiny("features", tmp_path / name, pooling=pooling, max_epochs=1)
    save_splits(tiny_sets("features"), tmp_path / "sets", builder="tiny", options={}, seed=0)
    report = ["report", "one", "two", "--data", "sets"]
    assert run(*report, "--title", "Tiny <set>").split() == ["report.html"]
    page = Path("report.html").read_text()
    assert "<h1>Tiny &lt;set&gt;</h1>" in page
    save_splits(tiny_sets("features", 30), tmp_path / "others", builder="tiny", options={}, seed=0)
    for arguments, message in (
        ([], "report.html already exists"),
        (["--overwrite", "--split", "tset"], "Did you mean 'test'"),
        (["--overwrite", "--split", "train"], "split with answers"),
        (["--overwrite", "--data", "others"], "is not the data of"),
    ):
        with pytest.raises(MIVError, match=message):
            run(*report, *arguments)
    for runs, message in ((["one", "two"], "--data DIR"), (["sets"], "not a run")):
        with pytest.raises(MIVError, match=message):
            run("report", *runs, "--overwrite")
    assert Path("report.html").read_text() == page
    run(*report, "--overwrite")
    assert Path("report.html").read_text() != page  # without the title


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--exemplars", "0"], "Expected 1 to 20,000"),
        (["--out", "report.pdf"], r"ends in \.html"),
        (["--out", "folder.html"], "is a folder"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is_read(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder.html").mkdir()
    with pytest.raises(MIVError, match=message):  # and not that there is no such run
        run("report", "no-run", *arguments)
