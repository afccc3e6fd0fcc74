import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "explaining.md"


def test_the_example_of_the_page_runs() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert result.attempted >= 8
    assert result.failed == 0
