import doctest
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "evaluation.md"


def test_the_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert result.attempted >= 13
    assert result.failed == 0
