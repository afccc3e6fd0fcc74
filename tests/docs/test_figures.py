"""The figures in the pages are those of the result files, as docs/figures.py writes them."""

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
COMMAND = "Run `python docs/figures.py`."


@pytest.fixture(scope="module")
def figures() -> ModuleType:
    """The script; docs is no package, so it is loaded by its path."""
    spec = importlib.util.spec_from_file_location("figures", ROOT / "docs" / "figures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_figure_is_written_between_its_marks(figures: ModuleType) -> None:
    before = "has <!-- figure verifying-qmnist.json exemplars ,d -->many<!-- end --> exemplars"
    assert "-->2,318<!--" in figures.filled(before)


def test_a_table_is_written_between_its_marks(figures: ModuleType) -> None:
    page = figures.filled("has\n\n<!-- table goals -->\nold\n<!-- end table -->\n\nand more")
    assert page.startswith("has\n\n<!-- table goals -->\n| figure |")
    assert page.endswith(" |\n<!-- end table -->\n\nand more")
    assert "old" not in page


def test_the_figures_of_all_pages_are_up_to_date(figures: ModuleType) -> None:
    pages = {page.relative_to(ROOT).as_posix(): page.read_text("utf-8") for page in figures.PAGES}
    assert [name for name, text in pages.items() if figures.filled(text) != text] == [], COMMAND
    marked = {name for name, text in pages.items() if figures.FIGURE.search(text)}
    assert marked
    for name, text in pages.items():  # a mark that the script does not understand would stay as it is
        assert text.count("<!-- figure ") == len(figures.FIGURE.findall(text)), name
        assert text.count("<!-- table ") == len(figures.TABLE.findall(text)), name
        # Markdown takes a line that begins with a comment as HTML, which would end the paragraph before it.
        assert re.findall(r"^\s*<!-- figure .*", text, re.MULTILINE) == [], name


def test_the_summary_is_up_to_date(figures: ModuleType) -> None:
    kept = json.loads((ROOT / "docs" / "results" / "summary.json").read_text("utf-8"))
    assert figures.summary() == kept, COMMAND
