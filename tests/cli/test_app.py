import json
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import miv
from miv.cli import main
from miv.errors import MIVWarning


def run(*arguments: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["miv", *arguments])
    with pytest.raises(SystemExit) as exit_:
        main()
    captured = capsys.readouterr()
    return int(exit_.value.code or 0), captured.out, captured.err


def test_our_own_warnings_are_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def warn() -> None:
        warnings.warn("2 of 6 texts are long.", MIVWarning, stacklevel=2)
        warnings.warn("of a library", UserWarning, stacklevel=2)
        raise SystemExit(0)

    monkeypatch.setattr("miv.cli.app.app", warn)
    _, _, shown = run(capsys=capsys, monkeypatch=monkeypatch)
    assert shown.splitlines()[0] == "Warning: 2 of 6 texts are long."


def test_version(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("--version", capsys=capsys, monkeypatch=monkeypatch) == (0, f"miv {miv.__version__}\n", "")


def test_poolings_lists_the_registry(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = run("poolings", capsys=capsys, monkeypatch=monkeypatch)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[2:]] == miv.list_poolings()  # after headings and rule
    code, out, _ = run("poolings", "--json", capsys=capsys, monkeypatch=monkeypatch)
    rows = {row["name"]: row for row in json.loads(out)}
    assert list(rows) == miv.list_poolings()
    # By hand for C = 512: LayerNorm 2 C and similarity C; W, J and M of C² + C each; β C; LN_j 2 C.
    assert rows["cap_dba_l2"]["parameters"] == 3 * 512 + 3 * (512**2 + 512) + 512 + 2 * 512
    assert rows["msa"]["has_attention"] is False


def test_a_wrong_command_has_a_message_and_a_code(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, error = run("poolins", capsys=capsys, monkeypatch=monkeypatch)
    assert code != 0
    assert "poolings" in error


def test_help_and_version_do_not_import_torch() -> None:
    script = (
        "import sys; sys.argv = ['miv', '--help']\n"
        "from miv.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules, 'slow imports'"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def test_runs_are_listed_without_torch() -> None:
    script = (
        f"import sys; sys.argv = ['miv', 'runs', 'list', {str(Path(__file__).parents[1] / 'golden')!r}]\n"
        "from miv.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "assert 'torch' not in sys.modules, 'slow imports'"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "cap_dba_l2" in done.stdout


def test_an_error_is_one_message_without_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from miv.cli import main; main()", "data", "inspect", str(tmp_path / "nothing")]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 1
    assert process.stderr.startswith("Error: ")
    assert "Traceback" not in process.stderr
    assert process.stdout == ""
