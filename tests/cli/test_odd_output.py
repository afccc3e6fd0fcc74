"""Output to terminals without UTF-8, to readers that are gone, and names with odd bytes: one line, no traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden"


def miv(*arguments: "str | bytes", encoding: str = "utf-8", **options: object) -> "subprocess.CompletedProcess[bytes]":
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    command = [sys.executable, "-m", "miv", *arguments]
    return subprocess.run(command, env=environment, stderr=subprocess.PIPE, check=False, **options)  # type: ignore[call-overload]


def test_control_characters_and_odd_bytes_in_names_are_escaped_in_errors() -> None:
    done = miv("runs", "list", b"no\x1b[2Jpe\xff", encoding="ascii")
    assert done.returncode == 1
    assert done.stderr.decode("ascii").startswith("Error: There is no folder no\\x1b[2Jpe\\udcff.")


def test_a_table_and_json_on_an_ascii_terminal(tmp_path: Path) -> None:
    run = tmp_path / "süß ﬁ"
    run.mkdir()
    about = {"format": "miv-run", "data": {"name": "d", "fingerprints": {}}, "seed": 0, "done": False}
    (run / "run.json").write_text(json.dumps(about))
    (run / "config.json").write_text("{}")
    for encoding in ("ascii", "cp1252"):
        shown = miv("runs", "list", str(tmp_path), encoding=encoding, stdout=subprocess.PIPE)
        assert (shown.returncode, shown.stderr) == (0, b"")
        shown = miv("runs", "list", str(tmp_path), "--json", encoding=encoding, stdout=subprocess.PIPE)
        assert json.loads(shown.stdout.decode(encoding))[0]["run"] == str(run)


def test_a_reader_that_is_gone() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = miv("runs", "list", str(GOLDEN), stdout=writer)
    os.close(writer)
    assert done.stderr == b""


def test_an_output_name_that_is_not_utf8_is_refused_before_the_work(tmp_path: Path) -> None:
    done = miv("data", "build", "digits-twin", "--out", os.fsencode(tmp_path) + b"/a\xff", stdout=subprocess.PIPE)
    assert done.returncode == 1
    assert b"is not UTF-8. Choose another name." in done.stderr
    assert b"Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())
