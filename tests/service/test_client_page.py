"""The Python of docs/serving.md runs against a service."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.packing import ROOT
from tests.docs.page_blocks import read_blocks
from tests.service.service_in_a_thread import served


def test_the_code_of_the_page_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = [block.text for block in read_blocks(ROOT / "docs" / "serving.md") if block.language == "python"]
    names: dict[str, Any] = {}
    with served("miv/digits", keep=tmp_path / "kept", galleries=tmp_path / "galleries") as url:
        for text in blocks:
            if "miv/evidence" not in text:  # its libraries are large
                exec(text.replace("http://localhost:8000", url), names)
        names["client"].close()
    printed = capsys.readouterr().out
    assert "'second'" in printed
