"""Every command and every piece of Python in the pages runs, page by page, each in a folder of its own."""

import sys
from pathlib import Path
from typing import Any

import pytest

from miv.backbones import BACKBONES
from miv.poolings import POOLINGS
from tests.docs.page_blocks import is_code, read_blocks, run_block
from tests.docs.page_files import PageFiles

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs/results").glob("*.md")]
)


def cases() -> list[Any]:
    """Each page without its slow blocks, and again with them, marked slow, where it has any."""
    pages = []
    for page in PAGES:
        blocks = [block for block in read_blocks(page) if is_code(block) and not block.not_run]
        name = str(page.relative_to(ROOT))
        if any(not block.slow for block in blocks):
            pages.append(pytest.param(page, False, id=name))
        if any(block.slow for block in blocks):
            pages.append(pytest.param(page, True, id=f"{name} with slow blocks", marks=pytest.mark.slow))
    return pages


@pytest.fixture(scope="module")
def page_files(tmp_path_factory: pytest.TempPathFactory) -> PageFiles:
    return PageFiles(tmp_path_factory.mktemp("page_files"))


@pytest.mark.parametrize(("page", "with_slow"), cases())
def test_the_code_of_a_page_runs(
    page: Path, with_slow: bool, page_files: PageFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])  # a page may import what it has put beside it
    monkeypatch.setenv("MIV_CACHE_DIR", str(tmp_path / "cache"))
    for registry in (BACKBONES, POOLINGS):  # what a page registers is not there for other tests
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    names: dict[str, Any] = {"__name__": "page"}
    for block in read_blocks(page):
        if block.not_run or (block.slow and not with_slow):
            continue
        for name in block.needs:
            page_files.put(name)
        run_block(block, names)
