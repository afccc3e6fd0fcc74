"""Commands, JSON outputs, public names and the web service are what they were; see ``tests.fence`` for changes."""

import json
from importlib import import_module
from pathlib import Path

import pytest

import miv
from tests.fence.interface import GOLDEN, OBSERVED, SNAPSHOT, run_miv

# What README.md and the guide import from a room, or tell readers to call there.
DOCUMENTED = {
    "miv.backbones.audio": ["SpeakerEncoder"],
    "miv.data": ["load_splits", "save_splits"],
    "miv.data.sources": ["splits_from_folder"],
    "miv.errors": ["MIVError"],
    "miv.evaluation": [
        "Predictions",
        "calibrate",
        "classification_metrics",
        "evaluate",
        "witness_metrics",
        "witness_rankings",
        "witness_scores",
    ],
    "miv.evaluation.predicting": ["explain"],
    "miv.interop.sklearn": ["OnInstances"],
    "miv.poolings": ["EuclideanPooling"],
    "miv.scoring": ["score"],
    "miv.service": ["Client", "ServiceError", "ServiceSettings", "create_app"],
    "miv.verifier.decisions": ["OperatingPoint"],
    "miv.verifier.explain": ["explain_features"],
    "miv.verifier.references": ["ReferenceRule"],
    "miv.verifier.streaming": ["StreamingPass"],
}


@pytest.mark.parametrize("part", OBSERVED)
def test_the_interface_is_that_of_the_snapshot(part: str) -> None:
    snapshot = json.loads(SNAPSHOT.read_text())[part]
    before = {(name, line) for name, lines in snapshot.items() for line in ["", *lines]}
    now = {(name, line) for name, lines in OBSERVED[part]().items() for line in ["", *lines]}
    assert sorted(before - now) == [], "removed; users rely on it"
    assert sorted(now - before) == [], "new; run `python -m tests.fence.interface`"


def test_every_public_name_is_there() -> None:
    assert [name for name in miv.__all__ if getattr(miv, name, None) is None] == []


@pytest.mark.parametrize("module", DOCUMENTED)
def test_documented_imports_work(module: str) -> None:
    room = import_module(module)
    assert [name for name in DOCUMENTED[module] if not hasattr(room, name)] == []


RUN, DATA = str(GOLDEN / "run"), str(GOLDEN / "exemplars")
EXIT_CODES: list[tuple[int, list[str]]] = [
    (0, ["--help"]),
    (0, ["--version"]),
    (0, ["verify", "-h"]),
    (2, []),  # help, as nothing was asked for
    (2, ["verfy"]),
    (2, ["poolings", "--jsn"]),
    (2, ["train", DATA]),  # without --out
    (2, ["train", DATA, "--out", "new", "--threads", "none"]),
    (2, ["gallery", "search", str(GOLDEN / "gallery")]),
    (1, ["verify", "miv/digit", "--query", "query.png", "--bag", "bag"]),
    (1, ["verify", "miv/digits", "--query", "query.png", "--bag", "bag"]),  # no such files
    (1, ["evaluate", RUN, "no-such-folder"]),
    (1, ["evaluate", DATA, DATA]),
    (1, ["evaluate", RUN, DATA, "--split", "tset"]),
    (1, ["train", DATA, "--out", RUN]),  # there is a run
    (1, ["train", DATA, "--out", "new", "--pooling", "cap"]),
    (1, ["calibrate", RUN, DATA, "--goal", "far"]),
    (1, ["gallery", "info", DATA]),
    (1, ["data", "inspect", RUN]),
]


@pytest.mark.parametrize(("code", "arguments"), EXIT_CODES, ids=lambda value: str(value) if value in (0, 1, 2) else "")
def test_exit_codes(code: int, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ended, output, error = run_miv(*arguments)
    assert ended == code, error
    assert "Traceback" not in output + error
    if code == 1:
        assert error.splitlines()[-1].startswith("Error: ")
    assert list(tmp_path.iterdir()) == []
