"""The frame of all commands: version, warnings and errors in one line, output to odd terminals, and quick imports."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import miv
from miv.errors import MIVWarning
from tests.fence.interface import run_miv

GOLDEN = Path(__file__).parents[1] / "golden"


def test_our_own_warnings_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def warn() -> None:
        warnings.warn("2 of 6 texts are long.", MIVWarning, stacklevel=2)
        warnings.warn("of a library", UserWarning, stacklevel=2)

    monkeypatch.setattr("miv.cli.app.app", warn)
    assert run_miv()[2].splitlines()[0] == "Warning: 2 of 6 texts are long."


def test_version() -> None:
    assert run_miv("--version") == (0, f"miv {miv.__version__}\n", "")


def test_poolings_lists_the_registry() -> None:
    code, out, _ = run_miv("poolings")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[2:]] == miv.list_poolings()  # after headings and rule
    rows = {row["name"]: row for row in json.loads(run_miv("poolings", "--json")[1])}
    assert list(rows) == miv.list_poolings()
    # By hand for C = 512: LayerNorm 2 C and similarity C; W, J and M of C² + C each; β C; LN_j 2 C.
    assert rows["cap_dba_l2"]["parameters"] == 3 * 512 + 3 * (512**2 + 512) + 512 + 2 * 512
    assert rows["msa"]["has_attention"] is False


QUICK = f"""
import sys
from miv.cli import main
for arguments in (["--help"], ["runs", "list", {str(GOLDEN)!r}]):
    assert "numpy" not in sys.modules, "slow imports"
    sys.argv = ["miv", *arguments]
    try: main()
    except SystemExit: pass
import miv.data.inspection, miv.tasks
miv.tasks.list_tasks()
assert "torch" not in sys.modules, "slow imports"
"""


def test_what_needs_no_verifier_does_not_import_torch() -> None:
    done = subprocess.run([sys.executable, "-c", QUICK], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "cap_dba_l2" in done.stdout


def test_control_characters_and_odd_bytes_in_names_are_escaped_in_errors() -> None:
    code, out, error = run_miv("runs", "list", os.fsdecode(b"no\x1b[2Jpe\xff"))
    assert (code, out) == (1, "")
    assert error.startswith("Error: There is no folder no\\x1b[2Jpe\\udcff.")
