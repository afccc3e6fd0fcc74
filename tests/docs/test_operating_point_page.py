import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "operating-point.md"


def test_the_examples_of_the_page_run() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert result.attempted >= 9
    assert result.failed == 0
