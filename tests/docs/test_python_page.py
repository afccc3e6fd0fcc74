"""The code of docs/python.md, block by block, as a reader runs it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from miv.backbones import BACKBONES
from miv.poolings import POOLINGS

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


@pytest.fixture
def _forgotten_names() -> Iterator[None]:
    """What the page registers is not there for other tests."""
    known = [(registry, registry.names()) for registry in (BACKBONES, POOLINGS)]
    yield
    for registry, names in known:
        for name in set(registry.names()) - set(names):
            del registry._entries[name]


@pytest.mark.usefixtures("_forgotten_names")
def test_every_block_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MIV_CACHE_DIR", str(tmp_path / "cache"))
    text = PAGE.read_text("utf-8")
    names: dict[str, Any] = {"__name__": "page"}
    blocks = list(re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))
    assert blocks
    for block in blocks:
        line = text[: block.start(1)].count("\n")
        exec(compile("\n" * line + block.group(1), str(PAGE), "exec"), names)  # so that errors name the page's line
